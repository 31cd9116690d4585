package jinja

import "strings"

// postfix parses attributes, subscripts and calls after x. The number of
// links is bounded like nesting, because evaluation recurses over them.
func (p *parser) postfix(x expr) (expr, error) {
	for n := 0; ; n++ {
		t := p.cur()
		if n > maxNesting {
			return nil, p.failf(t, "expression has too many postfix operators")
		}
		var err error
		switch {
		case t.isOp("."):
			p.next()
			x, err = p.attribute(x)
		case t.isOp("["):
			p.next()
			x, err = p.subscript(x, t)
		case t.isOp("("):
			x, err = p.call(x)
		default:
			return x, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// filters parses "| filter", "is test" and calls after x.
func (p *parser) filters(x expr) (expr, error) {
	for n := 0; ; n++ {
		t := p.cur()
		if n > maxNesting {
			return nil, p.failf(t, "expression has too many filters")
		}
		var err error
		switch {
		case t.isOp("|"):
			x, err = p.filterChain(x, false)
		case t.isName("is"):
			p.next()
			x, err = p.test(x, t)
		case t.isOp("("):
			x, err = p.call(x)
		default:
			return x, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func (p *parser) attribute(x expr) (expr, error) {
	t := p.next()
	switch t.kind {
	case tokName:
		key := flagged(FromString(t.text))
		return &attrExpr{x: x, name: t.text, line: t.line, key: key, u: &undef{name: key}, dict: isDictAttr(t.text), on: callable(t.text)}, nil
	case tokInt:
		return newItem(x, &constExpr{t.val}, t.line), nil
	}
	return nil, p.failf(t, "expected name or number")
}

func (p *parser) subscript(x expr, t token) (expr, error) {
	var args []expr
	for !p.cur().isOp("]") {
		if len(args) > 0 {
			if _, err := p.expectOp(","); err != nil {
				return nil, err
			}
		}
		a, err := p.subscribed(x, t)
		if err != nil {
			return nil, err
		}
		args = append(args, a)
	}
	p.next()
	if len(args) == 1 {
		if s, ok := args[0].(*sliceExpr); ok {
			return s, nil
		}
		return newItem(x, args[0], t.line), nil
	}
	for _, a := range args {
		if _, ok := a.(*sliceExpr); ok {
			return nil, p.failf(t, "slices inside a tuple subscript are not supported")
		}
	}
	return newItem(x, newListExpr(Tuple, args), t.line), nil
}

func newItem(x, arg expr, line int) expr {
	it := &itemExpr{x: x, arg: arg, line: line}
	if c, ok := arg.(*constExpr); ok && c.v.kind == String {
		s := c.v.Str()
		it.key, it.u, it.dict = c.v, &undef{name: c.v}, isDictAttr(s) || strings.HasPrefix(s, "__")
	}
	return it
}

// subscribed parses an index or a slice of x.
func (p *parser) subscribed(x expr, t token) (expr, error) {
	s := &sliceExpr{x: x, line: t.line}
	var err error
	if !p.cur().isOp(":") {
		if s.lo, err = p.expression(); err != nil {
			return nil, err
		}
		if !p.cur().isOp(":") {
			return s.lo, nil
		}
	}
	p.next()
	end := func() bool { return p.cur().isOp("]") || p.cur().isOp(",") || p.cur().isOp(":") }
	if !end() {
		if s.hi, err = p.expression(); err != nil {
			return nil, err
		}
	}
	if p.skipOp(":") && !end() {
		if s.step, err = p.expression(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (p *parser) call(fn expr) (expr, error) {
	line := p.cur().line
	args, err := p.callArgs()
	return &callExpr{fn: fn, args: args, line: line}, err
}

func (p *parser) callArgs() (callArgs, error) {
	var a callArgs
	open, err := p.expectOp("(")
	if err != nil {
		return a, err
	}
	bad := p.failf(open, "invalid syntax for function call expression")
	for first := true; !p.cur().isOp(")"); first = false {
		if !first {
			if _, err := p.expectOp(","); err != nil {
				return a, err
			}
			if p.cur().isOp(")") {
				break
			}
		}
		switch t := p.cur(); {
		case p.skipOp("*"):
			if a.dyn != nil || a.dynKW != nil {
				return a, bad
			}
			a.dyn, err = p.expression()
		case p.skipOp("**"):
			if a.dynKW != nil {
				return a, bad
			}
			a.dynKW, err = p.expression()
		case t.kind == tokName && p.look().isOp("="):
			if a.dynKW != nil {
				return a, bad
			}
			p.pos += 2
			var x expr
			x, err = p.expression()
			a.kw = append(a.kw, kwArg{t.text, x})
		default:
			if a.dyn != nil || a.dynKW != nil || len(a.kw) > 0 {
				return a, bad
			}
			var x expr
			x, err = p.expression()
			a.pos = append(a.pos, x)
		}
		if err != nil {
			return a, err
		}
	}
	_, err = p.expectOp(")")
	return a, err
}

// dotted parses a name that may have dots.
func (p *parser) dotted() (token, error) {
	t, err := p.expectName()
	for err == nil && p.skipOp(".") {
		var part token
		part, err = p.expectName()
		t.text += "." + part.text
	}
	return t, err
}

// filterChain parses filters; inline means that the first has no "|".
func (p *parser) filterChain(x expr, inline bool) (expr, error) {
	for n := 0; inline || p.cur().isOp("|"); n++ {
		if n > maxNesting {
			return nil, p.failf(p.cur(), "expression has too many filters")
		}
		if !inline {
			p.next()
		}
		inline = false
		t, err := p.dotted()
		if err != nil {
			return nil, err
		}
		f := &filterExpr{x: x, name: t.text, fn: filterByName(t.text), line: t.line}
		if p.cur().isOp("(") {
			if f.args, err = p.callArgs(); err != nil {
				return nil, err
			}
		}
		x = f
	}
	return x, nil
}

// test parses what follows "is".
func (p *parser) test(x expr, is token) (expr, error) {
	negated := p.skipName("not")
	name, err := p.dotted()
	if err != nil {
		return nil, err
	}
	t := &testExpr{x: x, name: name.text, fn: testByName(name.text), line: is.line}
	switch c := p.cur(); {
	case c.isOp("("):
		t.args, err = p.callArgs()
	case c.isName("is"):
		err = p.failf(c, "You cannot chain multiple tests with is")
	case c.kind == tokName && c.text != "else" && c.text != "or" && c.text != "and",
		c.kind == tokString, c.kind == tokInt, c.kind == tokFloat, c.isOp("["), c.isOp("{"):
		var arg expr
		if arg, err = p.primary(); err == nil {
			arg, err = p.postfix(arg)
		}
		t.args.pos = []expr{arg}
	}
	if err != nil {
		return nil, err
	}
	if t.args.none() {
		t.on = kindTest(t.name)
	}
	if negated {
		return &notExpr{x: t}, nil
	}
	return t, nil
}
