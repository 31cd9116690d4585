package jinja

import (
	"math"
	"math/big"
	"unicode/utf8"
)

// Kind is the type of a Value.
type Kind uint8

// The kinds of values. They follow Python's types.
const (
	Missing Kind = iota // an unset variable; the zero Value
	Undefined
	None
	Bool
	Int
	BigInt // an integer outside int64
	Float
	String
	List
	Tuple
	Dict
	View // keys(), values() or items() of a dict
	Range
	Generator // a lazy filter result; can be iterated once
	Namespace
	Macro
	Loop
	Function
)

// String flags. The zero flag means "not looked at".
const (
	strASCII  uint8 = 1 << iota // all bytes below 0x80
	strWide                     // at least one byte above 0x7f
	strMarkup                   // result of the safe or escape filter
)

// literal is a flag of lists and tuples: written as a literal, so that nothing
// inside can change.
const literal uint8 = 1 << 3

// durable is a flag of lists and dicts; see Durable.
const durable uint8 = 1 << 4

// Value is one Python value. Values are small and are passed by value; what
// they point to is never changed after construction, except namespaces and
// generators. The zero Value is Missing.
type Value struct {
	kind Kind
	flag uint8
	num  uint64
	ptr  pointer
}

type list struct {
	items []Value
	view  string // for View: the Python type name
}

// undef says why a value is undefined; the message is built only if needed.
type undef struct {
	hint string // complete message, or
	name Value  // the attribute or index looked for; Missing for a variable
	vari string // name of the variable
	kind string // error kind; empty means UndefinedError
}

var (
	noneValue  = Value{kind: None}
	trueValue  = Value{kind: Bool, num: 1}
	falseValue = Value{kind: Bool}
)

// Nil returns None.
func Nil() Value { return noneValue }

// FromBool returns True or False.
func FromBool(b bool) Value {
	if b {
		return trueValue
	}
	return falseValue
}

// FromInt returns an int.
func FromInt(i int64) Value { return Value{kind: Int, num: uint64(i)} }

// FromFloat returns a float.
func FromFloat(f float64) Value { return Value{kind: Float, num: math.Float64bits(f)} }

// FromBig returns an int of any size; it takes ownership of b.
func FromBig(b *big.Int) Value {
	if b.IsInt64() {
		return FromInt(b.Int64())
	}
	return Value{kind: BigInt, ptr: pointer(b)}
}

// FromList returns a list that owns items.
func FromList(items []Value) Value {
	return Value{kind: List, ptr: pointer(&list{items: items})}
}

func fromTuple(items ...Value) Value {
	return Value{kind: Tuple, ptr: pointer(&list{items: items})}
}

// FromDict returns a dict that shares d.
func FromDict(d *Map) Value { return Value{kind: Dict, ptr: pointer(d)} }

func fromMarkup(s string) Value {
	v := FromString(s)
	v.flag = strMarkup
	return v
}

// undefined returns an Undefined for u; obj is the kind of the value in which
// the name was looked for.
func undefined(u *undef, obj Kind) Value {
	return Value{kind: Undefined, num: uint64(obj), ptr: pointer(u)}
}

// Kind returns the type of v.
func (v Value) Kind() Kind { return v.kind }

func (v Value) float() float64 { return math.Float64frombits(v.num) }

func (v Value) int() int64 { return int64(v.num) }

// clamped returns an int of any size, or the int of Go's that is nearest.
func (v Value) clamped() int {
	if v.kind == BigInt {
		return math.MaxInt * v.big().Sign()
	}
	return int(max(math.MinInt, min(v.int(), math.MaxInt)))
}

// Items returns the elements of a list, tuple, view or unread generator, and
// nil for any other kind. The caller must not change them.
func (v Value) Items() []Value {
	switch v.kind {
	case List, Tuple, View, Generator:
		return (*list)(v.ptr).items
	}
	return nil
}

// Map returns the dict of v, or nil for any other kind. The caller must not
// change it.
func (v Value) Map() *Map {
	if v.kind != Dict {
		return nil
	}
	return (*Map)(v.ptr)
}

func (v Value) big() *big.Int {
	switch v.kind {
	case BigInt:
		return (*big.Int)(v.ptr)
	case Int, Bool:
		return big.NewInt(v.int())
	}
	return new(big.Int)
}

func (v Value) namespace() *namespace {
	if v.kind != Namespace {
		return nil
	}
	return (*namespace)(v.ptr)
}

func (v Value) undef() *undef {
	if v.kind != Undefined || v.ptr == nil {
		return &undef{hint: "value is undefined"}
	}
	return (*undef)(v.ptr)
}

// isUndef reports whether Jinja's "defined" test fails for v.
func (v Value) isUndef() bool { return v.kind == Undefined || v.kind == Missing }

func (v Value) isInt() bool { return v.kind == Int || v.kind == Bool || v.kind == BigInt }

func (v Value) isNumber() bool { return v.isInt() || v.kind == Float }

// ascii reports whether a str has only bytes below 0x80.
func (v Value) ascii() bool {
	switch {
	case v.flag&strASCII != 0:
		return true
	case v.flag&strWide != 0:
		return false
	}
	return isASCII(v.Str())
}

// runes returns the length of a str in code points.
func (v Value) runes() int {
	if v.ascii() {
		return int(v.num)
	}
	return utf8.RuneCountInString(v.Str())
}

func isASCII(s string) bool {
	for len(s) >= 8 {
		if (uint64(s[0])|uint64(s[1])|uint64(s[2])|uint64(s[3])|uint64(s[4])|uint64(s[5])|uint64(s[6])|uint64(s[7]))&0x80 != 0 {
			return false
		}
		s = s[8:]
	}
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// groupTuple marks the tuples made by the groupby filter, whose elements also
// have names.
const groupTuple = "_GroupTuple"

func fromTupleOf(l *list) Value { return Value{kind: Tuple, ptr: pointer(l)} }
