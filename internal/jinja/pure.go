package jinja

// purity finds the macros whose text depends on nothing but their arguments
// and on what stays the same for a whole render. Calls of such a macro with
// equal arguments write the same text. With fixed set it finds those that do
// not depend on the render either.
type purity struct {
	fixed  bool
	names  []string           // that are looked up in the render's context
	stores map[int]int        // assignments to the slots of the template's frame
	macros map[int]*macroInfo // by slot of the template's frame
	called map[*nameExpr]bool // names that are only called, and name one of macros
}

// markPure sets pure on the macros of a resolved template. A macro is pure if
// the variables it reads are its own or never assigned, and the macros it calls
// are pure; it may make and change namespaces, because none gets in or out.
func markPure(body []stmt, ctxNames []string) {
	stores := map[int]int{}
	countStores(body, stores)
	for _, fixed := range []bool{false, true} {
		p := purity{fixed: fixed, names: ctxNames, stores: stores, macros: map[int]*macroInfo{}, called: map[*nameExpr]bool{}}
		p.find(body)
		for _, m := range p.macros {
			m.pure = true
			m.fixed = fixed
		}
	}
}

// find starts with all macros that are defined once, and drops those that are
// not pure until none is left to drop.
func (p *purity) find(body []stmt) {
	for _, s := range body {
		m, ok := s.(*macroStmt)
		if ok && m.m.plain && len(m.m.params) <= memoArgs && p.stores[m.ref.slot] == 1 {
			p.macros[m.ref.slot] = m.m
		}
	}
	for changed := true; changed; {
		changed = false
		for slot, m := range p.macros {
			if !p.macro(m) {
				delete(p.macros, slot)
				changed = true
			}
		}
	}
}

// countStores counts the assignments to the slots of one function.
func countStores(body []stmt, stores map[int]int) {
	for _, s := range body {
		switch s := s.(type) {
		case *macroStmt:
			stores[s.ref.slot]++
			continue
		case *callStmt:
			continue
		case *forStmt:
			if s.recursive {
				continue
			}
			countTarget(&s.target, stores)
			if s.test != nil {
				countTarget(&s.testOn, stores)
			}
			if s.usesLoop {
				stores[s.loopRef.slot]++
			}
		case *setStmt:
			countTarget(&s.target, stores)
		case *setBlockStmt:
			countTarget(&s.target, stores)
		case *withStmt:
			for i := range s.targets {
				countTarget(&s.targets[i], stores)
			}
		}
		_, bodies := parts(s)
		for _, b := range bodies {
			countStores(b, stores)
		}
	}
}

func countTarget(t *target, stores map[int]int) {
	if !t.multi && t.attr == "" {
		stores[t.ref.slot]++
	}
	for i := range t.tuple {
		countTarget(&t.tuple[i], stores)
	}
}

func (p *purity) macro(m *macroInfo) bool {
	for _, d := range m.defaults {
		if !p.expr(d) {
			return false
		}
	}
	return p.own(m.fn.in) && p.body(m.body)
}

func (p *purity) body(body []stmt) bool {
	for _, s := range body {
		if !p.stmt(s) {
			return false
		}
	}
	return true
}

func (p *purity) stmt(s stmt) bool {
	ok := true
	switch s := s.(type) {
	case *macroStmt, *callStmt:
		return false
	case *forStmt:
		ok = !s.recursive && p.own(s.in) && p.own(s.testIn) && p.own(s.altIn)
	case *setStmt:
		ok = ownTarget(&s.target)
	case *setBlockStmt:
		ok = ownTarget(&s.target) && p.own(s.in)
	case *filterStmt:
		ok = p.own(s.in)
	case *withStmt:
		ok = p.own(s.in)
	case *scopeStmt:
		ok = p.own(s.in)
	}
	xs, bodies := parts(s)
	for _, x := range xs {
		ok = ok && p.expr(x)
	}
	for _, b := range bodies {
		ok = ok && p.body(b)
	}
	return ok
}

// expr reports whether x reads no variable that the template assigns, other
// than to call a macro that is still taken for pure.
func (p *purity) expr(x expr) bool {
	clear(p.called)
	return walkExpr(x, func(x expr) bool {
		switch x := x.(type) {
		case *callExpr:
			if n, ok := x.fn.(*nameExpr); ok && (n.name == raiseName || n.ref.up == 1 && p.macros[n.ref.slot] != nil) {
				p.called[n] = true
			}
		case *nameExpr:
			if p.called[x] {
				return x.name != raiseName || x.ref.up == 0 || p.stores[x.ref.slot] == 0
			}
			if p.fixed && x.name == raiseName {
				return false
			}
			return x.ref.up == 0 || x.ref.up == 1 && p.stores[x.ref.slot] == 0 && !p.fixed
		}
		return true
	})
}

// raiseName is the function that a macro may call whatever it is: a call ends
// the render.
const raiseName = "raise_exception"

// own reports whether a scope starts without values of another function, and
// if fixed is set, of the render.
func (p *purity) own(in scopeInit) bool {
	for i := range in {
		switch in[i].mode {
		case initAlias:
			if in[i].from.up > 0 {
				return false
			}
		case initResolve:
			if p.fixed && p.names[in[i].ctx] != raiseName {
				return false
			}
		}
	}
	return true
}

// ownTarget reports whether an assignment goes to the function's own frame.
func ownTarget(t *target) bool {
	for i := range t.tuple {
		if !ownTarget(&t.tuple[i]) {
			return false
		}
	}
	return t.ref.up == 0
}
