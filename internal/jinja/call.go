package jinja

// args are evaluated arguments. They are valid only during the call: what
// keeps them must copy.
type args struct {
	pos []Value
	kw  []kwVal
}

type kwVal struct {
	name string
	v    Value
}

// kwarg returns and removes nothing; it looks a keyword argument up.
func (a args) kwarg(name string) (Value, bool) {
	for _, k := range a.kw {
		if k.name == name {
			return k.v, true
		}
	}
	return Value{}, false
}

// bind maps arguments to parameter names; the first required ones must be
// given. What is not given is Missing.
func (a args) bind(fn string, required int, names ...string) ([6]Value, error) {
	var out [6]Value
	if len(a.pos) > len(names) {
		return out, typeErr("%s() takes at most %d arguments (%d given)", fn, len(names), len(a.pos))
	}
	copy(out[:], a.pos)
	for _, k := range a.kw {
		i := 0
		for i < len(names) && names[i] != k.name {
			i++
		}
		switch {
		case i == len(names):
			return out, typeErr("%s() got an unexpected keyword argument '%s'", fn, k.name)
		case i < len(a.pos):
			return out, typeErr("%s() got multiple values for argument '%s'", fn, k.name)
		}
		out[i] = k.v
	}
	for i := range required {
		if out[i].kind == Missing {
			return out, typeErr("%s() missing required argument: '%s'", fn, names[i])
		}
	}
	return out, nil
}

// eval pushes the arguments on the state's stacks. The caller must call
// st.drop with the marks.
func (c *callArgs) eval(st *state) (a args, marks [2]int, err error) {
	marks = [2]int{len(st.args), len(st.kws)}
	for _, x := range c.pos {
		v, err := x.eval(st)
		if err != nil {
			return a, marks, err
		}
		st.args = append(st.args, v)
	}
	for _, k := range c.kw {
		v, err := k.x.eval(st)
		if err != nil {
			return a, marks, err
		}
		st.kws = append(st.kws, kwVal{k.name, v})
	}
	if c.dyn != nil || c.dynKW != nil {
		if err := c.evalDynamic(st, marks[1]); err != nil {
			return a, marks, err
		}
	}
	return args{st.args[marks[0]:len(st.args):len(st.args)], st.kws[marks[1]:len(st.kws):len(st.kws)]}, marks, nil
}

func (c *callArgs) evalDynamic(st *state, kwMark int) error {
	if c.dyn != nil {
		v, err := c.dyn.eval(st)
		if err != nil {
			return err
		}
		items, err := st.itemsOf(v)
		if err != nil {
			return err
		}
		st.args = append(st.args, items...)
	}
	if c.dynKW == nil {
		return nil
	}
	v, err := c.dynKW.eval(st)
	if err != nil {
		return err
	}
	if v.kind != Dict {
		return typeErr("argument after ** must be a mapping, not %s", typeName(v))
	}
	for _, e := range v.Map().entries {
		if e.Key.kind != String {
			return typeErr("keywords must be strings")
		}
		for _, k := range st.kws[kwMark:] {
			if k.name == e.Key.Str() {
				return typeErr("got multiple values for keyword argument '%s'", k.name)
			}
		}
		st.kws = append(st.kws, kwVal{e.Key.Str(), e.Val})
	}
	return st.spend(v.Map().Len())
}

func (st *state) drop(marks [2]int) {
	st.args, st.kws = st.args[:marks[0]], st.kws[:marks[1]]
}

func (x *callExpr) eval(st *state) (Value, error) { return x.with(st, nil) }

// with calls x; caller is the body of a call block, or nil.
func (x *callExpr) with(st *state, caller *Value) (Value, error) {
	if a, ok := x.fn.(*attrExpr); ok && caller == nil {
		return x.method(st, a)
	}
	fn, err := x.fn.eval(st)
	if err != nil {
		return fn, err
	}
	if fn.kind == Macro && caller == nil {
		mark := len(st.out)
		if err := x.runMacro(st, fn.macro()); err != nil {
			return Value{}, at(err, x.line)
		}
		v, err := st.captured(mark)
		return v, at(err, x.line)
	}
	return x.apply(st, fn, caller)
}

