package jinja

import (
	"math"
	"strconv"
	"unicode"
	"unicode/utf8"
)

// textWriter builds str() and repr() of values. Its size is bounded.
type textWriter struct {
	st  *state // writes to st.out, or
	buf []byte
	max int
}

func (w *textWriter) put(s string) error {
	if w.st != nil {
		return w.st.write(s)
	}
	if len(w.buf)+len(s) > w.max {
		return errBuild
	}
	w.buf = append(w.buf, s...)
	return nil
}

// toStr returns Python's str(v).
func (st *state) toStr(v Value) (Value, error) {
	switch v.kind {
	case String:
		return v, nil
	case Undefined, Missing:
		return FromString(""), nil
	case Int:
		var b [20]byte
		return st.str(st.mem.copied(strconv.AppendInt(b[:0], v.int(), 10)))
	}
	w := textWriter{max: min(st.buildLeft, st.limit)}
	if err := w.str(v); err != nil {
		return v, err
	}
	if err := st.spendNumber(v, len(w.buf)); err != nil {
		return v, err
	}
	return st.str(string(w.buf))
}

// repr returns repr(v) for messages; a very long one is cut.
func repr(v Value) string {
	w := textWriter{max: 1000}
	if err := w.repr(v, 0); err != nil {
		return string(w.buf) + "..."
	}
	return string(w.buf)
}

func (w *textWriter) str(v Value) error {
	switch v.kind {
	case String:
		return w.put(v.Str())
	case Undefined, Missing:
		return nil
	}
	return w.repr(v, 0)
}

func (w *textWriter) repr(v Value, depth int) error {
	if depth > maxDepth {
		return errDeep
	}
	switch v.kind {
	case None:
		return w.put("None")
	case Bool:
		if v.num != 0 {
			return w.put("True")
		}
		return w.put("False")
	case Int:
		var b [20]byte
		return w.put(string(strconv.AppendInt(b[:0], v.int(), 10)))
	case BigInt:
		s, err := bigText(v)
		if err != nil {
			return err
		}
		return w.put(s)
	case Float:
		return w.put(floatText(v.float()))
	case String:
		if v.flag&strMarkup != 0 {
			return w.put("Markup(" + reprString(v.Str()) + ")")
		}
		return w.put(reprString(v.Str()))
	case List:
		return w.items("[", v.Items(), "]", depth)
	case Tuple:
		if len(v.Items()) == 1 {
			return w.items("(", v.Items(), ",)", depth)
		}
		return w.items("(", v.Items(), ")", depth)
	case View:
		return w.items((*list)(v.ptr).view+"([", v.Items(), "])", depth)
	case Dict:
		return w.dict(v.Map(), depth)
	}
	return w.object(v, depth)
}

func (w *textWriter) object(v Value, depth int) error {
	switch v.kind {
	case Namespace:
		if err := w.put("<Namespace "); err != nil {
			return err
		}
		if err := w.dict(&v.namespace().attrs, depth+1); err != nil {
			return err
		}
		return w.put(">")
	case Range:
		r := (*rng)(v.ptr)
		s := "range(" + strconv.FormatInt(r.start, 10) + ", " + strconv.FormatInt(r.stop, 10)
		if r.step != 1 {
			s += ", " + strconv.FormatInt(r.step, 10)
		}
		return w.put(s + ")")
	case Macro:
		return w.put("<Macro " + reprString(v.macro().info.name) + ">")
	case Loop:
		l := v.loop()
		return w.put("<LoopContext " + strconv.Itoa(l.i+1) + "/" + strconv.Itoa(len(l.items)) + ">")
	case Function:
		return w.put("<function " + v.function().name + ">")
	case Generator:
		return w.put("<generator object>")
	}
	return w.put("Undefined")
}

func (w *textWriter) items(open string, items []Value, end string, depth int) error {
	if err := w.put(open); err != nil {
		return err
	}
	for i, x := range items {
		if i > 0 {
			if err := w.put(", "); err != nil {
				return err
			}
		}
		if err := w.repr(x, depth+1); err != nil {
			return err
		}
	}
	return w.put(end)
}

func (w *textWriter) dict(m *Map, depth int) error {
	sep := "{"
	for i := range m.entries {
		if err := w.put(sep); err != nil {
			return err
		}
		sep = ", "
		if err := w.repr(m.entries[i].Key, depth+1); err != nil {
			return err
		}
		if err := w.put(": "); err != nil {
			return err
		}
		if err := w.repr(m.entries[i].Val, depth+1); err != nil {
			return err
		}
	}
	if m.Len() == 0 {
		return w.put("{}")
	}
	return w.put("}")
}

func bigText(v Value) (string, error) {
	if v.big().BitLen() > maxIntBits {
		return "", valueErr("Exceeds the limit (%d digits) for integer string conversion", maxIntDigits)
	}
	return v.big().String(), nil
}

// floatText is Python's repr of a float: the shortest text that reads back as
// the same number.
func floatText(f float64) string {
	switch {
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	case math.IsNaN(f):
		return "nan"
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	for i := range len(s) {
		if s[i] == '.' {
			return s
		}
	}
	return s + ".0"
}

// reprString is Python's repr of a str.
func reprString(s string) string {
	quote := byte('\'')
	for i := range len(s) {
		if s[i] == '"' {
			quote = '\''
			break
		}
		if s[i] == '\'' {
			quote = '"'
		}
	}
	b := append(make([]byte, 0, len(s)+2), quote)
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == rune(quote) || r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\r':
			b = append(b, `\r`...)
		case r == '\t':
			b = append(b, `\t`...)
		case r == ' ' || unicode.IsPrint(r):
			b = append(b, s[i:i+n]...)
		case r < 0x100:
			b = appendHex(append(b, `\x`...), r, 2)
		case r < 0x10000:
			b = appendHex(append(b, `\u`...), r, 4)
		default:
			b = appendHex(append(b, `\U`...), r, 8)
		}
		i += n
	}
	return string(append(b, quote))
}

func appendHex(b []byte, r rune, digits int) []byte {
	const hex = "0123456789abcdef"
	for i := digits - 1; i >= 0; i-- {
		b = append(b, hex[r>>(4*i)&0xf])
	}
	return b
}
