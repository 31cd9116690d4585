package jinja

// resolver turns names into slots. It runs once, after parsing.
type resolver struct {
	ctx      map[string]int
	ctxNames []string
	macros   int
}

// context returns the position of a name that is looked up in the render
// context.
func (r *resolver) context(name string) int {
	i, ok := r.ctx[name]
	if !ok {
		i = len(r.ctxNames)
		r.ctx[name] = i
		r.ctxNames = append(r.ctxNames, name)
	}
	return i
}

func resolve(body []stmt) (*fnInfo, []string) {
	r := &resolver{ctx: map[string]int{}}
	fn := &fnScope{info: &fnInfo{}}
	s := newSymbols(nil, fn)
	s.analyze(body)
	r.stmts(s, body)
	fn.info.in = s.init(r)
	markPure(body, r.ctxNames)
	return fn.info, r.ctxNames
}

func (r *resolver) stmts(s *symbols, body []stmt) {
	for _, x := range body {
		r.stmt(s, x)
	}
}

func (r *resolver) name(s *symbols, name string) ref {
	o := s.find(name)
	if o == nil { // every name was recorded by analyze
		s.load(name)
		o = s.find(name)
	}
	return s.refTo(o)
}

func (r *resolver) exprs(s *symbols, xs ...expr) {
	for _, x := range xs {
		walkExpr(x, func(x expr) bool {
			if n, ok := x.(*nameExpr); ok {
				n.ref = r.name(s, n.name)
			}
			return true
		})
	}
	link(xs...)
}

func (r *resolver) target(s *symbols, t *target) {
	if t.multi {
		for i := range t.tuple {
			r.target(s, &t.tuple[i])
		}
		return
	}
	t.ref = r.name(s, t.name)
}

func (r *resolver) stmt(s *symbols, x stmt) {
	switch x := x.(type) {
	case *outputStmt:
		r.exprs(s, x.x)
	case *ifStmt:
		r.ifStmt(s, x)
	case *forStmt:
		r.forStmt(s, x)
	case *setStmt:
		r.exprs(s, x.x)
		r.target(s, &x.target)
	case *setBlockStmt:
		if x.filter != nil {
			r.exprs(s, x.filter)
		}
		r.target(s, &x.target)
		x.in = r.inner(s, x.body)
	case *macroStmt:
		x.ref = r.name(s, x.name)
		r.macro(s, x.m)
	case *callStmt:
		r.exprs(s, x.call)
		r.macro(s, x.m)
	case *filterStmt:
		r.exprs(s, x.filter)
		x.in = r.inner(s, x.body)
	case *withStmt:
		r.exprs(s, x.values...)
		in := newSymbols(s, s.fn)
		for i := range x.targets {
			in.target(&x.targets[i], true)
		}
		in.analyze(x.body)
		for i := range x.targets {
			r.target(in, &x.targets[i])
		}
		r.stmts(in, x.body)
		x.in = in.init(r)
	case *scopeStmt:
		x.in = r.inner(s, x.body)
	}
}

// inner resolves a body that is a scope of its own in the same function.
func (r *resolver) inner(s *symbols, body []stmt) scopeInit {
	in := newSymbols(s, s.fn)
	in.analyze(body)
	r.stmts(in, body)
	return in.init(r)
}

func (r *resolver) ifStmt(s *symbols, x *ifStmt) {
	r.exprs(s, x.cond)
	x.check = checkOf(x.cond)
	r.stmts(s, x.body)
	for _, e := range x.elif {
		r.ifStmt(s, e)
	}
	r.stmts(s, x.alt)
}

func (r *resolver) forStmt(s *symbols, x *forStmt) {
	r.exprs(s, x.iter)
	fn := s.fn
	if x.recursive {
		fn = &fnScope{info: &fnInfo{}, depth: s.fn.depth + 1}
		x.fn, s.fn.info.escapes = fn.info, true
	}
	if x.test != nil {
		in := newSymbols(s, fn)
		in.target(&x.testOn, true)
		in.exprs(x.test)
		r.target(in, &x.testOn)
		r.exprs(in, x.test)
		x.testIn = in.init(r)
	}
	in := newSymbols(s, fn)
	x.usesLoop = x.recursive || mentions(x.body, "loop")
	if x.usesLoop {
		x.loopRef = in.refTo(&outer{fn, in.param("loop")})
	}
	in.target(&x.target, true)
	in.analyze(x.body)
	r.target(in, &x.target)
	r.stmts(in, x.body)
	x.in = in.init(r)
	alt := newSymbols(s, fn)
	alt.analyze(x.alt)
	r.stmts(alt, x.alt)
	x.altIn = alt.init(r)
}

func (r *resolver) macro(s *symbols, m *macroInfo) {
	fn := &fnScope{info: &fnInfo{}, depth: s.fn.depth + 1}
	s.fn.info.escapes = true
	m.fn = fn.info
	r.macros++
	m.id = r.macros
	in := newSymbols(s, fn)
	for _, p := range m.params {
		m.paramRefs = append(m.paramRefs, in.param(p))
		m.u = append(m.u, &undef{hint: "parameter " + reprString(p) + " was not provided"})
	}
	special := func(name string) int {
		if _, ok := in.refs[name]; ok || !mentions(m.body, name) {
			return -1
		}
		return in.param(name)
	}
	m.caller, m.kwargs, m.varargs = special("caller"), special("kwargs"), special("varargs")
	m.plain = m.caller < 0 && m.kwargs < 0 && m.varargs < 0
	in.exprs(m.defaults...)
	in.analyze(m.body)
	r.exprs(in, m.defaults...)
	r.stmts(in, m.body)
	m.fn.in = in.init(r)
}

// mentions reports whether statements load a name anywhere inside.
func mentions(body []stmt, name string) bool {
	found := false
	walkStmts(body, func(x expr) bool {
		if n, ok := x.(*nameExpr); ok && n.name == name {
			found = true
		}
		return !found
	})
	return found
}
