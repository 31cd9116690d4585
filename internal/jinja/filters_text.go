package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// textFilter returns a filter that works on str(x).
func textFilter(name string) filterFunc {
	f := map[string]func(st *state, s Value, a args) (Value, error){
		"capitalize": func(st *state, s Value, _ args) (Value, error) { return st.str(capitalize(s.Str())) },
		"center": func(st *state, s Value, a args) (Value, error) {
			b, err := a.bind("center", 0, "width")
			if err != nil {
				return s, err
			}
			if b[0].kind == Missing {
				b[0] = FromInt(80)
			}
			return callMethod(st, s, "center", args{pos: b[:1]})
		},
		"e":           escapeOnce,
		"escape":      escapeOnce,
		"forceescape": func(st *state, s Value, _ args) (Value, error) { return st.markup(escapeText(s.Str())) },
		"format":      filterFormat,
		"indent":      filterIndent,
		"lower":       func(st *state, s Value, _ args) (Value, error) { return st.str(toLower(s.Str())) },
		"replace":     filterReplace,
		"safe": func(_ *state, s Value, _ args) (Value, error) {
			s.flag |= strMarkup
			return s, nil
		},
		"string":   func(_ *state, s Value, _ args) (Value, error) { return s, nil },
		"title":    func(st *state, s Value, _ args) (Value, error) { return st.str(titleFilter(s.Str())) },
		"trim":     filterTrim,
		"truncate": filterTruncate,
		"upper":    func(st *state, s Value, _ args) (Value, error) { return st.str(toUpper(s.Str())) },
		"wordcount": func(st *state, s Value, _ args) (Value, error) {
			words := strings.FieldsFunc(s.Str(), func(r rune) bool { return !isWord(r) && !unicode.IsNumber(r) })
			return FromInt(int64(len(words))), st.build(16 * len(words))
		},
	}[name]
	return func(st *state, x Value, a args) (Value, error) {
		if x.kind != String && (name == "truncate" || name == "indent") {
			return x, notString(x, name)
		}
		s, err := st.toStr(x)
		if err != nil {
			return x, err
		}
		if err := st.spendText(name, s); err != nil {
			return x, err
		}
		return f(st, s, a)
	}
}

// notString is the error of the filters that need a str.
func notString(x Value, name string) error {
	switch {
	case x.isUndef():
		return x.fail()
	case name == "truncate" && length(x) < 0:
		return typeErr("object of type '%s' has no len()", typeName(x))
	}
	return typeErr("unsupported operand type(s) for +=: '%s' and 'str'", typeName(x))
}

func escapeOnce(st *state, s Value, _ args) (Value, error) { return st.markup(escapeHTML(s)) }

// markup makes a str that is markup, counting its memory.
func (st *state) markup(s string) (Value, error) { return fromMarkup(s), st.build(len(s)) }

// escapeHTML escapes a str unless it is markup already.
func escapeHTML(v Value) string {
	if v.flag&strMarkup != 0 {
		return v.Str()
	}
	return escapeText(v.Str())
}

func escapeText(s string) string {
	return htmlEscaper.Replace(s)
}

var htmlEscaper = strings.NewReplacer("&", "&amp;", ">", "&gt;", "<", "&lt;", "'", "&#39;", `"`, "&#34;")

func filterFormat(st *state, s Value, a args) (Value, error) {
	switch {
	case len(a.pos) > 0 && len(a.kw) > 0:
		return s, errf(KindFilterArg, "can't handle positional and keyword arguments at the same time")
	case len(a.kw) > 0:
		d := new(Map)
		for _, k := range a.kw {
			d.Set(k.name, k.v)
		}
		return formatPercent(st, s.Str(), FromDict(d))
	}
	return formatPercent(st, s.Str(), fromTuple(append([]Value(nil), a.pos...)...))
}

func filterReplace(st *state, s Value, a args) (Value, error) {
	b, err := a.bind("replace", 2, "old", "new", "count")
	if err != nil {
		return s, err
	}
	old, err := st.toStr(b[0])
	if err != nil {
		return s, err
	}
	with, err := st.toStr(b[1])
	if err != nil {
		return s, err
	}
	n := -1
	switch b[2].kind {
	case Missing, None:
	case Int, Bool:
		n = b[2].clamped()
	default:
		return s, typeErr("'%s' object cannot be interpreted as an integer", typeName(b[2]))
	}
	return replace(st, s.Str(), old.Str(), with.Str(), n)
}

// replace is str.replace, with the size of the result counted beforehand.
func replace(st *state, s, old, with string, n int) (Value, error) {
	if !strings.Contains(s, old) {
		return FromString(s), nil
	}
	if len(with) > len(old) {
		c := strings.Count(s, old)
		if n >= 0 {
			c = min(c, n)
		}
		if c > 0 && len(with) > st.buildLeft/c {
			return Value{}, errBuild
		}
	}
	return st.str(strings.Replace(s, old, with, n))
}

