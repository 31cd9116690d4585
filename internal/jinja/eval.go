package jinja

func (x *constExpr) eval(*state) (Value, error) { return x.v, nil }

func (x *nameExpr) eval(st *state) (Value, error) { return x.value(st), nil }

func (x *nameExpr) value(st *state) Value {
	if v := *st.slot(x.ref); v.kind != Missing {
		return v
	}
	return undefined(x.u, Missing)
}

func (x *listExpr) eval(st *state) (Value, error) {
	if x.lit.kind != Missing {
		return x.lit, nil
	}
	items := st.mem.values(len(x.items))
	for i, e := range x.items {
		v, err := e.eval(st)
		if err != nil {
			return v, err
		}
		items[i] = v
	}
	v, err := st.list(items)
	v.kind = x.kind
	return v, err
}

func (x *dictExpr) eval(st *state) (Value, error) {
	m := st.mem.slab.NewMap(len(x.pairs))
	for _, p := range x.pairs {
		k, err := p[0].eval(st)
		if err != nil {
			return k, err
		}
		v, err := p[1].eval(st)
		if err != nil {
			return v, err
		}
		if err := hashable(k); err != nil {
			return Value{}, at(err, x.line)
		}
		m.set(k, v)
	}
	return FromDict(m), st.build(objectSize + 2*valueSize*len(m.entries))
}

func (x *attrExpr) eval(st *state) (Value, error) {
	var v Value
	if x.base != nil {
		v = x.base.value(st)
	} else {
		var err error
		if v, err = x.x.eval(st); err != nil {
			return v, err
		}
	}
	switch v.kind {
	case Dict: // the common case first
		if !x.dict {
			if e, ok := v.Map().Get(x.name); ok {
				return e, nil
			}
			return undefined(x.u, Dict), nil
		}
	case Namespace:
		if !x.dict {
			if e, ok := v.namespace().attrs.Get(x.name); ok {
				return e, nil
			}
			return undefined(x.u, Namespace), nil
		}
	case Loop:
		if a, ok := v.loop().attr(x.name); ok {
			return a, nil
		}
	case Undefined:
		return v, at(v.fail(), x.line)
	}
	if a, ok := attribute(v, x.key); ok {
		return a, nil
	}
	if v.kind == Dict {
		if e, ok := v.Map().Get(x.name); ok {
			return e, nil
		}
	}
	return undefined(x.u, v.kind), nil
}

func (x *itemExpr) eval(st *state) (Value, error) {
	var v Value
	if x.base != nil {
		v = x.base.value(st)
	} else {
		var err error
		if v, err = x.x.eval(st); err != nil {
			return v, err
		}
	}
	if v.kind == Dict && x.u != nil {
		m := v.Map()
		if e, ok := m.Get(x.key.Str()); ok {
			return e, nil
		}
		if x.dict {
			if a, ok := attribute(v, x.key); ok {
				return a, nil
			}
		}
		return undefined(x.u, Dict), nil
	}
	k, err := x.arg.eval(st)
	if err != nil {
		return k, err
	}
	if v.kind == Undefined {
		return v, at(v.fail(), x.line)
	}
	if err := st.spend(lookupCost(v, k)); err != nil {
		return v, err
	}
	if e, ok := item(v, k); ok {
		return e, nil
	}
	return undefined(&undef{name: k}, v.kind), nil
}

// lookupCost returns the steps that v[k] takes beyond a fixed few: a dict is
// searched for a key that is not a str, and a str is walked.
func lookupCost(v, k Value) int {
	switch {
	case v.kind == Dict && k.kind != String:
		return v.Map().Len()
	case v.kind == String:
		return walkCost(v)
	}
	return 0
}

// walkCost returns the steps of walking over the characters of v, if it is a
// str that has to be walked to count them.
func walkCost(v Value) int {
	if v.kind != String || v.flag&strASCII != 0 {
		return 0
	}
	return int(v.num >> 6)
}

// item is Jinja's obj[key]: the item, else for a str key the attribute.
func item(v, k Value) (Value, bool) {
	switch v.kind {
	case Dict:
		m := v.Map()
		if k.kind == String {
			if e, ok := m.Get(k.Str()); ok {
				return e, true
			}
		} else if hashable(k) == nil {
			if i := m.find(k); i >= 0 {
				return m.entries[i].Val, true
			}
		}
	case List, Tuple, String, Range:
		if k.kind == Int || k.kind == Bool {
			return index(v, k.int())
		}
	}
	if k.kind == String {
		return attribute(v, k)
	}
	return Value{}, false
}

