package jinja

// loopState is the loop variable of one running for statement.
type loopState struct {
	items   []Value
	i       int // index of the current item
	depth   int
	stmt    *forStmt
	frame   *frame // in which a recursive loop was started
	changed []Value
	seen    bool // changed has been set
}

func (s *forStmt) exec(st *state) error {
	v, err := s.iter.eval(st)
	if err != nil {
		return at(err, s.line)
	}
	if !s.recursive {
		return at(s.run(st, v, 0, nil), s.line)
	}
	return at(s.recurse(st, v, 0, st.frame), s.line)
}

// recurse runs the body of a recursive loop as a function.
func (s *forStmt) recurse(st *state, v Value, depth int, parent *frame) error {
	if st.calls++; st.calls > maxCalls {
		return errDeep
	}
	if err := st.buildFrame(s.fn); err != nil {
		return err
	}
	outer := st.frame
	f, mark := st.push(s.fn, parent)
	err := s.run(st, v, depth, parent)
	st.pop(f, mark, s.fn)
	st.frame = outer
	st.calls--
	return err
}

func (s *forStmt) run(st *state, v Value, depth int, parent *frame) error {
	it, err := iterate(v)
	if err != nil {
		return err
	}
	if s.test != nil {
		if it, err = s.filter(st, it); err != nil {
			return err
		}
	}
	var loop *loopState
	if s.usesLoop {
		items, err := it.rest(st)
		if err != nil {
			return err
		}
		if err := st.build(loopSize); err != nil {
			return err
		}
		loop = st.mem.loop()
		*loop = loopState{items: items, depth: depth, stmt: s, frame: parent}
		it = iterator{items: items}
	}
	ran := false
	for i := 0; ; i++ {
		x, ok := it.next()
		if !ok {
			break
		}
		ran = true
		if err := st.spend(1); err != nil {
			return err
		}
		st.enter(s.in)
		if loop != nil {
			loop.i = i
			*st.slot(s.loopRef) = fromLoop(loop)
		}
		if err := st.assign(&s.target, x); err != nil {
			return err
		}
		if err := st.exec(s.body); err != nil {
			if err == errBreak {
				break
			}
			if err != errContinue {
				return err
			}
		}
	}
	if !ran && len(s.alt) > 0 {
		st.enter(s.altIn)
		return st.exec(s.alt)
	}
	return nil
}

// filter returns the items for which the loop's test holds.
func (s *forStmt) filter(st *state, it iterator) (iterator, error) {
	st.enter(s.testIn)
	var out []Value
	for {
		x, ok := it.next()
		if !ok {
			return iterator{items: out}, nil
		}
		if err := st.spend(1); err != nil {
			return it, err
		}
		if err := st.assign(&s.testOn, x); err != nil {
			return it, err
		}
		ok, err := st.test(s.test)
		if err != nil {
			return it, err
		}
		if ok {
			out = append(out, x)
		}
	}
}

var (
	noPrevious = &undef{hint: "there is no previous item"}
	noNext     = &undef{hint: "there is no next item"}
)

// attr returns an attribute of the loop variable.
func (l *loopState) attr(name string) (Value, bool) {
	n := len(l.items)
	switch name {
	case "index":
		return FromInt(int64(l.i + 1)), true
	case "index0":
		return FromInt(int64(l.i)), true
	case "revindex":
		return FromInt(int64(n - l.i)), true
	case "revindex0":
		return FromInt(int64(n - l.i - 1)), true
	case "first":
		return FromBool(l.i == 0), true
	case "last":
		return FromBool(l.i == n-1), true
	case "length":
		return FromInt(int64(n)), true
	case "depth":
		return FromInt(int64(l.depth + 1)), true
	case "depth0":
		return FromInt(int64(l.depth)), true
	case "previtem":
		if l.i == 0 {
			return undefined(noPrevious, Missing), true
		}
		return l.items[l.i-1], true
	case "nextitem":
		if l.i >= n-1 {
			return undefined(noNext, Missing), true
		}
		return l.items[l.i+1], true
	}
	return Value{}, false
}

// method calls cycle and changed.
func (l *loopState) method(st *state, name string, a args) (Value, bool, error) {
	switch name {
	case "cycle":
		if len(a.pos) == 0 {
			return Value{}, true, typeErr("no items for cycling given")
		}
		return a.pos[l.i%len(a.pos)], true, nil
	case "changed":
		same := l.seen && len(l.changed) == len(a.pos)
		for i := 0; same && i < len(a.pos); i++ {
			if err := st.spend(weight(a.pos[i], 0, st.steps)); err != nil {
				return Value{}, true, err
			}
			eq, err := equal(l.changed[i], a.pos[i], 0)
			if err != nil {
				return Value{}, true, err
			}
			same = eq
		}
		if !same {
			l.seen, l.changed = true, append([]Value(nil), a.pos...)
		}
		return FromBool(!same), true, nil
	}
	return Value{}, false, nil
}

// call runs a recursive loop over the children of the current item.
func (l *loopState) call(st *state, a args) (Value, error) {
	if !l.stmt.recursive {
		return Value{}, typeErr("The loop must have the 'recursive' marker to be called recursively.")
	}
	if len(a.pos) != 1 || len(a.kw) > 0 {
		return Value{}, typeErr("loop() takes exactly one argument")
	}
	v, depth := a.pos[0], l.depth+1
	return st.capture(func() error { return l.stmt.recurse(st, v, depth, l.frame) })
}
