package jinja

import "math"

// A step stands for up to some 50 ns of work, so that a render that uses all of
// Limits.Steps ends within about half a second. What takes longer than the few
// steps of a statement counts its work here: by the bytes it looks at one by
// one, by the product of the sizes of big integers, by the bytes it writes.

// textShift returns by how much the bytes of a str are shifted to get the steps
// of a filter or method of str on it.
func textShift(name string, s Value) int {
	switch name {
	case "title", "swapcase", "capitalize", "istitle", "isupper", "islower", "isalpha", "isalnum", "isdigit", "isdecimal",
		"isnumeric", "isspace", "isprintable", "isidentifier", "expandtabs", "splitlines", "indent", "wordcount", "format":
		return 0
	case "upper", "lower":
		if s.ascii() {
			return 3
		}
		return 0
	case "escape", "e", "forceescape", "replace", "find", "rfind", "index", "rindex", "count", "partition", "rpartition", "split", "rsplit":
		return 3
	}
	return 6
}

// spendText counts the steps of a filter or method of str.
func (st *state) spendText(name string, s Value) error {
	return st.spend(int(s.num >> textShift(name, s)))
}

// limbs returns the machine words of an int.
func limbs(v Value) int {
	if v.kind != BigInt {
		return 1
	}
	return (v.big().BitLen() + 63) / 64
}

// spendInt counts the steps of arithmetic with ints if one of them is big or
// the result may be.
func (st *state) spendInt(op operator, a, b Value) error {
	if a.kind != BigInt && b.kind != BigInt && op != opPow {
		return nil
	}
	x, y := limbs(a), limbs(b)
	switch op {
	case opMul, opFloorDiv, opMod:
		return st.spend(4 + x + y + x*y>>5)
	case opDiv:
		return st.spend(16 + (x+y)*(x+y)>>4)
	case opPow:
		if b.kind == Int {
			x *= int(max(0, min(b.int(), maxIntBits)))
		}
		x = min(x, 2*maxIntBits/64)
		return st.spend(4 + x + x*x>>4)
	}
	return st.spend(4 + (x+y)>>2)
}

// spendDigits counts the steps of turning n decimal digits to an int or back.
func (st *state) spendDigits(n int) error {
	w := int64(n) / 16
	return st.spend(int(min(w+w*w>>4, math.MaxInt)))
}

// spendNumber counts the steps of writing v as n bytes.
func (st *state) spendNumber(v Value, n int) error {
	if v.kind == BigInt {
		return st.spendDigits(n)
	}
	return st.spendWritten(n)
}

// spendWritten counts the steps of writing n bytes of repr or JSON.
func (st *state) spendWritten(n int) error { return st.spend(n >> 2) }
