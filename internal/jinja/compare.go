package jinja

import (
	"math"
	"math/big"
	"strings"
)

// truth is Python's bool(v).
func truth(v Value) bool {
	switch v.kind {
	case Missing, Undefined, None:
		return false
	case Bool, Int, String:
		return v.num != 0
	case Float:
		return v.float() != 0
	case List, Tuple, View:
		return len(v.Items()) > 0
	case Dict:
		return v.Map().Len() > 0
	case Range:
		return (*rng)(v.ptr).n > 0
	}
	return true
}

// length is Python's len(v), or -1 if v has none.
func length(v Value) int {
	switch v.kind {
	case String:
		return v.runes()
	case List, Tuple, View:
		return len(v.Items())
	case Dict:
		return v.Map().Len()
	case Range:
		return int((*rng)(v.ptr).n)
	case Undefined, Missing:
		return 0
	case Loop:
		return len(v.loop().items)
	}
	return -1
}

// equal is Python's a == b.
func equal(a, b Value, depth int) (bool, error) {
	if depth > maxDepth {
		return false, errDeep
	}
	if a.kind == b.kind {
		switch a.kind {
		case String:
			return a.Str() == b.Str(), nil
		case Int, Bool:
			return a.num == b.num, nil
		case None, Undefined, Missing:
			return true, nil
		case List, Tuple:
			return equalItems(a.Items(), b.Items(), depth)
		case Dict:
			return equalMaps(a.Map(), b.Map(), depth)
		case Range:
			return equalRanges((*rng)(a.ptr), (*rng)(b.ptr)), nil
		case View, Generator, Namespace, Macro, Loop, Function:
			return a.ptr == b.ptr, nil
		}
	}
	if a.isNumber() && b.isNumber() {
		c, ok := cmpNumbers(a, b)
		return ok && c == 0, nil
	}
	return a.isUndef() && b.isUndef(), nil
}

func equalItems(a, b []Value, depth int) (bool, error) {
	if len(a) != len(b) {
		return false, nil
	}
	if len(a) > 0 && &a[0] == &b[0] {
		return true, nil
	}
	for i := range a {
		if ok, err := equal(a[i], b[i], depth+1); !ok {
			return false, err
		}
	}
	return true, nil
}

func equalMaps(a, b *Map, depth int) (bool, error) {
	if a == b {
		return true, nil
	}
	if a.Len() != b.Len() {
		return false, nil
	}
	for i := range a.entries {
		e := &a.entries[i]
		j := i
		if !sameKey(b.entries[i].Key, e.Key) {
			if j = b.find(e.Key); j < 0 {
				return false, nil
			}
		}
		if ok, err := equal(e.Val, b.entries[j].Val, depth+1); !ok {
			return false, err
		}
	}
	return true, nil
}

func equalRanges(a, b *rng) bool {
	return a.n == b.n && (a.n == 0 || a.start == b.start && (a.n == 1 || a.step == b.step))
}

// cmpNumbers compares two numbers; ok is false if one of them is a NaN.
func cmpNumbers(a, b Value) (c int, ok bool) {
	small := func(v Value) bool { return v.kind == Int || v.kind == Bool }
	switch {
	case small(a) && small(b):
		return cmp(a.int(), b.int()), true
	case a.kind != Float && b.kind != Float:
		return a.big().Cmp(b.big()), true
	case a.kind == Float && b.kind == Float:
		x, y := a.float(), b.float()
		return cmp(x, y), x == x && y == y
	case a.kind == Float:
		c, ok = cmpNumbers(b, a)
		return -c, ok
	}
	f := b.float()
	switch {
	case math.IsNaN(f):
		return 0, false
	case math.IsInf(f, 0):
		return -cmp(f, 0), true
	}
	return new(big.Rat).SetInt(a.big()).Cmp(new(big.Rat).SetFloat64(f)), true
}

func cmp[T int | int64 | float64](a, b T) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// less is Python's a < b; op names the operator for the error.
func less(a, b Value, op operator, depth int) (bool, error) {
	switch {
	case depth > maxDepth:
		return false, errDeep
	case a.kind == String && b.kind == String:
		return a.Str() < b.Str(), nil
	case a.isNumber() && b.isNumber():
		c, ok := cmpNumbers(a, b)
		return ok && c < 0, nil
	case (a.kind == List || a.kind == Tuple) && a.kind == b.kind:
		x, y := a.Items(), b.Items()
		for i := range min(len(x), len(y)) {
			eq, err := equal(x[i], y[i], depth+1)
			if err != nil {
				return false, err
			}
			if !eq {
				return less(x[i], y[i], op, depth+1)
			}
		}
		return len(x) < len(y), nil
	case a.isUndef():
		return false, a.fail()
	case b.isUndef():
		return false, b.fail()
	}
	return false, typeErr("'%s' not supported between instances of '%s' and '%s'", op, typeName(a), typeName(b))
}

