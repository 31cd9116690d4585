package jinja

import (
	"math"
	"math/big"
	"math/bits"
	"strings"
)

// binary evaluates an arithmetic operator with Python's rules.
func binary(st *state, op operator, a, b Value) (Value, error) {
	switch {
	case a.isUndef():
		return a, a.fail()
	case b.isUndef() && (op != opMod || a.kind != String):
		return b, b.fail()
	case a.isNumber() && b.isNumber():
		if err := st.spendInt(op, a, b); err != nil {
			return Value{}, err
		}
		return arith(op, a, b)
	}
	switch op {
	case opAdd:
		return addSequences(st, a, b)
	case opMul:
		if r, ok, err := repeat(st, a, b); ok {
			return r, err
		}
	case opMod:
		if a.kind == String {
			return formatPercent(st, a.Str(), b)
		}
	}
	return Value{}, typeErr("unsupported operand type(s) for %s: '%s' and '%s'", op, typeName(a), typeName(b))
}

func addSequences(st *state, a, b Value) (Value, error) {
	switch {
	case a.kind == String && b.kind == String:
		if (a.flag|b.flag)&strMarkup != 0 {
			v, err := st.str(escapeHTML(a) + escapeHTML(b))
			v.flag = strMarkup
			return v, err
		}
		v, err := st.str(st.mem.joined(a.Str(), b.Str()))
		v.flag = a.flag&b.flag&strASCII | (a.flag|b.flag)&strWide
		return v, err
	case (a.kind == List || a.kind == Tuple) && a.kind == b.kind:
		x, y := a.Items(), b.Items()
		items := st.mem.values(len(x) + len(y))
		copy(items[copy(items, x):], y)
		v, err := st.list(items)
		v.kind = a.kind
		return v, err
	case a.kind == String || a.kind == List || a.kind == Tuple:
		n := typeName(Value{kind: a.kind})
		return Value{}, typeErr("can only concatenate %s (not \"%s\") to %s", n, typeName(b), n)
	}
	return Value{}, typeErr("unsupported operand type(s) for +: '%s' and '%s'", typeName(a), typeName(b))
}

// repeat multiplies a sequence by an int, on either side.
func repeat(st *state, a, b Value) (Value, bool, error) {
	seq := func(v Value) bool { return v.kind == String || v.kind == List || v.kind == Tuple }
	if !seq(a) {
		a, b = b, a
	}
	if !seq(a) {
		return Value{}, false, nil
	}
	if !b.isInt() {
		return Value{}, true, typeErr("can't multiply sequence by non-int of type '%s'", typeName(b))
	}
	if b.kind == BigInt {
		if b.big().Sign() > 0 {
			return Value{}, true, errBuild
		}
		b = FromInt(0)
	}
	n, size := max(b.int(), 0), int64(a.num)
	if a.kind != String {
		size = int64(valueSize * len(a.Items()))
	}
	if size > 0 && n > int64(st.buildLeft)/size {
		return Value{}, true, errBuild
	}
	if size == 0 {
		n = 0
	}
	if a.kind == String {
		v, err := st.str(strings.Repeat(a.Str(), int(n)))
		return v, true, err
	}
	items := make([]Value, 0, int(n)*len(a.Items()))
	for range n {
		items = append(items, a.Items()...)
	}
	v, err := st.list(items)
	v.kind = a.kind
	return v, true, err
}

// arith evaluates an operator on two numbers.
func arith(op operator, a, b Value) (Value, error) {
	switch {
	case a.kind == Float || b.kind == Float:
		return floatArith(op, a, b)
	case op == opDiv:
		return divide(a, b)
	case op == opMod && b.big().Sign() == 0:
		return Value{}, errf(KindZeroDiv, "integer modulo by zero")
	case op == opPow:
		return power(a, b)
	}
	if a.kind != BigInt && b.kind != BigInt {
		if v, ok, err := smallArith(op, a.int(), b.int()); ok {
			return v, err
		}
	}
	x, y, z := a.big(), b.big(), new(big.Int)
	switch op {
	case opAdd:
		z.Add(x, y)
	case opSub:
		z.Sub(x, y)
	case opMul:
		if x.BitLen()+y.BitLen() > 2*maxIntBits {
			return Value{}, errBuild
		}
		z.Mul(x, y)
	default:
		if y.Sign() == 0 {
			return Value{}, errf(KindZeroDiv, "integer division or modulo by zero")
		}
		m := new(big.Int)
		z.DivMod(x, y, m)
		if m.Sign() != 0 && y.Sign() < 0 { // Euclidean to floored
			m.Add(m, y)
			z.Sub(z, big.NewInt(1))
		}
		if op == opMod {
			z = m
		}
	}
	return FromBig(z), nil
}

