package jinja

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

// spec is one conversion of a % format or a format() field.
type spec struct {
	fill        string
	align       byte // '<', '>', '=', '^' or 0
	sign        byte // '+', ' ' or 0
	alt, zero   bool
	width, prec int // prec is -1 if not given
	group       byte
	verb        byte
	percent     bool // from a % format
	left        bool
}

// formatPercent is Python's s % arg.
func formatPercent(st *state, s string, arg Value) (Value, error) {
	f := percentFormatter{st: st, s: s, arg: arg}
	if arg.kind == Tuple {
		f.args = arg.Items()
	} else {
		f.args = []Value{arg}
	}
	for f.i < len(s) {
		j := strings.IndexByte(s[f.i:], '%')
		if j < 0 {
			f.out.WriteString(s[f.i:])
			break
		}
		f.out.WriteString(s[f.i : f.i+j])
		f.i += j + 1
		if err := f.conversion(); err != nil {
			return Value{}, err
		}
	}
	if f.used < len(f.args) && !f.mapped && arg.kind != Dict && (arg.kind == Tuple || f.used == 0 && !isMappingLike(arg)) {
		return Value{}, typeErr("not all arguments converted during string formatting")
	}
	return st.str(f.out.String())
}

// isMappingLike reports whether Python lets a lone argument go unused.
func isMappingLike(v Value) bool { return v.kind == List || v.kind == Range || v.kind == Undefined }

type percentFormatter struct {
	st     *state
	s      string
	i      int
	arg    Value
	args   []Value
	used   int
	mapped bool
	out    strings.Builder
}

func (f *percentFormatter) next() (Value, error) {
	if f.used >= len(f.args) {
		return Value{}, typeErr("not enough arguments for format string")
	}
	f.used++
	return f.args[f.used-1], nil
}

// widest is the largest width or precision that is told apart from larger
// ones. No text of that size may be built.
const widest = math.MaxInt32

// number reads digits or a star.
func (f *percentFormatter) number() (int, error) {
	if f.i < len(f.s) && f.s[f.i] == '*' {
		f.i++
		v, err := f.next()
		if err == nil && !v.isInt() {
			err = typeErr("* wants int")
		}
		return max(-widest, min(v.clamped(), widest)), err
	}
	n := int64(0)
	for f.i < len(f.s) && isDigit(f.s[f.i]) {
		if n = n*10 + int64(f.s[f.i]-'0'); n > widest {
			return 0, valueErr("width too big")
		}
		f.i++
	}
	return int(n), nil
}

func (f *percentFormatter) key() (Value, bool, error) {
	if f.i >= len(f.s) || f.s[f.i] != '(' {
		return Value{}, false, nil
	}
	if f.arg.kind != Dict {
		return Value{}, true, typeErr("format requires a mapping")
	}
	depth, from := 1, f.i+1
	for f.i++; f.i < len(f.s); f.i++ {
		switch f.s[f.i] {
		case '(':
			depth++
		case ')':
			depth--
		}
		if depth == 0 {
			break
		}
	}
	if depth > 0 {
		return Value{}, true, valueErr("incomplete format key")
	}
	name := f.s[from:f.i]
	f.i++
	v, ok := f.arg.Map().Get(name)
	if !ok {
		return v, true, errf(KindKey, "%s", reprString(name))
	}
	f.mapped = true
	return v, true, nil
}

func (f *percentFormatter) conversion() error {
	sp := spec{fill: " ", prec: -1, percent: true}
	v, keyed, err := f.key()
	if err != nil {
		return err
	}
	for ; f.i < len(f.s); f.i++ {
		switch f.s[f.i] {
		case '-':
			sp.left = true
		case '+':
			sp.sign = '+'
		case ' ':
			if sp.sign == 0 {
				sp.sign = ' '
			}
		case '#':
			sp.alt = true
		case '0':
			sp.zero = true
		default:
			goto flags
		}
	}
flags:
	if sp.width, err = f.number(); err != nil {
		return err
	}
	if sp.width < 0 {
		sp.left, sp.width = true, -sp.width
	}
	if f.i < len(f.s) && f.s[f.i] == '.' {
		f.i++
		if sp.prec, err = f.number(); err != nil {
			return err
		}
		sp.prec = max(sp.prec, 0)
	}
	for f.i < len(f.s) && strings.IndexByte("hlL", f.s[f.i]) >= 0 {
		f.i++
	}
	if f.i >= len(f.s) {
		return valueErr("incomplete format")
	}
	sp.verb = f.s[f.i]
	f.i++
	if sp.verb == '%' {
		f.out.WriteByte('%')
		return nil
	}
	if !keyed {
		if v, err = f.next(); err != nil {
			return err
		}
	}
	return f.write(&sp, v)
}

func (f *percentFormatter) write(sp *spec, v Value) error {
	sp.align = '>'
	if sp.left {
		sp.align = '<'
	} else if sp.zero {
		sp.align, sp.fill = '=', "0"
	}
	sign, body, err := f.convert(sp, v)
	if err != nil {
		return err
	}
	return sp.pad(f.st, &f.out, sign, body)
}