// compare evaluates one comparison operator.
func compare(st *state, op operator, a, b Value) (bool, error) {
	switch op {
	case opEq, opNe:
		if a.kind == String && b.kind == String && (a.num != b.num || a.num < 64) {
			return (a.Str() == b.Str()) == (op == opEq), nil
		}
		cost := 0
		switch {
		case a.kind != b.kind:
		case a.kind == String && a.num == b.num:
			cost = int(a.num >> 6)
		default:
			cost = weight(a, 0, st.steps)
		}
		if err := st.spend(cost); err != nil {
			return false, err
		}
		if err := st.spendInt(opMul, a, b); err != nil {
			return false, err
		}
		eq, err := equal(a, b, 0)
		return eq == (op == opEq), err
	case opIn, opNotIn:
		ok, err := contains(st, b, a)
		return ok == (op == opIn), err
	}
	if err := st.spend(min(orderCost(a, st.steps), orderCost(b, st.steps))); err != nil {
		return false, err
	}
	if err := st.spendInt(opMul, a, b); err != nil {
		return false, err
	}
	switch op {
	case opLt:
		return less(a, b, op, 0)
	case opGt:
		ok, err := less(b, a, op, 0)
		return ok, swapped(err, a, b, op)
	case opLe:
		return lessEqual(a, b, op)
	}
	ok, err := lessEqual(b, a, op)
	return ok, swapped(err, a, b, op)
}

// swapped names the operands of a failed comparison in their written order.
func swapped(err error, a, b Value, op operator) error {
	if err == nil {
		return nil
	}
	if _, again := less(a, b, op, 0); again != nil {
		return again
	}
	return err
}

func lessEqual(a, b Value, op operator) (bool, error) {
	if a.kind == Float || b.kind == Float {
		if a.isNumber() && b.isNumber() {
			c, ok := cmpNumbers(a, b)
			return ok && c <= 0, nil
		}
	}
	ok, err := less(a, b, op, 0)
	if ok || err != nil {
		return ok, err
	}
	return equal(a, b, 0)
}

// weight returns the number of values inside v, or some number above limit.
func weight(v Value, depth, limit int) int {
	if depth > maxDepth {
		return 0 // the comparison fails at this depth
	}
	n := 0
	switch v.kind {
	case List, Tuple:
		for _, x := range v.Items() {
			if n += 1 + weight(x, depth+1, limit-n); n > limit {
				break
			}
		}
	case Dict:
		for i := range v.Map().entries {
			if n += 1 + weight(v.Map().entries[i].Val, depth+1, limit-n); n > limit {
				break
			}
		}
	}
	return n
}

// fewItems is the length of a list that is searched without looking at the
// step limit in between.
const fewItems = 64

func hasString(items []Value, s string) bool {
	for i := range items {
		if v := &items[i]; v.kind == String && int(v.num) == len(s) && v.Str() == s {
			return true
		}
	}
	return false
}

// contains is Python's x in c.
func contains(st *state, c, x Value) (bool, error) {
	switch c.kind {
	case String:
		if x.kind != String {
			return false, typeErr("'in <string>' requires string as left operand, not %s", typeName(x))
		}
		return strings.Contains(c.Str(), x.Str()), st.spend(int(c.num >> 6))
	case Dict:
		if x.kind == String {
			_, ok := c.Map().Get(x.Str())
			return ok, nil
		}
		if err := hashable(x); err != nil {
			return false, err
		}
		return c.Map().find(x) >= 0, st.spend(c.Map().Len())
	case Undefined, Missing:
		return false, nil
	case None, Bool, Int, BigInt, Float, Macro, Namespace, Function:
		return false, typeErr("argument of type '%s' is not iterable", typeName(c))
	}
	if x.kind == String && (c.kind == List || c.kind == Tuple) {
		if items := c.Items(); len(items) <= fewItems {
			return hasString(items, x.Str()), st.spend(len(items))
		}
	}
	it, err := iterate(c)
	if err != nil {
		return false, err
	}
	for {
		v, ok := it.next()
		if !ok {
			return false, nil
		}
		cost := 1
		if v.kind == x.kind {
			cost += weight(x, 0, st.steps)
		}
		if err := st.spend(cost); err != nil {
			return false, err
		}
		if eq, err := equal(v, x, 0); eq || err != nil {
			return eq, err
		}
	}
}
