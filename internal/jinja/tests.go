package jinja

// testFunc is a test: x is the value on the left of "is".
type testFunc func(st *state, x Value, a args) (bool, error)

func (x *testExpr) eval(st *state) (Value, error) {
	v, err := x.x.eval(st)
	if err != nil {
		return v, err
	}
	if x.fn == nil {
		return v, at(errf(KindRuntime, "No test named '%s'.", x.name), x.line)
	}
	if x.args.none() {
		if x.is != nil {
			return FromBool(x.is(v)), nil
		}
		ok, err := x.fn(st, v, args{})
		return FromBool(ok), at(err, x.line)
	}
	a, marks, err := x.args.eval(st)
	if err != nil {
		return v, at(err, x.line)
	}
	ok, err := x.fn(st, v, a)
	st.drop(marks)
	return FromBool(ok), at(err, x.line)
}

// testByName returns a test, or nil.
func testByName(name string) testFunc {
	if op := testOperator(name); op != opNone {
		return func(st *state, x Value, a args) (bool, error) {
			b, err := a.bind(name, 1, "other")
			if err != nil {
				return false, err
			}
			return compare(st, op, x, b[0])
		}
	}
	if is := kindTest(name); is != nil {
		return func(_ *state, x Value, a args) (bool, error) {
			_, err := a.bind(name, 0)
			return is(x), err
		}
	}
	switch name {
	case "odd", "even", "divisibleby":
		return modTest(name)
	case "lower", "upper":
		return func(st *state, x Value, _ args) (bool, error) {
			s, err := st.toStr(x)
			if err != nil {
				return false, err
			}
			return isCased(s.Str(), name == "upper"), nil
		}
	case "sameas":
		return func(_ *state, x Value, a args) (bool, error) {
			b, err := a.bind(name, 1, "other")
			return same(x, b[0]), err
		}
	case "filter":
		return func(_ *state, x Value, _ args) (bool, error) { return filterByName(x.Str()) != nil, nil }
	case "test":
		return func(_ *state, x Value, _ args) (bool, error) { return testByName(x.Str()) != nil, nil }
	}
	return nil
}

func testOperator(name string) operator {
	switch name {
	case "eq", "==", "equalto":
		return opEq
	case "ne", "!=":
		return opNe
	case "lt", "<", "lessthan":
		return opLt
	case "le", "<=":
		return opLe
	case "gt", ">", "greaterthan":
		return opGt
	case "ge", ">=":
		return opGe
	case "in":
		return opIn
	}
	return opNone
}

// kindTest returns a test that only looks at the kind of the value.
func kindTest(name string) func(Value) bool {
	switch name {
	case "defined":
		return func(v Value) bool { return !v.isUndef() }
	case "undefined":
		return Value.isUndef
	case "none":
		return func(v Value) bool { return v.kind == None }
	case "boolean":
		return func(v Value) bool { return v.kind == Bool }
	case "true":
		return func(v Value) bool { return v.kind == Bool && v.num == 1 }
	case "false":
		return func(v Value) bool { return v.kind == Bool && v.num == 0 }
	case "integer":
		return func(v Value) bool { return v.kind == Int || v.kind == BigInt }
	case "float":
		return func(v Value) bool { return v.kind == Float }
	case "number":
		return Value.isNumber
	case "string":
		return func(v Value) bool { return v.kind == String }
	case "mapping":
		return func(v Value) bool { return v.kind == Dict }
	case "sequence":
		return func(v Value) bool {
			switch v.kind {
			case String, List, Tuple, Dict, Range, Undefined, Missing:
				return true
			}
			return false
		}
	case "iterable":
		return func(v Value) bool {
			_, err := iterate(v)
			return err == nil || v.kind == Loop
		}
	case "callable":
		return func(v Value) bool {
			switch v.kind {
			case Function, Macro, Loop, Undefined, Missing:
				return true
			}
			return false
		}
	case "escaped":
		return func(v Value) bool { return v.kind == String && v.flag&strMarkup != 0 }
	}
	return nil
}

func modTest(name string) testFunc {
	return func(st *state, x Value, a args) (bool, error) {
		by, want := FromInt(2), FromInt(0)
		switch name {
		case "odd":
			want = FromInt(1)
		case "divisibleby":
			b, err := a.bind(name, 1, "num")
			if err != nil {
				return false, err
			}
			by = b[0]
		}
		m, err := binary(st, opMod, x, by)
		if err != nil {
			return false, err
		}
		return equal(m, want, 0)
	}
}

// same is Python's "is" as far as it can be told from values.
func same(a, b Value) bool {
	if a.kind != b.kind {
		return false
	}
	switch a.kind {
	case None, Bool, Int, Float:
		return a.num == b.num
	case String:
		return a.Str() == b.Str()
	}
	return a.ptr == b.ptr
}
