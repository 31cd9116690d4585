package jinja

import (
	"math"
	"math/big"
	"strconv"
	"strings"
)

func filterAbs(st *state, x Value, _ args) (Value, error) {
	if err := st.spendInt(opSub, x, x); err != nil {
		return x, err
	}
	switch {
	case x.isUndef():
		return x, x.fail()
	case x.kind == Float:
		return FromFloat(math.Abs(x.float())), nil
	case x.isInt():
		return FromBig(new(big.Int).Abs(x.big())), nil
	}
	return x, typeErr("bad operand type for abs(): '%s'", typeName(x))
}

func filterInt(st *state, x Value, a args) (Value, error) {
	b, err := a.bind("int", 0, "default", "base")
	if err != nil {
		return x, err
	}
	def := b[0]
	if def.kind == Missing {
		def = FromInt(0)
	}
	base := 10
	if b[1].isInt() {
		base = b[1].clamped()
	}
	switch x.kind {
	case Undefined, Missing:
		return x, x.fail()
	case Int, BigInt:
		return x, nil
	case Bool:
		return FromInt(x.int()), nil
	case Float:
		if f := x.float(); !math.IsInf(f, 0) && !math.IsNaN(f) {
			return floatToInt(f), nil
		} else if math.IsInf(f, 0) {
			return x, errf(KindOverflow, "cannot convert float infinity to integer")
		}
	case String:
		if n, ok := smallInt(x.Str()); ok && base == 10 {
			return FromInt(n), nil
		}
		if len(x.Str()) > maxIntDigits {
			return def, nil
		}
		if err := st.spendDigits(len(x.Str())); err != nil {
			return x, err
		}
		if n, ok := parseInt(x.Str(), base); ok {
			return FromBig(n), nil
		}
		if f, ok := parseFloat(x.Str()); ok && !math.IsInf(f, 0) && !math.IsNaN(f) {
			return floatToInt(f), nil
		}
	}
	return def, nil
}

// smallInt reads a decimal number of a few digits and nothing else.
func smallInt(s string) (n int64, ok bool) {
	if s == "" || len(s) > 18 {
		return 0, false
	}
	for i := range len(s) {
		if !isDigit(s[i]) {
			return 0, false
		}
		n = 10*n + int64(s[i]-'0')
	}
	return n, true
}

func floatToInt(f float64) Value {
	if math.Abs(f) < 1<<62 {
		return FromInt(int64(f))
	}
	b, _ := big.NewFloat(f).Int(nil)
	return FromBig(b)
}

// parseInt is Python's int(s, base).
func parseInt(s string, base int) (*big.Int, bool) {
	s = strings.TrimFunc(s, isSpace)
	neg := strings.HasPrefix(s, "-")
	if neg || strings.HasPrefix(s, "+") {
		s = s[1:]
	}
	if len(s) > 2 && s[0] == '0' {
		prefixed := map[byte]int{'x': 16, 'o': 8, 'b': 2}[s[1]|0x20]
		if prefixed != 0 && (base == prefixed || base == 0) {
			s, base = strings.TrimPrefix(s[2:], "_"), prefixed
		}
	}
	if base == 0 {
		base = 10
		if len(s) > 1 && s[0] == '0' && strings.Trim(s, "0_") != "" {
			return nil, false
		}
	}
	if s == "" || base < 2 || base > 36 || s[0] == '_' || s[0] == '+' || s[0] == '-' || strings.HasSuffix(s, "_") || strings.Contains(s, "__") {
		return nil, false
	}
	n, ok := new(big.Int).SetString(strings.ReplaceAll(s, "_", ""), base)
	if ok && neg {
		n.Neg(n)
	}
	return n, ok
}

// parseFloat is Python's float(s).
func parseFloat(s string) (float64, bool) {
	s = strings.TrimFunc(s, isSpace)
	for i := range len(s) {
		switch c := s[i]; {
		case isDigit(c), c == '.', c == '+', c == '-', c|0x20 == 'e':
		case c == '_':
			if i == 0 || i+1 == len(s) || !isDigit(s[i-1]) || !isDigit(s[i+1]) {
				return 0, false
			}
		default:
			switch strings.ToLower(strings.TrimLeft(s, "+-")) {
			case "inf", "infinity", "nan":
			default:
				return 0, false
			}
		}
	}
	f, err := strconv.ParseFloat(strings.ReplaceAll(s, "_", ""), 64)
	return f, err == nil || math.IsInf(f, 0)
}

func filterFloat(st *state, x Value, a args) (Value, error) {
	b, err := a.bind("float", 0, "default")
	if err != nil {
		return x, err
	}
	switch {
	case x.isUndef():
		return x, x.fail()
	case x.isNumber():
		if err := st.spendInt(opAdd, x, x); err != nil {
			return x, err
		}
		f, err := toFloat(x)
		return FromFloat(f), err
	case x.kind == String:
		if err := st.spend(int(x.num >> 2)); err != nil {
			return x, err
		}
		if f, ok := parseFloat(x.Str()); ok {
			return FromFloat(f), nil
		}
	}
	if b[0].kind == Missing {
		return FromFloat(0), nil
	}
	return b[0], nil
}

func filterRound(st *state, x Value, a args) (Value, error) {
	b, err := a.bind("round", 0, "precision", "method")
	if err != nil {
		return x, err
	}
	prec := 0
	if b[0].isInt() {
		prec = int(max(-400, min(b[0].int(), 400)))
	}
	method := "common"
	if b[1].kind == String {
		method = b[1].Str()
	}
	if x.isUndef() {
		return x, x.fail()
	}
	if err := st.spendInt(opAdd, x, x); err != nil {
		return x, err
	}
	if !x.isNumber() {
		return x, typeErr("type %s doesn't define __round__ method", typeName(x))
	}
	f, err := toFloat(x)
	if err != nil {
		return x, err
	}
	switch method {
	case "common":
		if x.kind != Float && prec >= 0 {
			return FromBig(x.big()), nil
		}
		return FromFloat(roundTo(f, prec)), nil
	case "ceil", "floor":
		scale := math.Pow(10, float64(prec))
		if method == "ceil" {
			return FromFloat(math.Ceil(f*scale) / scale), nil
		}
		return FromFloat(math.Floor(f*scale) / scale), nil
	}
	return x, errf(KindFilterArg, "method must be common, ceil or floor")
}

// roundTo rounds half to even in decimal, as Python's round does.
func roundTo(f float64, prec int) float64 {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return f
	}
	if prec < 0 {
		scale := math.Pow(10, float64(-prec))
		return math.RoundToEven(f/scale) * scale
	}
	r, _ := strconv.ParseFloat(strconv.FormatFloat(f, 'f', min(prec, 340), 64), 64)
	return r
}
