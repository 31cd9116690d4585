package jinja

import (
	"slices"
	"strings"
)

// tupleEnd reports whether the current token ends a tuple without brackets.
func (p *parser) tupleEnd(ends []string) bool {
	switch t := p.cur(); t.kind {
	case tokVarEnd, tokBlockEnd, tokEOF:
		return true
	case tokOp:
		return t.text == ")"
	case tokName:
		return slices.Contains(ends, t.text)
	}
	return false
}

// tupleOrExpr parses an expression, or several with commas as a tuple. cond
// allows conditional expressions.
func (p *parser) tupleOrExpr(cond bool, ends ...string) (expr, error) {
	return p.tuple(cond, false, ends)
}

func (p *parser) tuple(cond, brackets bool, ends []string) (expr, error) {
	var items []expr
	isTuple := false
	for {
		if len(items) > 0 {
			if _, err := p.expectOp(","); err != nil {
				return nil, err
			}
		}
		if p.tupleEnd(ends) {
			break
		}
		x, err := p.exprCond(cond)
		if err != nil {
			return nil, err
		}
		items = append(items, x)
		if !p.cur().isOp(",") {
			break
		}
		isTuple = true
	}
	if !isTuple {
		if len(items) == 1 {
			return items[0], nil
		}
		if !brackets {
			return nil, p.failf(p.cur(), "Expected an expression, got %s", p.cur())
		}
	}
	return newListExpr(Tuple, items), nil
}

func (p *parser) expression() (expr, error) { return p.exprCond(true) }

func (p *parser) exprCond(cond bool) (expr, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	if !cond {
		return p.or()
	}
	x, err := p.or()
	for err == nil && p.cur().isName("if") {
		line := p.next().line
		c := &condExpr{yes: x, line: line}
		if c.cond, err = p.or(); err != nil {
			return nil, err
		}
		if p.skipName("else") {
			if c.no, err = p.expression(); err != nil {
				return nil, err
			}
		}
		x = c
	}
	return x, err
}

// chain parses operand (op operand)*, with a bound on the number of operands
// so that evaluation cannot nest without limit.
func (p *parser) chain(operand func() (expr, error), match func() (func(l, r expr) expr, bool)) (expr, error) {
	x, err := operand()
	for n := 0; err == nil; n++ {
		join, ok := match()
		if !ok {
			return x, nil
		}
		if n >= 50*maxNesting {
			return nil, p.failf(p.cur(), "expression has too many operands")
		}
		var r expr
		if r, err = operand(); err == nil {
			x = join(x, r)
		}
	}
	return nil, err
}

func (p *parser) or() (expr, error) {
	return p.chain(p.and, func() (func(l, r expr) expr, bool) {
		return func(l, r expr) expr { return &logicExpr{or: true, l: l, r: r} }, p.skipName("or")
	})
}

func (p *parser) and() (expr, error) {
	return p.chain(p.not, func() (func(l, r expr) expr, bool) {
		return func(l, r expr) expr { return &logicExpr{l: l, r: r} }, p.skipName("and")
	})
}

func (p *parser) not() (expr, error) {
	if !p.skipName("not") {
		return p.compare()
	}
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	x, err := p.not()
	return &notExpr{x: x}, err
}

func (p *parser) compareOp() operator {
	t := p.cur()
	switch {
	case t.kind == tokOp:
		op := comparison(t.text)
		if op != opNone {
			p.pos++
		}
		return op
	case t.isName("in"):
		p.pos++
		return opIn
	case t.isName("not") && p.look().isName("in"):
		p.pos += 2
		return opNotIn
	}
	return opNone
}

func (p *parser) compare() (expr, error) {
	line := p.cur().line
	x, err := p.sum()
	if err != nil {
		return nil, err
	}
	c := &compareExpr{x: x, line: line}
	for {
		op := p.compareOp()
		if op == opNone {
			break
		}
		r, err := p.sum()
		if err != nil {
			return nil, err
		}
		c.ops = append(c.ops, compareOp{op, r})
	}
	if len(c.ops) == 0 {
		return x, nil
	}
	return c, nil
}

// binary matches one of ops as a left-associative operator.
func (p *parser) binary(operand func() (expr, error), ops ...string) (expr, error) {
	return p.chain(operand, func() (func(l, r expr) expr, bool) {
		t := p.cur()
		if t.kind != tokOp || !slices.Contains(ops, t.text) {
			return nil, false
		}
		p.pos++
		return func(l, r expr) expr { return &binExpr{op: arithmetic(t.text), l: l, r: r, line: t.line} }, true
	})
}

