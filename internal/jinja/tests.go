package jinja

// testFunc is a test: x is the value on the left of "is".
type testFunc func(st *state, x Value, a args) (bool, error)

func (x *testExpr) eval(st *state) (Value, error) {
	ok, err := x.test(st)
	return FromBool(ok), err
}

func (x *testExpr) test(st *state) (bool, error) {
	v, err := x.x.eval(st)
	switch {
	case err != nil:
		return false, err
	case x.on != 0:
		return x.on.has(v.kind), nil
	case x.fn == nil:
		return false, at(errf(KindRuntime, "No test named '%s'.", x.name), x.line)
	case x.args.none():
		ok, err := x.fn(st, v, args{})
		return ok, at(err, x.line)
	}
	a, marks, err := x.args.eval(st)
	if err != nil {
		return false, at(err, x.line)
	}
	ok, err := x.fn(st, v, a)
	st.drop(marks)
	return ok, at(err, x.line)
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
	is := flagTest(name)
	if on := kindTest(name); on != 0 {
		is = func(v Value) bool { return on.has(v.kind) }
	}
	if is != nil {
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
			if err := st.spendText("isupper", s); err != nil {
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

// kindTest returns the kinds for which a test holds that looks at nothing but
// the kind, or an empty set.
func kindTest(name string) kindSet {
	const all kindSet = 1<<(Function+1) - 1
	switch name {
	case "defined":
		return all &^ kinds(Undefined, Missing)
	case "undefined":
		return kinds(Undefined, Missing)
	case "none":
		return kinds(None)
	case "boolean":
		return kinds(Bool)
	case "integer":
		return kinds(Int, BigInt)
	case "float":
		return kinds(Float)
	case "number":
		return kinds(Int, Bool, BigInt, Float)
	case "string":
		return kinds(String)
	case "mapping":
		return kinds(Dict)
	case "sequence":
		return kinds(String, List, Tuple, Dict, Range, Undefined, Missing)
	case "iterable":
		return kinds(List, Tuple, View, Dict, String, Undefined, Missing, Range, Generator, Loop)
	case "callable":
		return kinds(Function, Macro, Loop, Undefined, Missing)
	}
	return 0
}

// flagTest returns a test of one value that cannot fail.
func flagTest(name string) func(Value) bool {
	switch name {
	case "true":
		return func(v Value) bool { return v.kind == Bool && v.num == 1 }
	case "false":
		return func(v Value) bool { return v.kind == Bool && v.num == 0 }
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