func (f *percentFormatter) convert(sp *spec, v Value) (sign, body string, err error) {
	switch sp.verb {
	case 's', 'r', 'a':
		if sp.align == '=' {
			sp.align, sp.fill = '>', " "
		}
		body, err = f.text(sp, v)
		return "", body, err
	case 'c':
		if sp.align == '=' {
			sp.align, sp.fill = '>', " "
		}
		body, err = charOf(v)
		return "", body, err
	case 'd', 'i', 'u', 'x', 'X', 'o':
		if v.kind == Float && strings.IndexByte("diu", sp.verb) >= 0 && !math.IsInf(v.float(), 0) && !math.IsNaN(v.float()) {
			v = floatToInt(v.float())
		}
		if !v.isInt() {
			need := "a real number is required"
			if strings.IndexByte("xXo", sp.verb) >= 0 {
				need = "an integer is required"
			}
			return "", "", typeErr("%%%c format: %s, not %s", sp.verb, need, typeName(v))
		}
		return sp.integer(v)
	case 'e', 'E', 'f', 'F', 'g', 'G':
		if !v.isNumber() {
			return "", "", typeErr("must be real number, not %s", typeName(v))
		}
		x, err := toFloat(v)
		if err != nil {
			return "", "", err
		}
		return sp.float(x)
	}
	return "", "", valueErr("unsupported format character '%c' (0x%x) at index %d", sp.verb, sp.verb, f.i-1)
}

func (f *percentFormatter) text(sp *spec, v Value) (string, error) {
	s := ""
	if sp.verb == 's' {
		t, err := f.st.toStr(v)
		if err != nil {
			return "", err
		}
		s = t.Str()
	} else {
		w := textWriter{max: f.st.buildLeft}
		if err := w.repr(v, 0); err != nil {
			return "", err
		}
		s = string(w.buf)
	}
	if sp.prec >= 0 {
		s = s[:runeOffset(s, sp.prec)]
	}
	return s, nil
}

func charOf(v Value) (string, error) {
	switch {
	case v.kind == String && v.runes() == 1:
		return v.Str(), nil
	case v.isInt():
		n := v.int()
		if v.kind == BigInt || n < 0 || n > utf8.MaxRune {
			return "", errf(KindOverflow, "%%c arg not in range(0x110000)")
		}
		if !utf8.ValidRune(rune(n)) {
			return "", valueErr("surrogates are not allowed")
		}
		return string(rune(n)), nil
	}
	return "", typeErr("%%c requires int or char")
}

// integer renders an int with the spec's base, precision and sign.
func (sp *spec) integer(v Value) (sign, body string, err error) {
	if v.big().BitLen() > maxIntBits {
		_, err := bigText(v)
		return "", "", err
	}
	n := v.big()
	sign = sp.signOf(n.Sign() < 0)
	n = new(big.Int).Abs(n)
	switch sp.verb {
	case 'x', 'X', 'o', 'b':
		base := map[byte]int{'x': 16, 'X': 16, 'o': 8, 'b': 2}[sp.verb]
		body = n.Text(base)
		if sp.verb == 'X' {
			body = strings.ToUpper(body)
		}
		if sp.alt {
			sign += "0" + string(sp.verb)
		}
	default:
		body = n.String()
	}
	if sp.percent && sp.prec > len(body) {
		if sp.prec > 1<<20 {
			return "", "", errBuild
		}
		body = strings.Repeat("0", sp.prec-len(body)) + body
	}
	return sign, body, nil
}

func (sp *spec) signOf(neg bool) string {
	switch {
	case neg:
		return "-"
	case sp.sign == '+' || sp.sign == ' ':
		return string(sp.sign)
	}
	return ""
}

// float renders a float.
func (sp *spec) float(x float64) (sign, body string, err error) {
	sign = sp.signOf(math.Signbit(x) && !math.IsNaN(x))
	x = math.Abs(x)
	prec := sp.prec
	if prec < 0 {
		prec = 6
	}
	if prec > 1<<20 {
		return "", "", errBuild
	}
	upper := sp.verb >= 'A' && sp.verb <= 'Z'
	verb := sp.verb | 0x20
	switch {
	case math.IsInf(x, 0):
		body = "inf"
	case math.IsNaN(x):
		body = "nan"
	case verb == 'g':
		body = formatG(x, max(prec, 1), sp.alt)
	case verb == '%':
		body = strconv.FormatFloat(x*100, 'f', prec, 64) + "%"
	default:
		body = strconv.FormatFloat(x, verb, prec, 64)
		if sp.alt && prec == 0 {
			body = strings.Replace(body+".", "e", ".e", 1)
		}
	}
	if upper {
		body = strings.ToUpper(body)
	}
	return sign, body, nil
}

// formatG is the C conversion %g.
func formatG(x float64, prec int, keepZeros bool) string {
	e := strconv.FormatFloat(x, 'e', prec-1, 64)
	exp, _ := strconv.Atoi(e[strings.IndexByte(e, 'e')+1:])
	if x == 0 {
		exp = 0
	}
	if exp < -4 || exp >= prec {
		mant, tail, _ := strings.Cut(e, "e")
		if !keepZeros && strings.Contains(mant, ".") {
			mant = strings.TrimRight(strings.TrimRight(mant, "0"), ".")
		}
		return mant + "e" + tail
	}
	s := strconv.FormatFloat(x, 'f', prec-1-exp, 64)
	if !keepZeros && strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// pad writes sign and body with the fill of the spec.
func (sp *spec) pad(st *state, out *strings.Builder, sign, body string) error {
	n := sp.width - utf8.RuneCountInString(sign) - utf8.RuneCountInString(body)
	if n > 0 && n > (st.buildLeft-out.Len())/len(sp.fill) {
		return errBuild
	}
	n = max(n, 0)
	left, mid := 0, 0
	switch sp.align {
	case '>':
		left = n
	case '^':
		left = n / 2
	case '=':
		mid = n
	}
	out.WriteString(strings.Repeat(sp.fill, left))
	out.WriteString(sign)
	out.WriteString(strings.Repeat(sp.fill, mid))
	out.WriteString(body)
	out.WriteString(strings.Repeat(sp.fill, n-left-mid))
	if out.Len() > st.buildLeft {
		return errBuild
	}
	return st.spend(4 + (len(sign)+len(body))>>1 + n>>6)
}