func (x *callExpr) apply(st *state, fn Value, caller *Value) (Value, error) {
	a, marks, err := x.args.eval(st)
	if err != nil {
		return Value{}, at(err, x.line)
	}
	if caller != nil {
		st.kws = append(st.kws, kwVal{"caller", *caller})
		a.kw = st.kws[marks[1]:len(st.kws):len(st.kws)]
	}
	v, err := st.call(fn, a)
	st.drop(marks)
	return v, at(err, x.line)
}

// method calls obj.name(...) without making a bound method first.
func (x *callExpr) method(st *state, f *attrExpr) (Value, error) {
	obj, err := f.x.eval(st)
	if err != nil {
		return obj, err
	}
	if !f.on.has(obj.kind) {
		fn, err := (&attrExpr{x: &constExpr{obj}, name: f.name, key: f.key, u: f.u, line: f.line, dict: f.dict, on: f.on}).eval(st)
		if err != nil {
			return fn, err
		}
		return x.apply(st, fn, nil)
	}
	if x.get && obj.kind == Dict {
		v, err := x.dictGet(st, obj)
		return v, at(err, x.line)
	}
	a, marks, err := x.args.eval(st)
	if err != nil {
		return Value{}, at(err, x.line)
	}
	v, err := callMethod(st, obj, f.name, a)
	st.drop(marks)
	return v, at(err, x.line)
}

// call calls any value.
func (st *state) call(fn Value, a args) (Value, error) {
	switch fn.kind {
	case Macro:
		mark := len(st.out)
		if err := st.callMacro(fn.macro(), a); err != nil {
			return Value{}, err
		}
		return st.captured(mark)
	case Function:
		f := fn.function()
		if f.fn != nil {
			return f.fn(st, a)
		}
		return callMethod(st, f.self, f.name, a)
	case Loop:
		return fn.loop().call(st, a)
	case Undefined, Missing:
		return Value{}, fn.fail()
	}
	return Value{}, typeErr("'%s' object is not callable", typeName(fn))
}

// emitCall writes the result of a call; a macro writes it itself.
func (st *state) emitCall(x *callExpr) error {
	n, ok := x.fn.(*nameExpr)
	if !ok {
		v, err := x.eval(st)
		if err != nil {
			return err
		}
		return st.writeValue(v)
	}
	fn, err := n.eval(st)
	if err != nil {
		return err
	}
	if fn.kind != Macro {
		v, err := x.apply(st, fn, nil)
		if err != nil {
			return err
		}
		return st.writeValue(v)
	}
	return at(x.runMacro(st, fn.macro()), x.line)
}

// runMacro calls a macro, which writes to the output.
func (x *callExpr) runMacro(st *state, m *macro) error {
	if !m.info.takes(&x.args) {
		a, marks, err := x.args.eval(st)
		if err == nil {
			err = st.callMacro(m, a)
		}
		st.drop(marks)
		return err
	}
	if m.info.pure {
		return x.runPure(st, m)
	}
	if st.calls++; st.calls > maxCalls {
		return errDeep
	}
	if err := st.buildFrame(m.info.fn); err != nil {
		return err
	}
	outer := st.frame
	f, mark := st.push(m.info.fn, m.frame)
	err := m.info.run(st, f, outer, x.args.pos)
	st.pop(f, mark, m.info.fn)
	st.frame = outer
	st.calls--
	return err
}

// takes reports whether the arguments can go straight to the slots of the
// parameters.
func (m *macroInfo) takes(c *callArgs) bool {
	return m.plain && len(c.pos) <= len(m.params) && len(c.kw) == 0 && c.dyn == nil && c.dynKW == nil
}

