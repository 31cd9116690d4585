package jinja

import (
	"math"
	"strings"
	"unicode/utf8"
)

// formatBraces is str.format within the sandbox: fields may use attributes and
// items, which are looked up as in the template.
func formatBraces(st *state, s string, a args) (Value, error) {
	f := &braceFormatter{st: st, a: a}
	if err := f.run(s, 0); err != nil {
		return Value{}, err
	}
	return st.str(f.out.String())
}

type braceFormatter struct {
	st     *state
	a      args
	out    strings.Builder
	auto   int
	manual bool
}

func (f *braceFormatter) run(s string, depth int) error {
	if depth > 2 {
		return valueErr("Max string recursion exceeded")
	}
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case (c == '{' || c == '}') && i+1 < len(s) && s[i+1] == c:
			f.out.WriteByte(c)
			i += 2
		case c == '}':
			return valueErr("Single '}' encountered in format string")
		case c == '{':
			end := fieldEnd(s, i)
			if end < 0 {
				if i+1 == len(s) {
					return valueErr("Single '{' encountered in format string")
				}
				return valueErr("expected '}' before end of string")
			}
			if err := f.field(s[i+1:end], depth); err != nil {
				return err
			}
			i = end + 1
		default:
			j := strings.IndexAny(s[i:], "{}")
			if j < 0 {
				j = len(s) - i
			}
			f.out.WriteString(s[i : i+j])
			i += j
		}
	}
	return nil
}

