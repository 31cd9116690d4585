package jinja

// kindCheck is a condition that looks at nothing but the kind of a variable,
// such as "x is string or x is none".
type kindCheck struct {
	name *nameExpr // nil if a condition is not of this form
	on   kindSet   // kinds for which it holds
}

func (k *kindCheck) test(st *state) bool { return k.on.has(st.slot(k.name.ref).kind) }

// link finds, in resolved expressions, the forms that have a short way of
// being evaluated.
func link(xs ...expr) {
	var nodes []expr
	for _, x := range xs {
		walkExpr(x, func(x expr) bool {
			nodes = append(nodes, x)
			return true
		})
	}
	for i := len(nodes) - 1; i >= 0; i-- { // operands before operators
		switch x := nodes[i].(type) {
		case *testExpr:
			if n, ok := x.x.(*nameExpr); ok && x.on != 0 {
				x.check = kindCheck{n, x.on}
			}
		case *notExpr:
			if k := checkOf(x.x); k.name != nil {
				x.check = kindCheck{k.name, ^k.on}
			}
		case *logicExpr:
			x.link()
		case *compareExpr:
			x.link()
		case *attrExpr:
			x.base, _ = x.x.(*nameExpr)
		case *itemExpr:
			x.base, _ = x.x.(*nameExpr)
		case *callExpr:
			f, ok := x.fn.(*attrExpr)
			n := len(x.args.pos)
			x.get = ok && f.name == "get" && (n == 1 || n == 2) && len(x.args.kw) == 0 && x.args.dyn == nil && x.args.dynKW == nil
		}
	}
}

func checkOf(x expr) kindCheck {
	switch x := x.(type) {
	case *testExpr:
		return x.check
	case *notExpr:
		return x.check
	case *logicExpr:
		return x.check
	}
	return kindCheck{}
}

func (x *logicExpr) link() {
	l, r := checkOf(x.l), checkOf(x.r)
	switch {
	case l.name == nil || r.name == nil || l.name.ref != r.name.ref:
	case x.or:
		x.check = kindCheck{l.name, l.on | r.on}
	default:
		x.check = kindCheck{l.name, l.on & r.on}
	}
}

func (x *compareExpr) link() {
	if len(x.ops) != 1 || x.ops[0].op != opEq && x.ops[0].op != opNe {
		return
	}
	if c, ok := x.ops[0].x.(*constExpr); ok && c.v.kind == String && c.v.num < 64 {
		x.str = c.v
	}
}

// dictGet is d.get(key) and d.get(key, default).
func (x *callExpr) dictGet(st *state, d Value) (Value, error) {
	key, err := x.args.pos[0].eval(st)
	if err != nil {
		return key, err
	}
	def := noneValue
	if len(x.args.pos) == 2 {
		if def, err = x.args.pos[1].eval(st); err != nil {
			return def, err
		}
	}
	if key.kind != String {
		a := [2]Value{key, def}
		return dictMethod(st, d, "get", args{pos: a[:len(x.args.pos)]})
	}
	if v, ok := d.Map().Get(key.Str()); ok {
		return v, nil
	}
	return def, nil
}
