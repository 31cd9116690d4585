package jinja

// globalFunc is a function that templates can call.
type globalFunc func(st *state, a args) (Value, error)

// The functions that every template sees.
var globals = [...]function{
	{name: "namespace", fn: globalNamespace},
	{name: "range", fn: globalRange},
	{name: "dict", fn: globalDict},
	{name: "raise_exception", fn: globalRaise},
	{name: "strftime_now", fn: globalStrftimeNow},
	{name: "joiner", fn: globalJoiner},
	{name: "cycler", fn: globalCycler},
}

// globalByName returns a built-in variable, or Missing.
func globalByName(name string) Value {
	for i := range globals {
		if f := &globals[i]; f.name == name {
			return fromFunc(f)
		}
	}
	return Value{}
}

// newMap builds a dict from the arguments of dict() or namespace().
func newMap(st *state, name string, a args) (*Map, error) {
	m := st.mem.slab.NewMap(len(a.kw))
	if len(a.pos) > 1 {
		return nil, typeErr("%s expected at most 1 argument, got %d", name, len(a.pos))
	}
	if len(a.pos) == 1 {
		if err := m.update(st, a.pos[0]); err != nil {
			return nil, err
		}
	}
	for _, k := range a.kw {
		m.Set(k.name, k.v)
	}
	return m, st.build(objectSize + 2*valueSize*m.Len())
}

// update adds the entries of a dict, or of an iterable of pairs.
func (m *Map) update(st *state, v Value) error {
	if src := v.Map(); src != nil {
		for _, e := range src.entries {
			if e.Key.kind != String {
				if err := st.spend(m.Len()); err != nil {
					return err
				}
			}
			m.set(e.Key, e.Val)
		}
		return st.spend(src.Len())
	}
	if ns := v.namespace(); ns != nil {
		return typeErr("'Namespace' object is not iterable")
	}
	items, err := st.itemsOf(v)
	if err != nil {
		return err
	}
	for i, x := range items {
		pair, err := st.itemsOf(x)
		if err != nil {
			return typeErr("cannot convert dictionary update sequence element #%d to a sequence", i)
		}
		if len(pair) != 2 {
			return valueErr("dictionary update sequence element #%d has length %d; 2 is required", i, len(pair))
		}
		if err := hashable(pair[0]); err != nil {
			return err
		}
		if pair[0].kind != String {
			if err := st.spend(m.Len()); err != nil {
				return err
			}
		}
		m.set(pair[0], pair[1])
	}
	return nil
}

func globalNamespace(st *state, a args) (Value, error) {
	m, err := newMap(st, "namespace", a)
	if err != nil {
		return Value{}, err
	}
	ns := st.mem.namespace()
	ns.attrs = *m
	return fromNamespace(ns), nil
}

func globalDict(st *state, a args) (Value, error) {
	m, err := newMap(st, "dict", a)
	if err != nil {
		return Value{}, err
	}
	return FromDict(m), nil
}

func globalRange(st *state, a args) (Value, error) {
	if len(a.kw) > 0 {
		return Value{}, typeErr("range() takes no keyword arguments")
	}
	if len(a.pos) == 0 || len(a.pos) > 3 {
		return Value{}, typeErr("range expected 1 to 3 arguments, got %d", len(a.pos))
	}
	var n [3]int64
	for i, v := range a.pos {
		if v.isUndef() {
			return v, v.fail()
		}
		if !v.isInt() {
			return v, typeErr("'%s' object cannot be interpreted as an integer", typeName(v))
		}
		if v.kind == BigInt || v.int() > 1<<60 || v.int() < -1<<60 {
			return v, errf(KindOverflow, "range() bounds are too big")
		}
		n[i] = v.int()
	}
	r := rng{start: n[0], stop: n[1], step: n[2]}
	switch len(a.pos) {
	case 1:
		r.start, r.stop, r.step = 0, n[0], 1
	case 2:
		r.step = 1
	}
	switch {
	case r.step == 0:
		return Value{}, valueErr("range() arg 3 must not be zero")
	case r.step > 0 && r.stop > r.start:
		r.n = (r.stop - r.start + r.step - 1) / r.step
	case r.step < 0 && r.stop < r.start:
		r.n = (r.start - r.stop - r.step - 1) / -r.step
	}
	if r.n > maxRange {
		return Value{}, errf(KindOverflow, "Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).", maxRange)
	}
	return st.mem.rng(r), st.build(objectSize)
}

func globalRaise(st *state, a args) (Value, error) {
	b, err := a.bind("raise_exception", 1, "message")
	if err != nil {
		return Value{}, err
	}
	s, err := st.toStr(b[0])
	if err != nil {
		return Value{}, err
	}
	return Value{}, errf(KindTemplate, "%s", s.Str())
}

func globalStrftimeNow(st *state, a args) (Value, error) {
	b, err := a.bind("strftime_now", 1, "format")
	if err != nil {
		return Value{}, err
	}
	if b[0].kind != String {
		return Value{}, typeErr("strftime() argument 1 must be str, not %s", typeName(b[0]))
	}
	return st.str(strftime(st.clock(), b[0].Str()))
}

// globalJoiner returns a function that gives "" at first and the separator
// from then on.
func globalJoiner(st *state, a args) (Value, error) {
	b, err := a.bind("joiner", 0, "sep")
	if err != nil {
		return Value{}, err
	}
	sep, used := b[0], false
	if sep.kind == Missing {
		sep = FromString(", ")
	}
	return fromFunc(&function{name: "joiner", fn: func(*state, args) (Value, error) {
		if !used {
			used = true
			return FromString(""), nil
		}
		return sep, nil
	}}), nil
}

// globalCycler returns a namespace whose next() goes round the arguments.
func globalCycler(_ *state, a args) (Value, error) {
	if len(a.pos) == 0 {
		return Value{}, errf(KindRuntime, "at least one item has to be provided")
	}
	items, pos := append([]Value(nil), a.pos...), 0
	ns := new(namespace)
	set := func() { ns.attrs.Set("current", items[pos]) }
	ns.attrs.Set("next", fromFunc(&function{name: "next", fn: func(*state, args) (Value, error) {
		v := items[pos]
		pos = (pos + 1) % len(items)
		set()
		return v, nil
	}}))
	ns.attrs.Set("reset", fromFunc(&function{name: "reset", fn: func(*state, args) (Value, error) {
		pos = 0
		set()
		return noneValue, nil
	}}))
	set()
	return fromNamespace(ns), nil
}
