package jinja

// purity finds the macros whose text depends on nothing but their arguments
// and on what stays the same for a whole render. Calls of such a macro with
// equal arguments write the same text.
type purity struct {
	stores map[int]int        // assignments to the slots of the template's frame
	macros map[int]*macroInfo // by slot of the template's frame
	called map[*nameExpr]bool // names that are only called, and name one of macros
}

// markPure sets pure on the macros of a resolved template. A macro is pure if
// the variables it reads are its own or never assigned, and the macros it calls
// are pure; it may make and change namespaces, because none gets in or out.
func markPure(body []stmt) {
	stores := map[int]int{}
	countStores(body, stores)
	p := purity{stores: stores, macros: map[int]*macroInfo{}, called: map[*nameExpr]bool{}}
	for _, s := range body {
		m, ok := s.(*macroStmt)
		if ok && m.m.plain && len(m.m.params) <= memoArgs && stores[m.ref.slot] == 1 {
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
	for _, m := range p.macros {
		m.pure = true
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
			countTarget(&s.testOn, stores)
			stores[s.loopRef.slot]++
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
	return own(m.fn.in) && p.body(m.body)
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
		ok = !s.recursive && own(s.in) && own(s.testIn) && own(s.altIn)
	case *setStmt:
		ok = ownTarget(&s.target)
	case *setBlockStmt:
		ok = ownTarget(&s.target) && own(s.in)
	case *filterStmt:
		ok = own(s.in)
	case *withStmt:
		ok = own(s.in)
	case *scopeStmt:
		ok = own(s.in)
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
			if n, ok := x.fn.(*nameExpr); ok && n.ref.up == 1 && p.macros[n.ref.slot] != nil {
				p.called[n] = true
			}
		case *nameExpr:
			return x.ref.up == 0 || x.ref.up == 1 && p.stores[x.ref.slot] == 0 || p.called[x]
		}
		return true
	})
}

// own reports whether a scope starts without values of another function.
func own(in scopeInit) bool {
	for i := range in {
		if in[i].mode == initAlias && in[i].from.up > 0 {
			return false
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
