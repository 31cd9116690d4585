package jinja

import (
	"strings"
	"unicode/utf8"
)

func replaceMethod(st *state, s string, a args) (Value, error) {
	b, err := a.bind("replace", 2, "old", "new", "count")
	if err != nil {
		return Value{}, err
	}
	for i := range 2 {
		if b[i].kind != String {
			return Value{}, typeErr("replace() argument %d must be str, not %s", i+1, typeName(b[i]))
		}
	}
	n := -1
	if b[2].kind != Missing {
		if !b[2].isInt() {
			return Value{}, typeErr("'%s' object cannot be interpreted as an integer", typeName(b[2]))
		}
		n = b[2].clamped()
	}
	return replace(st, s, b[0].Str(), b[1].Str(), n)
}

func joinMethod(st *state, sep string, a args) (Value, error) {
	b, err := a.bind("join", 1, "iterable")
	if err != nil {
		return Value{}, err
	}
	items, err := st.itemsOf(b[0])
	if err != nil {
		return Value{}, typeErr("can only join an iterable")
	}
	return st.capture(func() error {
		for i, v := range items {
			if v.kind != String {
				return typeErr("sequence item %d: expected str instance, %s found", i, typeName(v))
			}
			if i > 0 {
				if err := st.write(sep); err != nil {
					return err
				}
			}
			if err := st.write(v.Str()); err != nil {
				return err
			}
		}
		return nil
	})
}

// find is str.find, rfind, index, rindex and count. Positions are in
// characters.
func find(self Value, name string, a args) (Value, error) {
	b, err := a.bind(name, 1, "sub", "start", "end")
	if err != nil {
		return self, err
	}
	if b[0].kind != String {
		return self, typeErr("must be str, not %s", typeName(b[0]))
	}
	start := b[1]
	s, err := window(self, &b)
	if err != nil {
		return self, err
	}
	sub := b[0].Str()
	var i int
	switch name {
	case "count":
		return FromInt(int64(strings.Count(s, sub))), nil
	case "find", "index":
		i = strings.Index(s, sub)
	default:
		i = strings.LastIndex(s, sub)
	}
	if i < 0 {
		if strings.HasSuffix(name, "index") {
			return self, valueErr("substring not found")
		}
		return FromInt(-1), nil
	}
	at := utf8.RuneCountInString(s[:i])
	if start.kind != Missing {
		from, _, _, err := sliceBounds(self.runes(), start, noneValue, noneValue)
		if err != nil {
			return self, err
		}
		at += from
	}
	return FromInt(int64(at)), nil
}

func partition(s, name string, a args) (Value, error) {
	sep, err := oneStr(name, a)
	if err != nil {
		return Value{}, err
	}
	if sep == "" {
		return Value{}, valueErr("empty separator")
	}
	if name == "partition" {
		if before, after, ok := strings.Cut(s, sep); ok {
			return fromTuple(FromString(before), FromString(sep), FromString(after)), nil
		}
		return fromTuple(FromString(s), FromString(""), FromString("")), nil
	}
	if i := strings.LastIndex(s, sep); i >= 0 {
		return fromTuple(FromString(s[:i]), FromString(sep), FromString(s[i+len(sep):])), nil
	}
	return fromTuple(FromString(""), FromString(""), FromString(s)), nil
}

// justify is str.center, ljust, rjust and zfill.
func justify(st *state, self Value, name string, a args) (Value, error) {
	b, err := a.bind(name, 1, "width", "fillchar")
	if err != nil {
		return self, err
	}
	if !b[0].isInt() {
		return self, typeErr("'%s' object cannot be interpreted as an integer", typeName(b[0]))
	}
	fill := " "
	if name == "zfill" {
		fill = "0"
	} else if b[1].kind != Missing {
		if fill = b[1].Str(); b[1].runes() != 1 || b[1].kind != String {
			return self, typeErr("The fill character must be exactly one character long")
		}
	}
	width := b[0].int()
	n := width - int64(self.runes())
	if n <= 0 {
		return self, nil
	}
	if n > int64(st.buildLeft/len(fill)) {
		return self, errBuild
	}
	s, left := self.Str(), 0
	switch name {
	case "rjust":
		left = int(n)
	case "center":
		left = int(n/2 + n&width&1)
	case "zfill":
		sign := ""
		if strings.HasPrefix(s, "-") || strings.HasPrefix(s, "+") {
			sign, s = s[:1], s[1:]
		}
		return st.str(sign + strings.Repeat("0", int(n)) + s)
	}
	return st.str(strings.Repeat(fill, left) + s + strings.Repeat(fill, int(n)-left))
}

func expandTabs(st *state, s string, a args) (Value, error) {
	b, err := a.bind("expandtabs", 0, "tabsize")
	if err != nil {
		return Value{}, err
	}
	size := int64(8)
	if b[0].kind != Missing {
		if !b[0].isInt() {
			return Value{}, typeErr("'%s' object cannot be interpreted as an integer", typeName(b[0]))
		}
		size = b[0].int()
	}
	if c := strings.Count(s, "\t"); c > 0 && size > int64(st.buildLeft/c) {
		return Value{}, errBuild
	}
	var out strings.Builder
	col := int64(0)
	for _, r := range s {
		switch {
		case r == '\t':
			if size > 0 {
				n := size - col%size
				out.WriteString(strings.Repeat(" ", int(n)))
				col += n
			}
		case r == '\n' || r == '\r':
			out.WriteRune(r)
			col = 0
		default:
			out.WriteRune(r)
			col++
		}
	}
	return st.str(out.String())
}