// smallArith handles int64 operands; ok is false if the result might not fit.
func smallArith(op operator, x, y int64) (Value, bool, error) {
	switch op {
	case opAdd:
		z := x + y
		return FromInt(z), (z > x) == (y > 0), nil
	case opSub:
		z := x - y
		return FromInt(z), (z < x) == (y > 0), nil
	case opMul:
		hi, lo := bits.Mul64(uint64(max(x, -x)), uint64(max(y, -y)))
		return FromInt(x * y), hi == 0 && lo < 1<<63, nil
	}
	if y == 0 {
		return Value{}, true, errf(KindZeroDiv, "integer division or modulo by zero")
	}
	if y == -1 {
		return Value{}, false, nil
	}
	q, m := x/y, x%y
	if m != 0 && (m < 0) != (y < 0) {
		m += y
		q--
	}
	if op == opMod {
		return FromInt(m), true, nil
	}
	return FromInt(q), true, nil
}

func toFloat(v Value) (float64, error) {
	if v.kind == Float {
		return v.float(), nil
	}
	if v.kind != BigInt {
		return float64(v.int()), nil
	}
	f, _ := new(big.Float).SetInt(v.big()).Float64()
	if math.IsInf(f, 0) {
		return 0, errf(KindOverflow, "int too large to convert to float")
	}
	return f, nil
}

func floatArith(op operator, a, b Value) (Value, error) {
	x, err := toFloat(a)
	if err != nil {
		return Value{}, err
	}
	y, err := toFloat(b)
	if err != nil {
		return Value{}, err
	}
	switch op {
	case opAdd:
		return FromFloat(x + y), nil
	case opSub:
		return FromFloat(x - y), nil
	case opMul:
		return FromFloat(x * y), nil
	case opPow:
		return floatPower(x, y)
	}
	if y == 0 {
		what := map[operator]string{opDiv: "float division by zero", opFloorDiv: "float floor division by zero", opMod: "float modulo"}[op]
		return Value{}, errf(KindZeroDiv, "%s", what)
	}
	if op == opDiv {
		return FromFloat(x / y), nil
	}
	m := math.Mod(x, y)
	q := (x - m) / y
	if m != 0 {
		if (y < 0) != (m < 0) {
			m += y
			q--
		}
	} else {
		m = math.Copysign(0, y)
	}
	if op == opMod {
		return FromFloat(m), nil
	}
	return FromFloat(floorQuotient(q, x/y)), nil
}

// floorQuotient rounds the quotient of a floored division.
func floorQuotient(q, exact float64) float64 {
	if q == 0 {
		return math.Copysign(0, exact)
	}
	f := math.Floor(q)
	if q-f > 0.5 {
		f++
	}
	return f
}

func floatPower(x, y float64) (Value, error) {
	if x == 0 && y < 0 {
		return Value{}, errf(KindZeroDiv, "0.0 cannot be raised to a negative power")
	}
	if x < 0 && y != math.Trunc(y) && !math.IsInf(x, 0) && !math.IsNaN(y) {
		return Value{}, valueErr("complex results are not supported")
	}
	z := math.Pow(x, y)
	if math.IsInf(z, 0) && !math.IsInf(x, 0) && !math.IsInf(y, 0) {
		return Value{}, errf(KindOverflow, "(34, 'Numerical result out of range')")
	}
	return FromFloat(z), nil
}

// divide is true division of two ints.
func divide(a, b Value) (Value, error) {
	y := b.big()
	if y.Sign() == 0 {
		return Value{}, errf(KindZeroDiv, "division by zero")
	}
	const exact = 1 << 53
	if a.kind != BigInt && b.kind != BigInt && a.int() > -exact && a.int() < exact && b.int() > -exact && b.int() < exact {
		return FromFloat(float64(a.int()) / float64(b.int())), nil
	}
	f, _ := new(big.Rat).SetFrac(a.big(), y).Float64()
	if math.IsInf(f, 0) {
		return Value{}, errf(KindOverflow, "integer division result too large for a float")
	}
	return FromFloat(f), nil
}

func power(a, b Value) (Value, error) {
	x, y := a.big(), b.big()
	if y.Sign() < 0 {
		return floatArith(opPow, a, b)
	}
	if x.BitLen() > 1 && (!y.IsInt64() || y.Int64() > maxIntBits || int64(x.BitLen())*y.Int64() > 2*maxIntBits) {
		return Value{}, errBuild
	}
	if x.BitLen() <= 1 { // 0, 1 and -1, for any exponent
		y = new(big.Int).And(y, big.NewInt(1))
		if b.big().Sign() > 0 && y.Sign() == 0 {
			y.SetInt64(2)
		}
	}
	return FromBig(new(big.Int).Exp(x, y, nil)), nil
}

// unary evaluates +v or -v.
func unary(op byte, v Value) (Value, error) {
	switch {
	case v.isUndef():
		return v, v.fail()
	case !v.isNumber():
		return v, typeErr("bad operand type for unary %c: '%s'", op, typeName(v))
	case v.kind == Float && op == '-':
		return FromFloat(-v.float()), nil
	case v.kind == Float:
		return v, nil
	case op == '+' && v.kind == Bool:
		return FromInt(v.int()), nil
	case op == '+':
		return v, nil
	}
	return arith(opSub, FromInt(0), v)
}
