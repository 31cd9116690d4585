package jinja

// children returns the expressions of the arguments.
func (c *callArgs) children() []expr {
	out := append([]expr(nil), c.pos...)
	for _, k := range c.kw {
		out = append(out, k.x)
	}
	return append(out, c.dyn, c.dynKW)
}

// children returns the direct sub-expressions of x in evaluation order; some
// may be nil.
func children(x expr) []expr {
	switch x := x.(type) {
	case *listExpr:
		return x.items
	case *dictExpr:
		out := make([]expr, 0, 2*len(x.pairs))
		for _, p := range x.pairs {
			out = append(out, p[0], p[1])
		}
		return out
	case *attrExpr:
		return []expr{x.x}
	case *itemExpr:
		return []expr{x.x, x.arg}
	case *sliceExpr:
		return []expr{x.x, x.lo, x.hi, x.step}
	case *callExpr:
		return append([]expr{x.fn}, x.args.children()...)
	case *filterExpr:
		return append([]expr{x.x}, x.args.children()...)
	case *testExpr:
		return append([]expr{x.x}, x.args.children()...)
	case *condExpr:
		return []expr{x.cond, x.yes, x.no}
	case *notExpr:
		return []expr{x.x}
	case *logicExpr:
		return []expr{x.l, x.r}
	case *unaryExpr:
		return []expr{x.x}
	case *binExpr:
		return []expr{x.l, x.r}
	case *concatExpr:
		return x.parts
	case *compareExpr:
		out := []expr{x.x}
		for _, o := range x.ops {
			out = append(out, o.x)
		}
		return out
	}
	return nil
}

// walkExpr calls visit for x and everything inside it, until visit returns
// false.
func walkExpr(x expr, visit func(expr) bool) bool {
	if x == nil {
		return true
	}
	if f, ok := x.(*filterExpr); ok && f == nil {
		return true
	}
	if !visit(x) {
		return false
	}
	for _, c := range children(x) {
		if !walkExpr(c, visit) {
			return false
		}
	}
	return true
}

// walkStmts calls visit for every expression in body, however deep.
func walkStmts(body []stmt, visit func(expr) bool) bool {
	for _, s := range body {
		xs, bodies := parts(s)
		for _, x := range xs {
			if !walkExpr(x, visit) {
				return false
			}
		}
		for _, b := range bodies {
			if !walkStmts(b, visit) {
				return false
			}
		}
	}
	return true
}

// parts returns the expressions and the nested bodies of a statement.
func parts(s stmt) (xs []expr, bodies [][]stmt) {
	switch s := s.(type) {
	case *outputStmt:
		return []expr{s.x}, nil
	case *ifStmt:
		bodies = [][]stmt{s.body}
		for _, e := range s.elif {
			bodies = append(bodies, []stmt{e})
		}
		return []expr{s.cond}, append(bodies, s.alt)
	case *forStmt:
		return []expr{s.iter, s.test}, [][]stmt{s.body, s.alt}
	case *setStmt:
		return append(targetExprs(&s.target), s.x), nil
	case *setBlockStmt:
		return append(targetExprs(&s.target), s.filter), [][]stmt{s.body}
	case *macroStmt:
		return s.m.defaults, [][]stmt{s.m.body}
	case *callStmt:
		return append([]expr{s.call}, s.m.defaults...), [][]stmt{s.m.body}
	case *filterStmt:
		return []expr{s.filter}, [][]stmt{s.body}
	case *withStmt:
		return s.values, [][]stmt{s.body}
	case *scopeStmt:
		return nil, [][]stmt{s.body}
	}
	return nil, nil
}

// targetExprs returns the namespaces that a target stores to, as loads.
func targetExprs(t *target) []expr {
	if t.attr != "" {
		return []expr{&nameExpr{name: t.name}}
	}
	var out []expr
	for i := range t.tuple {
		out = append(out, targetExprs(&t.tuple[i])...)
	}
	return out
}