// index returns element i of a sequence; negative i counts from the end.
func index(v Value, i int64) (Value, bool) {
	n := int64(length(v))
	if i < 0 {
		i += n
	}
	if i < 0 || i >= n {
		return Value{}, false
	}
	switch v.kind {
	case String:
		if v.ascii() {
			c := FromString(v.Str()[i : i+1])
			c.flag = strASCII
			return c, true
		}
		s := v.Str()
		from := runeOffset(s, int(i))
		return FromString(s[from : from+runeOffset(s[from:], 1)]), true
	case Range:
		return (*rng)(v.ptr).at(i), true
	}
	return v.Items()[i], true
}

// runeOffset returns the byte offset of character n of s, or len(s).
func runeOffset(s string, n int) int {
	for i := range s {
		if n == 0 {
			return i
		}
		n--
	}
	return len(s)
}

func (x *sliceExpr) eval(st *state) (Value, error) {
	v, err := x.x.eval(st)
	if err != nil {
		return v, err
	}
	var b [3]Value
	for i, e := range []expr{x.lo, x.hi, x.step} {
		b[i] = noneValue
		if e == nil {
			continue
		}
		if b[i], err = e.eval(st); err != nil {
			return v, err
		}
	}
	v, err = slice(st, v, b[0], b[1], b[2])
	return v, at(err, x.line)
}

func (x *condExpr) eval(st *state) (Value, error) {
	ok, err := st.test(x.cond)
	switch {
	case err != nil:
		return Value{}, at(err, x.line)
	case ok:
		return x.yes.eval(st)
	case x.no != nil:
		return x.no.eval(st)
	}
	return undefined(noElse, Missing), nil
}

var noElse = &undef{hint: "the inline if-expression evaluated to false and no else section was defined."}

// test evaluates x for its truth.
func (st *state) test(x expr) (bool, error) {
	switch x := x.(type) {
	case *testExpr:
		if x.check.name != nil {
			return x.check.test(st), nil
		}
		return x.test(st)
	case *compareExpr:
		return x.test(st)
	case *notExpr:
		if x.check.name != nil {
			return x.check.test(st), nil
		}
		ok, err := st.test(x.x)
		return !ok, err
	case *logicExpr:
		if x.check.name != nil {
			return x.check.test(st), nil
		}
		ok, err := st.test(x.l)
		if err != nil || ok == x.or {
			return ok, err
		}
		return st.test(x.r)
	}
	v, err := x.eval(st)
	if err != nil {
		return false, err
	}
	return truth(v), nil
}

func (x *notExpr) eval(st *state) (Value, error) {
	ok, err := st.test(x.x)
	return FromBool(!ok), err
}

func (x *logicExpr) eval(st *state) (Value, error) {
	l, err := x.l.eval(st)
	if err != nil || truth(l) == x.or {
		return l, err
	}
	return x.r.eval(st)
}

func (x *unaryExpr) eval(st *state) (Value, error) {
	v, err := x.x.eval(st)
	if err != nil {
		return v, err
	}
	if err := st.spendInt(opSub, v, v); err != nil {
		return v, at(err, x.line)
	}
	v, err = unary(x.op, v)
	return v, at(err, x.line)
}

func (x *binExpr) eval(st *state) (Value, error) {
	l, err := x.l.eval(st)
	if err != nil {
		return l, err
	}
	r, err := x.r.eval(st)
	if err != nil {
		return r, err
	}
	v, err := binary(st, x.op, l, r)
	return v, at(err, x.line)
}

func (x *concatExpr) eval(st *state) (Value, error) {
	return st.capture(func() error { return st.emit(x) })
}

func (x *compareExpr) eval(st *state) (Value, error) {
	ok, err := x.test(st)
	return FromBool(ok), err
}

func (x *compareExpr) test(st *state) (bool, error) {
	l, err := x.x.eval(st)
	if err != nil {
		return false, err
	}
	if x.str.kind == String && l.kind == String {
		return (l.Str() == x.str.Str()) == (x.ops[0].op == opEq), nil
	}
	for i := range x.ops {
		r, err := x.ops[i].x.eval(st)
		if err != nil {
			return false, err
		}
		ok, err := compare(st, x.ops[i].op, l, r)
		if err != nil {
			return false, at(err, x.line)
		}
		if !ok {
			return false, nil
		}
		l = r
	}
	return true, nil
}