// fieldEnd returns the position of the brace that closes the one at i, or -1.
func fieldEnd(s string, i int) int {
	depth := 0
	for ; i < len(s); i++ {
		switch s[i] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

func (f *braceFormatter) field(s string, depth int) error {
	name, specText := s, ""
	conv := byte(0)
	if i := strings.IndexAny(s, "!:"); i >= 0 {
		name = s[:i]
		rest := s[i:]
		if rest[0] == '!' {
			if len(rest) < 2 {
				return valueErr("end of string while looking for conversion specifier")
			}
			conv, rest = rest[1], rest[2:]
			if rest != "" && rest[0] != ':' {
				return valueErr("expected ':' after conversion specifier")
			}
		}
		specText = strings.TrimPrefix(rest, ":")
	}
	v, err := f.lookup(name)
	if err != nil {
		return err
	}
	if strings.IndexByte(specText, '{') >= 0 {
		inner := &braceFormatter{st: f.st, a: f.a, auto: f.auto, manual: f.manual}
		if err := inner.run(specText, depth+1); err != nil {
			return err
		}
		specText, f.auto = inner.out.String(), inner.auto
	}
	switch conv {
	case 0:
	case 's':
		if v, err = f.st.toStr(v); err != nil {
			return err
		}
	case 'r', 'a':
		w := textWriter{max: f.st.buildLeft}
		if err := w.repr(v, 0); err != nil {
			return err
		}
		v = FromString(string(w.buf))
	default:
		return valueErr("Unknown conversion specifier %c", conv)
	}
	return f.format(v, specText)
}

func (f *braceFormatter) lookup(name string) (Value, error) {
	i := strings.IndexAny(name, ".[")
	if i < 0 {
		i = len(name)
	}
	v, err := f.first(name[:i])
	if err != nil {
		return v, err
	}
	for rest := name[i:]; rest != ""; {
		var key Value
		if rest[0] == '.' {
			n := strings.IndexAny(rest[1:], ".[") + 1
			if n == 0 {
				n = len(rest)
			}
			key, rest = FromString(rest[1:n]), rest[n:]
			if v.isUndef() {
				return v, v.fail()
			}
			a, ok := attribute(v, key)
			if !ok {
				return v, errf(KindAttribute, "%s object has no attribute %s", reprString(typeName(v)), reprString(key.Str()))
			}
			v = a
			continue
		}
		n := strings.IndexByte(rest, ']')
		if n < 0 {
			return v, valueErr("Missing ']' in format string")
		}
		key, rest = FromString(rest[1:n]), rest[n+1:]
		if b, ok := parseInt(key.Str(), 10); ok {
			key = FromBig(b)
		}
		if v.isUndef() {
			return v, v.fail()
		}
		e, ok := item(v, key)
		if !ok {
			return v, errf(KindKey, "%s", repr(key))
		}
		v = e
	}
	return v, nil
}

func (f *braceFormatter) first(name string) (Value, error) {
	n := -1
	if name == "" {
		if f.manual {
			return Value{}, valueErr("cannot switch from manual field specification to automatic field numbering")
		}
		n = f.auto
		f.auto++
	} else if b, ok := parseInt(name, 10); ok && b.IsInt64() {
		if f.auto > 0 {
			return Value{}, valueErr("cannot switch from automatic field numbering to manual field specification")
		}
		f.manual = true
		n = int(min(b.Int64(), math.MaxInt))
	}
	if name != "" && n < 0 {
		v, ok := f.a.kwarg(name)
		if !ok {
			return v, errf(KindKey, "%s", reprString(name))
		}
		return v, nil
	}
	if n >= len(f.a.pos) {
		return Value{}, errf(KindIndex, "Replacement index %d out of range for positional args tuple", n)
	}
	return f.a.pos[n], nil
}

// format is Python's format(v, spec).
func (f *braceFormatter) format(v Value, text string) error {
	if text == "" || !(v.isNumber() || v.kind == String) {
		if text != "" {
			return typeErr("unsupported format string passed to %s.__format__", typeName(v))
		}
		s, err := f.st.toStr(v)
		f.out.WriteString(s.Str())
		return err
	}
	sp, err := parseSpec(text)
	if err != nil {
		return err
	}
	sign, body, err := sp.value(v)
	if err != nil {
		return err
	}
	return sp.pad(f.st, &f.out, sign, body)
}

// value renders v by the type of the spec.
func (sp *spec) value(v Value) (sign, body string, err error) {
	if v.kind == String {
		if sp.verb != 0 && sp.verb != 's' {
			return "", "", valueErr("Unknown format code '%c' for object of type 'str'", sp.verb)
		}
		if sp.align == 0 {
			sp.align = '<'
		}
		s := v.Str()
		if sp.prec >= 0 {
			s = s[:runeOffset(s, sp.prec)]
		}
		return "", s, nil
	}
	if sp.align == 0 {
		sp.align = '>'
	}
	switch {
	case sp.verb == 'c':
		body, err = charOf(v)
		return "", body, err
	case strings.IndexByte("eEfFgG%", sp.verb) >= 0 && sp.verb != 0 || v.kind == Float:
		x, err := toFloat(v)
		if err != nil {
			return "", "", err
		}
		if sign, body, err = sp.floatValue(x); err != nil {
			return "", "", err
		}
	case sp.verb == 0 || strings.IndexByte("dxXobn", sp.verb) >= 0:
		if sp.prec >= 0 {
			return "", "", valueErr("Precision not allowed in integer format specifier")
		}
		if sign, body, err = sp.integer(v); err != nil {
			return "", "", err
		}
	default:
		return "", "", valueErr("Unknown format code '%c' for object of type '%s'", sp.verb, typeName(v))
	}
	if sp.group != 0 {
		body = grouped(body, sp.group)
	}
	return sign, body, nil
}

func (sp *spec) floatValue(x float64) (sign, body string, err error) {
	if sp.verb != 0 {
		if strings.IndexByte("eEfFgG%", sp.verb) < 0 {
			return "", "", valueErr("Unknown format code '%c' for object of type 'float'", sp.verb)
		}
		return sp.float(x)
	}
	if sp.prec < 0 {
		s := floatText(x)
		return sp.signOf(strings.HasPrefix(s, "-")), strings.TrimPrefix(s, "-"), nil
	}
	g := *sp
	g.verb = 'g'
	sign, body, err = g.float(x)
	if err == nil && strings.Trim(body, "0123456789") == "" {
		body += ".0"
	}
	return sign, body, err
}

// grouped puts a separator between every three digits of the integer part.
func grouped(s string, sep byte) string {
	n := 0
	for n < len(s) && isDigit(s[n]) {
		n++
	}
	var b strings.Builder
	for i := range n {
		if i > 0 && (n-i)%3 == 0 {
			b.WriteByte(sep)
		}
		b.WriteByte(s[i])
	}
	return b.String() + s[n:]
}

// parseSpec reads a format specification.
func parseSpec(s string) (*spec, error) {
	sp := &spec{fill: " ", prec: -1}
	if _, n := utf8.DecodeRuneInString(s); n < len(s) && strings.IndexByte("<>=^", s[n]) >= 0 {
		sp.fill, sp.align, s = s[:n], s[n], s[n+1:]
	} else if strings.IndexByte("<>=^", s[0]) >= 0 {
		sp.align, s = s[0], s[1:]
	}
	take := func(set string) byte {
		if s != "" && strings.IndexByte(set, s[0]) >= 0 {
			c := s[0]
			s = s[1:]
			return c
		}
		return 0
	}
	if c := take("+- "); c != '-' {
		sp.sign = c
	}
	sp.alt = take("#") != 0
	if take("0") != 0 && sp.align == 0 {
		sp.align, sp.fill = '=', "0"
	}
	digits := func() (int, bool) {
		n, i := int64(0), 0
		for i < len(s) && isDigit(s[i]) && n <= widest {
			n = n*10 + int64(s[i]-'0')
			i++
		}
		s = s[i:]
		return int(min(n, widest)), i > 0
	}
	sp.width, _ = digits()
	sp.group = take(",_")
	if take(".") != 0 {
		n, ok := digits()
		if !ok {
			return nil, valueErr("Format specifier missing precision")
		}
		sp.prec = n
	}
	if s != "" {
		sp.verb, s = s[0], s[1:]
	}
	if s != "" {
		return nil, valueErr("Invalid format specifier")
	}
	return sp, nil
}
