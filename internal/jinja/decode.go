package jinja

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// MaxJSONDepth is the deepest nesting of arrays and objects that Decode takes.
const MaxJSONDepth = 200

// Decode reads one JSON text into a Value. Object keys keep their order, the
// last of two equal keys wins, integers keep all digits, and NaN, Infinity and
// -Infinity are taken as in Python. Invalid UTF-8 and lone surrogates are
// errors. The value shares memory with data, which must not change while the
// value is in use.
func Decode(data []byte) (Value, error) { return new(Slab).Decode(data) }

// Decode is the function Decode with memory from the slab.
func (s *Slab) Decode(data []byte) (Value, error) {
	return s.DecodeString(textOf(data))
}

// DecodeString is Decode of a string.
func (s *Slab) DecodeString(text string) (Value, error) {
	d := decoder{s: text, slab: s}
	if !utf8.ValidString(d.s) {
		return Value{}, errf(KindJSON, "invalid UTF-8")
	}
	v, err := d.value(0)
	if err != nil {
		return Value{}, err
	}
	d.space()
	if d.i < len(d.s) {
		return Value{}, d.errorf("extra data")
	}
	return v, nil
}

type decoder struct {
	s    string
	i    int
	slab *Slab
}

func (d *decoder) errorf(what string) error {
	return errf(KindJSON, "%s at byte %d", what, d.i)
}

func (d *decoder) space() {
	for d.i < len(d.s) {
		switch d.s[d.i] {
		case ' ', '\n', '\r', '\t':
			d.i++
		default:
			return
		}
	}
}

func (d *decoder) value(depth int) (Value, error) {
	d.space()
	if d.i >= len(d.s) {
		return Value{}, d.errorf("unexpected end")
	}
	switch c := d.s[d.i]; c {
	case '"':
		return d.str()
	case '{':
		return d.object(depth + 1)
	case '[':
		return d.array(depth + 1)
	case 't':
		return d.word("true", trueValue)
	case 'f':
		return d.word("false", falseValue)
	case 'n':
		return d.word("null", noneValue)
	case 'N':
		return d.word("NaN", FromFloat(math.NaN()))
	case 'I':
		return d.word("Infinity", FromFloat(math.Inf(1)))
	case '-':
		if strings.HasPrefix(d.s[d.i:], "-I") {
			return d.word("-Infinity", FromFloat(math.Inf(-1)))
		}
		return d.number()
	default:
		if isDigit(c) {
			return d.number()
		}
	}
	return Value{}, d.errorf("expected a value")
}

func (d *decoder) word(w string, v Value) (Value, error) {
	if !strings.HasPrefix(d.s[d.i:], w) {
		return Value{}, d.errorf("expected a value")
	}
	d.i += len(w)
	return v, nil
}

// more reads the separator after an element; it reports whether another
// element follows.
func (d *decoder) more(end byte) (bool, error) {
	d.space()
	if d.i < len(d.s) {
		switch d.s[d.i] {
		case ',':
			d.i++
			return true, nil
		case end:
			d.i++
			return false, nil
		}
	}
	return false, d.errorf("expected ',' or '" + string(end) + "'")
}

// empty reads the end of an array or object that has no elements.
func (d *decoder) empty(end byte) bool {
	d.i++
	d.space()
	if d.i < len(d.s) && d.s[d.i] == end {
		d.i++
		return true
	}
	return false
}

func (d *decoder) array(depth int) (Value, error) {
	if depth > MaxJSONDepth {
		return Value{}, d.errorf("nesting is too deep")
	}
	mark := len(d.slab.valStack)
	for more := !d.empty(']'); more; {
		v, err := d.value(depth)
		if err != nil {
			return v, err
		}
		d.slab.valStack = append(d.slab.valStack, v)
		if more, err = d.more(']'); err != nil {
			return v, err
		}
	}
	items := append(d.slab.vals.take(len(d.slab.valStack)-mark), d.slab.valStack[mark:]...)
	d.slab.valStack = d.slab.valStack[:mark]
	return d.slab.List(items), nil
}

func (d *decoder) object(depth int) (Value, error) {
	if depth > MaxJSONDepth {
		return Value{}, d.errorf("nesting is too deep")
	}
	mark := len(d.slab.entStack)
	for more := !d.empty('}'); more; {
		d.space()
		if d.i >= len(d.s) || d.s[d.i] != '"' {
			return Value{}, d.errorf("expected a property name")
		}
		k, err := d.str()
		if err != nil {
			return k, err
		}
		d.space()
		if d.i >= len(d.s) || d.s[d.i] != ':' {
			return k, d.errorf("expected ':'")
		}
		d.i++
		v, err := d.value(depth)
		if err != nil {
			return v, err
		}
		d.slab.entStack = append(d.slab.entStack, Entry{k, v})
		if more, err = d.more('}'); err != nil {
			return v, err
		}
	}
	m := d.slab.NewMap(len(d.slab.entStack) - mark)
	m.fill(d.slab.entStack[mark:])
	d.slab.entStack = d.slab.entStack[:mark]
	return FromDict(m), nil
}

