package jinja

import (
	"maps"
	"slices"
)

// symbols is the symbol table of one scope while names are being resolved.
// The rules are Jinja's: a name belongs to the innermost scope that mentions
// it first; a scope that assigns a name of an outer scope works on a copy.
type symbols struct {
	parent *symbols
	fn     *fnScope
	slots  map[string]int // shared by the branch copies of a scope
	refs   map[string]symbol
	stores map[string]bool
}

type symbol struct {
	slot  int
	param bool
	mode  initMode
	from  *outer // alias
}

// outer is a variable seen from another scope.
type outer struct {
	fn   *fnScope
	slot int
}

// fnScope is a function being laid out.
type fnScope struct {
	info  *fnInfo
	depth int
}

func newSymbols(parent *symbols, fn *fnScope) *symbols {
	return &symbols{parent: parent, fn: fn, slots: map[string]int{}, refs: map[string]symbol{}, stores: map[string]bool{}}
}

func (s *symbols) branch() *symbols {
	c := *s
	c.refs, c.stores = maps.Clone(s.refs), maps.Clone(s.stores)
	return &c
}

func (s *symbols) find(name string) *outer {
	for ; s != nil; s = s.parent {
		if sym, ok := s.refs[name]; ok {
			return &outer{s.fn, sym.slot}
		}
	}
	return nil
}

func (s *symbols) define(name string, sym symbol) int {
	slot, ok := s.slots[name]
	if !ok {
		slot = s.fn.info.slots
		s.fn.info.slots++
		s.slots[name] = slot
	}
	sym.slot = slot
	s.refs[name] = sym
	return slot
}

func (s *symbols) param(name string) int {
	s.stores[name] = true
	return s.define(name, symbol{param: true})
}

func (s *symbols) load(name string) {
	if s.find(name) == nil {
		s.define(name, symbol{mode: initResolve})
	}
}

func (s *symbols) store(name string) {
	s.stores[name] = true
	if _, ok := s.refs[name]; ok {
		return
	}
	if o := s.parent.find(name); o != nil {
		s.define(name, symbol{mode: initAlias, from: o})
		return
	}
	s.define(name, symbol{mode: initMissing})
}

// merge takes over what the branches of an if found. A name that only
// branches assign starts as what it was outside.
func (s *symbols) merge(branches ...*symbols) {
	stores := map[string]bool{}
	for _, b := range branches {
		for name := range b.stores {
			if !s.stores[name] {
				stores[name] = true
			}
		}
	}
	for _, b := range branches {
		maps.Copy(s.refs, b.refs)
		maps.Copy(s.stores, b.stores)
	}
	for _, name := range slices.Sorted(maps.Keys(stores)) {
		sym := s.refs[name]
		if o := s.parent.find(name); o != nil {
			sym.mode, sym.from = initAlias, o
		} else {
			sym.mode, sym.from = initResolve, nil
		}
		sym.param = false
		s.refs[name] = sym
	}
}

// init returns how the variables of the scope start.
func (s *symbols) init(r *resolver) scopeInit {
	var in scopeInit
	for _, name := range slices.Sorted(maps.Keys(s.refs)) {
		sym := s.refs[name]
		if sym.param {
			continue
		}
		si := slotInit{slot: sym.slot, mode: sym.mode}
		switch sym.mode {
		case initAlias:
			si.from = s.refTo(sym.from)
		case initResolve:
			si.ctx = r.context(name)
		}
		in = append(in, si)
	}
	return in
}

func (s *symbols) refTo(o *outer) ref {
	return ref{up: s.fn.depth - o.fn.depth, slot: o.slot}
}

// analyze records the names of statements that belong to the scope itself.
func (s *symbols) analyze(body []stmt) {
	for _, x := range body {
		s.stmt(x)
	}
}

func (s *symbols) exprs(xs ...expr) {
	for _, x := range xs {
		walkExpr(x, func(x expr) bool {
			if n, ok := x.(*nameExpr); ok {
				s.load(n.name)
			}
			return true
		})
	}
}

func (s *symbols) target(t *target, param bool) {
	switch {
	case t.multi:
		for i := range t.tuple {
			s.target(&t.tuple[i], param)
		}
	case t.attr != "":
		s.load(t.name)
	case param:
		s.param(t.name)
	default:
		s.store(t.name)
	}
}

func (s *symbols) stmt(x stmt) {
	switch x := x.(type) {
	case *outputStmt:
		s.exprs(x.x)
	case *ifStmt:
		s.ifStmt(x)
	case *forStmt:
		s.exprs(x.iter)
	case *setStmt:
		s.exprs(x.x)
		s.target(&x.target, false)
	case *setBlockStmt:
		if x.filter != nil {
			s.exprs(x.filter)
		}
		s.target(&x.target, false)
	case *macroStmt:
		s.store(x.name)
	case *callStmt:
		s.exprs(x.call)
	case *filterStmt:
		s.exprs(x.filter)
	case *withStmt:
		s.exprs(x.values...)
	}
}

func (s *symbols) ifStmt(x *ifStmt) {
	s.exprs(x.cond)
	body, elif, alt := s.branch(), s.branch(), s.branch()
	body.analyze(x.body)
	for _, e := range x.elif {
		elif.ifStmt(e)
	}
	alt.analyze(x.alt)
	s.merge(body, elif, alt)
}