// run evaluates the arguments in the caller's frame and the body in f.
func (m *macroInfo) run(st *state, f, outer *frame, pos []expr) error {
	st.frame = outer
	for i, x := range pos {
		v, err := x.eval(st)
		if err != nil {
			return err
		}
		f.slots[m.paramRefs[i]] = v
	}
	st.frame = f
	return m.start(st, len(pos))
}

// start runs the body in the current frame, which has the given arguments.
func (m *macroInfo) start(st *state, given int) error {
	st.enter(m.fn.in)
	if given < len(m.params) {
		if err := m.fillDefaults(st); err != nil {
			return err
		}
	}
	return st.exec(m.body)
}

// callMacro runs a macro, which writes to the output.
func (st *state) callMacro(m *macro, a args) error {
	if st.calls++; st.calls > maxCalls {
		return errDeep
	}
	if err := st.buildFrame(m.info.fn); err != nil {
		return err
	}
	outer := st.frame
	f, mark := st.push(m.info.fn, m.frame)
	st.enter(m.info.fn.in)
	err := m.info.bind(st, a)
	if err == nil {
		err = st.exec(m.info.body)
	}
	st.pop(f, mark, m.info.fn)
	st.frame = outer
	st.calls--
	return err
}

// bind stores the arguments of a macro call in the current frame.
func (m *macroInfo) bind(st *state, a args) error {
	slots := st.frame.slots
	n := min(len(a.pos), len(m.params))
	for i := range n {
		slots[m.paramRefs[i]] = a.pos[i]
	}
	var left []kwVal
	hasCaller := false
	for _, k := range a.kw {
		i := n
		for i < len(m.params) && m.params[i] != k.name {
			i++
		}
		switch {
		case i < len(m.params):
			slots[m.paramRefs[i]] = k.v
		case k.name == "caller" && m.caller >= 0:
			slots[m.caller], hasCaller = k.v, true
		default:
			left = append(left, k)
		}
	}
	if m.caller >= 0 && !hasCaller {
		slots[m.caller] = undefined(noCaller, Missing)
	}
	if err := m.bindRest(st, a, left); err != nil {
		return err
	}
	return m.fillDefaults(st)
}

// fillDefaults sets the parameters that were not given.
func (m *macroInfo) fillDefaults(st *state) error {
	slots := st.frame.slots
	for i := range m.params {
		s := &slots[m.paramRefs[i]]
		if s.kind != Missing {
			continue
		}
		d := i - (len(m.params) - len(m.defaults))
		if d < 0 {
			*s = undefined(m.u[i], Missing)
			continue
		}
		v, err := m.defaults[d].eval(st)
		if err != nil {
			return err
		}
		*s = v
	}
	return nil
}

var noCaller = &undef{hint: "No caller defined"}

func (m *macroInfo) bindRest(st *state, a args, left []kwVal) error {
	slots := st.frame.slots
	switch {
	case m.kwargs >= 0:
		d := st.mem.slab.NewMap(len(left))
		for _, k := range left {
			d.Set(k.name, k.v)
		}
		slots[m.kwargs] = FromDict(d)
		if err := st.build(objectSize + 2*valueSize*d.Len()); err != nil {
			return err
		}
	case len(left) > 0:
		return typeErr("macro %s takes no keyword argument %s", reprString(m.name), reprString(left[0].name))
	}
	switch {
	case m.varargs >= 0:
		var rest []Value
		if len(a.pos) > len(m.params) {
			if err := st.build(valueSize * len(a.pos)); err != nil {
				return err
			}
			rest = st.mem.values(len(a.pos) - len(m.params))
			copy(rest, a.pos[len(m.params):])
		}
		slots[m.varargs] = st.mem.list(Tuple, rest)
	case len(a.pos) > len(m.params):
		return typeErr("macro %s takes not more than %d argument(s)", reprString(m.name), len(m.params))
	}
	return nil
}