// fill adds entries to an empty map; a later equal key replaces the value of
// an earlier one.
func (m *Map) fill(from []Entry) {
	for _, e := range from {
		m.set(e.Key, e.Val)
	}
}

func (d *decoder) number() (Value, error) {
	s, from, isInt := d.s, d.i, true
	i := from
	if s[i] == '-' {
		i++
	}
	digits := func() bool {
		j := i
		for i < len(s) && isDigit(s[i]) {
			i++
		}
		return i > j
	}
	first := i
	if !digits() || s[first] == '0' && i > first+1 {
		return Value{}, d.errorf("invalid number")
	}
	if i < len(s) && s[i] == '.' {
		isInt = false
		i++
		if !digits() {
			return Value{}, d.errorf("invalid number")
		}
	}
	if i < len(s) && s[i]|0x20 == 'e' {
		isInt = false
		i++
		if i < len(s) && (s[i] == '+' || s[i] == '-') {
			i++
		}
		if !digits() {
			return Value{}, d.errorf("invalid number")
		}
	}
	text := s[from:i]
	if !isInt {
		f, err := strconv.ParseFloat(text, 64)
		if err != nil && !math.IsInf(f, 0) {
			return Value{}, d.errorf("invalid number")
		}
		d.i = i
		return FromFloat(f), nil
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		d.i = i
		return FromInt(n), nil
	}
	if i-first > maxIntDigits {
		return Value{}, valueErr("Exceeds the limit (%d digits) for integer string conversion", maxIntDigits)
	}
	b, _ := new(big.Int).SetString(text, 10)
	d.i = i
	return FromBig(b), nil
}

// str reads a string. Without escapes it shares the memory of the input.
func (d *decoder) str() (Value, error) {
	d.i++
	s, from, high := d.s, d.i, byte(0)
	for i := from; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			v := FromString(s[from:i])
			v.flag = strASCII
			if high >= utf8.RuneSelf {
				v.flag = strWide
			}
			d.i = i + 1
			return v, nil
		case c == '\\':
			return d.escaped(from, i)
		case c < 0x20:
			d.i = i
			return Value{}, d.errorf("invalid control character")
		default:
			high |= c
		}
	}
	return Value{}, d.errorf("unterminated string")
}

// escaped reads a string whose first escape is at position i.
func (d *decoder) escaped(from, i int) (Value, error) {
	s := d.s
	end := i
	for end < len(s) && s[end] != '"' {
		if s[end] == '\\' {
			end++
		}
		end++
	}
	if end >= len(s) {
		return Value{}, d.errorf("unterminated string")
	}
	b := append(make([]byte, 0, end-from), s[from:i]...)
	for i < end {
		c := s[i]
		switch {
		case c == '\\':
			r, n, ok := jsonEscape(s[i+1 : end])
			if !ok {
				d.i = i
				return Value{}, d.errorf("invalid escape")
			}
			b = utf8.AppendRune(b, r)
			i += 1 + n
		case c < 0x20:
			d.i = i
			return Value{}, d.errorf("invalid control character")
		default:
			b = append(b, c)
			i++
		}
	}
	d.i = end + 1
	return flagged(FromString(textOf(b))), nil
}

// jsonEscape decodes the escape whose text after the backslash starts s.
func jsonEscape(s string) (r rune, n int, ok bool) {
	switch s[0] {
	case '"', '\\', '/':
		return rune(s[0]), 1, true
	case 'n':
		return '\n', 1, true
	case 't':
		return '\t', 1, true
	case 'r':
		return '\r', 1, true
	case 'b':
		return '\b', 1, true
	case 'f':
		return '\f', 1, true
	case 'u':
		r, ok = hex4(s[1:])
		if !ok || !utf16.IsSurrogate(r) {
			return r, 5, ok
		}
		if len(s) < 11 || s[5] != '\\' || s[6] != 'u' {
			return 0, 0, false
		}
		low, ok := hex4(s[7:])
		r = utf16.DecodeRune(r, low)
		return r, 11, ok && r != utf8.RuneError
	}
	return 0, 0, false
}

func hex4(s string) (rune, bool) {
	if len(s) < 4 {
		return 0, false
	}
	var r rune
	for i := range 4 {
		c := s[i]
		switch {
		case isDigit(c):
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}
