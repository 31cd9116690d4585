package jinja

func (st *state) exec(body []stmt) error {
	for _, s := range body {
		if st.steps--; st.steps < 0 {
			return errSteps
		}
		if err := s.exec(st); err != nil {
			return err
		}
	}
	return nil
}

func (s *dataStmt) exec(st *state) error { return st.write(s.text) }

func (s *outputStmt) exec(st *state) error {
	if x, ok := s.x.(*callExpr); ok {
		return at(st.emitCall(x), s.line)
	}
	return at(st.emit(s.x), s.line)
}

func (s *ifStmt) exec(st *state) error {
	ok, err := s.holds(st)
	if err != nil {
		return at(err, s.line)
	}
	if ok {
		return st.exec(s.body)
	}
	for _, e := range s.elif {
		if ok, err = e.holds(st); err != nil {
			return at(err, e.line)
		}
		if ok {
			return st.exec(e.body)
		}
	}
	return st.exec(s.alt)
}

func (s *ifStmt) holds(st *state) (bool, error) {
	if s.check.name != nil {
		return s.check.test(st), nil
	}
	return st.test(s.cond)
}

func (s *setStmt) exec(st *state) error {
	v, err := s.x.eval(st)
	if err != nil {
		return at(err, s.line)
	}
	return at(st.assign(&s.target, v), s.line)
}

func (s *setBlockStmt) exec(st *state) error {
	v, err := st.capture(func() error {
		st.enter(s.in)
		return st.exec(s.body)
	})
	if err == nil && s.filter != nil {
		v, err = s.filter.apply(st, v)
	}
	if err != nil {
		return at(err, s.line)
	}
	return at(st.assign(&s.target, v), s.line)
}

func (s *filterStmt) exec(st *state) error {
	v, err := st.capture(func() error {
		st.enter(s.in)
		return st.exec(s.body)
	})
	if err == nil {
		v, err = s.filter.apply(st, v)
	}
	if err != nil {
		return at(err, s.line)
	}
	return st.writeValue(v)
}

func (s *withStmt) exec(st *state) error {
	if err := st.build(valueSize * len(s.values)); err != nil {
		return at(err, s.line)
	}
	vals := st.mem.values(len(s.values))
	for i, x := range s.values {
		v, err := x.eval(st)
		if err != nil {
			return at(err, s.line)
		}
		vals[i] = v
	}
	st.enter(s.in)
	for i := range s.targets {
		if err := st.assign(&s.targets[i], vals[i]); err != nil {
			return at(err, s.line)
		}
	}
	return st.exec(s.body)
}

func (s *scopeStmt) exec(st *state) error {
	st.enter(s.in)
	return st.exec(s.body)
}

func (s *jumpStmt) exec(*state) error { return s.err }

func (s *macroStmt) exec(st *state) error {
	*st.slot(s.ref) = st.mem.macro(s.m, st.frame)
	if s.top {
		st.undefined--
	}
	return st.build(objectSize)
}

func (s *callStmt) exec(st *state) error {
	caller := st.mem.macro(s.m, st.frame)
	v, err := s.call.with(st, &caller)
	if err != nil {
		return at(err, s.line)
	}
	return st.writeValue(v)
}

// assign stores a value to a target.
func (st *state) assign(t *target, v Value) error {
	switch {
	case t.multi:
		return st.unpack(t, v)
	case t.attr == "":
		*st.slot(t.ref) = v
		return nil
	}
	ns := st.slot(t.ref).namespace()
	if ns == nil {
		return errf(KindRuntime, "cannot assign attribute on non-namespace object")
	}
	ns.attrs.Set(t.attr, v)
	return nil
}

func (st *state) unpack(t *target, v Value) error {
	want := len(t.tuple)
	if v.kind == Tuple || v.kind == List {
		if items := v.Items(); len(items) == want {
			for i := range t.tuple {
				if err := st.assign(&t.tuple[i], items[i]); err != nil {
					return err
				}
			}
			return nil
		}
	}
	it, err := iterate(v)
	if err != nil {
		if e, ok := err.(*Error); ok && e.Kind == KindType {
			return typeErr("cannot unpack non-iterable %s object", typeName(v))
		}
		return err
	}
	for i := range t.tuple {
		x, ok := it.next()
		if !ok {
			return valueErr("not enough values to unpack (expected %d, got %d)", want, i)
		}
		if err := st.assign(&t.tuple[i], x); err != nil {
			return err
		}
	}
	if _, more := it.next(); more {
		return valueErr("too many values to unpack (expected %d)", want)
	}
	return nil
}