func (p *parser) sum() (expr, error) { return p.binary(p.concat, "+", "-") }

func (p *parser) concat() (expr, error) {
	line := p.cur().line
	x, err := p.product()
	if err != nil || !p.cur().isOp("~") {
		return x, err
	}
	c := &concatExpr{parts: []expr{x}, line: line}
	for p.skipOp("~") {
		if x, err = p.product(); err != nil {
			return nil, err
		}
		c.parts = append(c.parts, x)
	}
	return c, nil
}

func (p *parser) product() (expr, error) { return p.binary(p.power, "*", "/", "//", "%") }

func (p *parser) power() (expr, error) {
	return p.binary(func() (expr, error) { return p.unary(true) }, "**")
}

func (p *parser) unary(filters bool) (expr, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	var x expr
	var err error
	if t := p.cur(); t.isOp("-") || t.isOp("+") {
		p.next()
		x, err = p.unary(false)
		x = &unaryExpr{op: t.text[0], x: x, line: t.line}
	} else {
		x, err = p.primary()
	}
	if err != nil {
		return nil, err
	}
	if x, err = p.postfix(x); err != nil || !filters {
		return x, err
	}
	return p.filters(x)
}

func (p *parser) primary() (expr, error) {
	t := p.cur()
	switch t.kind {
	case tokName:
		p.next()
		return nameOrConst(t), nil
	case tokString:
		var s strings.Builder
		for p.cur().kind == tokString {
			s.WriteString(p.next().text)
		}
		return &constExpr{flagged(FromString(s.String()))}, nil
	case tokInt, tokFloat:
		p.next()
		return &constExpr{t.val}, nil
	case tokOp:
		switch t.text {
		case "(":
			p.next()
			x, err := p.tuple(true, true, nil)
			if err != nil {
				return nil, err
			}
			_, err = p.expectOp(")")
			return x, err
		case "[":
			p.next()
			items, err := p.exprList("]")
			return newListExpr(List, items), err
		case "{":
			p.next()
			return p.dict(t)
		}
	}
	return nil, p.failf(t, "unexpected %s", t)
}

func newListExpr(kind Kind, items []expr) *listExpr {
	x := &listExpr{kind: kind, items: items}
	vals := make([]Value, len(items))
	for i, e := range items {
		switch e := e.(type) {
		case *constExpr:
			vals[i] = e.v
		case *listExpr:
			vals[i] = e.lit
		}
		if vals[i].kind == Missing {
			return x
		}
	}
	x.lit = FromList(vals)
	x.lit.kind, x.lit.flag = kind, literal
	return x
}

// flagged looks at a string once so that later uses need not.
func flagged(v Value) Value {
	if isASCII(v.Str()) {
		v.flag |= strASCII
	} else {
		v.flag |= strWide
	}
	return v
}

func nameOrConst(t token) expr {
	switch t.text {
	case "true", "True":
		return &constExpr{trueValue}
	case "false", "False":
		return &constExpr{falseValue}
	case "none", "None":
		return &constExpr{noneValue}
	}
	return &nameExpr{name: t.text, line: t.line, u: &undef{vari: t.text}}
}

// exprList parses "a, b, ..." up to the closing bracket; a comma may trail.
func (p *parser) exprList(end string) ([]expr, error) {
	var items []expr
	for !p.cur().isOp(end) {
		if len(items) > 0 {
			if _, err := p.expectOp(","); err != nil {
				return nil, err
			}
			if p.cur().isOp(end) {
				break
			}
		}
		x, err := p.expression()
		if err != nil {
			return nil, err
		}
		items = append(items, x)
	}
	_, err := p.expectOp(end)
	return items, err
}

func (p *parser) dict(t token) (expr, error) {
	d := &dictExpr{line: t.line}
	for !p.cur().isOp("}") {
		if len(d.pairs) > 0 {
			if _, err := p.expectOp(","); err != nil {
				return nil, err
			}
			if p.cur().isOp("}") {
				break
			}
		}
		k, err := p.expression()
		if err != nil {
			return nil, err
		}
		if _, err := p.expectOp(":"); err != nil {
			return nil, err
		}
		v, err := p.expression()
		if err != nil {
			return nil, err
		}
		d.pairs = append(d.pairs, [2]expr{k, v})
	}
	_, err := p.expectOp("}")
	return d, err
}