func filterTrim(st *state, s Value, a args) (Value, error) {
	b, err := a.bind("trim", 0, "chars")
	if err != nil {
		return s, err
	}
	out, err := strip(st, s, b[0], true, true)
	out.flag |= s.flag & strMarkup
	return out, err
}

// strip is str.strip, lstrip or rstrip.
func strip(st *state, s, chars Value, left, right bool) (Value, error) {
	match := isSpace
	var failed error
	switch chars.kind {
	case Missing, None:
		n := s.num
		s = stripASCII(s, left, right)
		if err := st.spend(int(n-s.num) >> 4); err != nil {
			return s, err
		}
		if t := s.Str(); t == "" || (!left || t[0] < utf8.RuneSelf) && (!right || t[len(t)-1] < utf8.RuneSelf) {
			return s, nil
		}
	case String:
		set := chars.Str()
		match = func(r rune) bool {
			if failed == nil {
				failed = st.spend(1 + len(set)>>5)
			}
			return failed == nil && strings.ContainsRune(set, r)
		}
	default:
		return s, typeErr("strip arg must be None or str")
	}
	t := s.Str()
	if left {
		t = strings.TrimLeftFunc(t, match)
	}
	if right {
		t = strings.TrimRightFunc(t, match)
	}
	v := FromString(t)
	v.flag = s.flag & strASCII
	if failed == nil {
		failed = st.spend((len(s.Str()) - len(t)) >> 1)
	}
	return v, failed
}

// stripASCII strips the white space that is ASCII.
func stripASCII(s Value, left, right bool) Value {
	t := s.Str()
	for left && t != "" && t[0] < utf8.RuneSelf && isSpace(rune(t[0])) {
		t = t[1:]
	}
	for right && t != "" && t[len(t)-1] < utf8.RuneSelf && isSpace(rune(t[len(t)-1])) {
		t = t[:len(t)-1]
	}
	v := FromString(t)
	v.flag = s.flag & strASCII
	return v
}

func filterIndent(st *state, s Value, a args) (Value, error) {
	b, err := a.bind("indent", 0, "width", "first", "blank")
	if err != nil {
		return s, err
	}
	pad := "    "
	switch b[0].kind {
	case Missing:
	case Int, Bool:
		n := max(b[0].int(), 0)
		if n > int64(st.buildLeft) {
			return s, errBuild
		}
		pad = strings.Repeat(" ", int(n))
	case String:
		pad = b[0].Str()
	default:
		return s, typeErr("can't multiply sequence by non-int of type '%s'", typeName(b[0]))
	}
	lines := splitLines(s.Str()+"\n", false)
	if len(pad) > 0 && len(lines) > st.buildLeft/len(pad) {
		return s, errBuild
	}
	var out strings.Builder
	for i, l := range lines {
		if i > 0 {
			out.WriteByte('\n')
		}
		if i == 0 && truth(b[1]) || i > 0 && (truth(b[2]) || l != "") {
			out.WriteString(pad)
		}
		out.WriteString(l)
	}
	return st.str(out.String())
}

func filterTruncate(st *state, s Value, a args) (Value, error) {
	b, err := a.bind("truncate", 0, "length", "killwords", "end", "leeway")
	if err != nil {
		return s, err
	}
	n, end, leeway := int64(255), "...", int64(5)
	if b[0].isInt() {
		n = b[0].int()
	}
	if b[2].kind == String {
		end = b[2].Str()
	}
	if b[3].isInt() {
		leeway = b[3].int()
	}
	k := int64(utf8.RuneCountInString(end))
	if n < k || leeway < 0 {
		return s, valueErr("expected length >= %d, got %d", k, n)
	}
	if int64(s.runes())-leeway <= n {
		return s, nil
	}
	t := s.Str()[:runeOffset(s.Str(), int(n-k))]
	if !truth(b[1]) {
		if i := strings.LastIndexByte(t, ' '); i >= 0 {
			t = t[:i]
		}
	}
	return st.str(t + end)
}

// titleFilter upper-cases the first letter of every word; words are divided
// by white space and opening brackets.
func titleFilter(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	from := 0 // of the current word
	word := func(w string) {
		if w != "" {
			first, n := utf8.DecodeRuneInString(w)
			writeUpper(&b, first)
			for i, r := range w[n:] {
				writeLower(&b, w[n:], i, r)
			}
		}
	}
	for i, r := range s {
		if isSpace(r) || strings.ContainsRune("-({[<", r) {
			word(s[from:i])
			b.WriteRune(r)
			from = i + utf8.RuneLen(r)
		}
	}
	word(s[from:])
	return b.String()
}
