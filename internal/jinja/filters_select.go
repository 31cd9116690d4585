package jinja

// filterMap applies a filter to, or reads an attribute of, every item.
func filterMap(st *state, x Value, a args) (Value, error) {
	fn, err := mapper(st, a)
	if err != nil {
		return x, err
	}
	if !truth(x) {
		return st.mem.list(Generator, nil), st.build(objectSize)
	}
	items, err := st.itemsOf(x)
	if err != nil {
		return x, err
	}
	out := st.mem.values(len(items))
	for i, v := range items {
		if out[i], err = fn(v); err != nil {
			return x, err
		}
	}
	return st.mem.list(Generator, out), st.build(objectSize + valueSize*len(out))
}

func mapper(st *state, a args) (getter, error) {
	if attr, ok := a.kwarg("attribute"); ok && len(a.pos) == 0 {
		def, _ := a.kwarg("default")
		for _, k := range a.kw {
			if k.name != "attribute" && k.name != "default" {
				return nil, errf(KindFilterArg, "Unexpected keyword argument %s", reprString(k.name))
			}
		}
		return attrGetter(attr, def, false)
	}
	if len(a.pos) == 0 {
		return nil, errf(KindFilterArg, "map requires a filter argument")
	}
	fn := filterByName(a.pos[0].Str())
	if fn == nil {
		return nil, errf(KindRuntime, "No filter named %s.", repr(a.pos[0]))
	}
	rest := args{a.pos[1:], a.kw}
	return func(v Value) (Value, error) { return fn(st, v, rest) }, nil
}

// selectItems keeps the items for which a test agrees with keep. With byAttr
// the test looks at an attribute of the item.
func selectItems(st *state, x Value, a args, keep, byAttr bool) (Value, error) {
	get := getter(itself)
	if byAttr {
		if len(a.pos) == 0 {
			return x, errf(KindFilterArg, "Missing parameter for attribute name")
		}
		var err error
		if get, err = attrGetter(a.pos[0], Value{}, false); err != nil {
			return x, err
		}
		a.pos = a.pos[1:]
	}
	test := func(_ *state, v Value, _ args) (bool, error) { return truth(v), nil }
	if len(a.pos) > 0 {
		if test = testByName(a.pos[0].Str()); test == nil {
			return x, errf(KindRuntime, "No test named %s.", repr(a.pos[0]))
		}
		a.pos = a.pos[1:]
	}
	if !truth(x) {
		return st.mem.list(Generator, nil), st.build(objectSize)
	}
	items, err := st.itemsOf(x)
	if err != nil {
		return x, err
	}
	out := st.mem.values(len(items))[:0]
	for _, v := range items {
		k, err := get(v)
		if err != nil {
			return x, err
		}
		ok, err := test(st, k, a)
		if err != nil {
			return x, err
		}
		if ok == keep {
			out = append(out, v)
		}
	}
	return st.mem.list(Generator, out), st.build(objectSize + valueSize*len(out))
}
