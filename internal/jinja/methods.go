package jinja

// callMethod calls a method of a built-in type.
func callMethod(st *state, self Value, name string, a args) (Value, error) {
	switch self.kind {
	case Dict:
		return dictMethod(st, self, name, a)
	case List, Tuple, Range:
		return seqMethod(st, self, name, a)
	case String:
		if err := st.spendText(name, self); err != nil {
			return self, err
		}
		return stringMethod(st, self, name, a)
	case Int, Bool, BigInt, Float:
		return numberMethod(self, name)
	case Loop:
		if v, ok, err := self.loop().method(st, name, a); ok {
			return v, err
		}
	}
	return self, noMethod(self, name)
}

func noMethod(self Value, name string) error {
	return errf(KindAttribute, "the method %s of %s is not supported in a chat template", reprString(name), typeName(self))
}

func dictMethod(st *state, self Value, name string, a args) (Value, error) {
	m := self.Map()
	if name == "get" {
		b, err := a.bind("get", 1, "key", "default")
		if err != nil || len(a.kw) > 0 {
			return self, typeErr("get expected at least 1 argument, got %d", len(a.pos))
		}
		if err := hashable(b[0]); err != nil {
			return self, err
		}
		if err := st.spend(lookupCost(self, b[0])); err != nil {
			return self, err
		}
		if i := m.find(b[0]); i >= 0 {
			return m.entries[i].Val, nil
		}
		if b[1].kind == Missing {
			return noneValue, nil
		}
		return b[1], nil
	}
	if len(a.pos)+len(a.kw) > 0 && name != "fromkeys" {
		return self, typeErr("dict.%s() takes no arguments (%d given)", name, len(a.pos)+len(a.kw))
	}
	if err := st.build(objectSize + valueSize*m.Len()); err != nil {
		return self, err
	}
	switch name {
	case "items":
		items, err := pairs(st, m)
		return st.mem.view("dict_items", items), err
	case "keys":
		items := st.mem.values(m.Len())
		for i := range items {
			items[i] = m.entries[i].Key
		}
		return st.mem.view("dict_keys", items), nil
	case "values":
		items := st.mem.values(m.Len())
		for i := range items {
			items[i] = m.entries[i].Val
		}
		return st.mem.view("dict_values", items), nil
	case "copy":
		return self, nil // dicts never change, so a copy can share
	}
	return self, noMethod(self, name)
}

func seqMethod(st *state, self Value, name string, a args) (Value, error) {
	if name == "copy" {
		return self, nil
	}
	b, err := a.bind(name, 1, "value", "start", "stop")
	if err != nil {
		return self, err
	}
	if self.kind == Range && len(a.pos) > 1 {
		return self, typeErr("range.%s() takes exactly one argument (%d given)", name, len(a.pos))
	}
	items, err := st.itemsOf(self)
	if err != nil {
		return self, err
	}
	from, to := 0, len(items)
	if name == "index" && b[1].kind != Missing {
		stop := b[2]
		if stop.kind == Missing {
			stop = noneValue
		}
		if from, to, _, err = sliceBounds(len(items), b[1], stop, noneValue); err != nil {
			return self, err
		}
	}
	n := int64(0)
	for i := from; i < to; i++ {
		if err := st.spend(min(weight(items[i], 0, st.steps), weight(b[0], 0, st.steps))); err != nil {
			return self, err
		}
		eq, err := equal(items[i], b[0], 0)
		if err != nil {
			return self, err
		}
		if eq && name == "index" {
			return FromInt(int64(i)), nil
		}
		if eq {
			n++
		}
	}
	switch name {
	case "count":
		return FromInt(n), nil
	case "index":
		return self, valueErr("%s is not in %s", repr(b[0]), typeName(self))
	}
	return self, noMethod(self, name)
}

func numberMethod(self Value, name string) (Value, error) {
	switch {
	case name == "bit_length" && self.isInt():
		return FromInt(int64(self.big().BitLen())), nil
	case name == "conjugate":
		return self, nil
	case name == "is_integer" && self.kind == Float:
		f := self.float()
		return FromBool(f-f == 0 && f == float64(int64(f)) || f-f == 0 && (f > 1<<62 || f < -1<<62)), nil
	}
	return self, noMethod(self, name)
}
