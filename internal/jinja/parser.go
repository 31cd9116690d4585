package jinja

import "slices"

// maxNesting bounds the nesting of expressions and statements in source.
const maxNesting = 200

// parser is a recursive-descent parser over the tokens of one template.
type parser struct {
	toks  []token
	pos   int
	depth int
	loops int // loops around the current statement, within its function
}

func (p *parser) cur() token { return p.toks[p.pos] }

func (p *parser) next() token {
	t := p.toks[p.pos]
	if t.kind != tokEOF {
		p.pos++
	}
	return t
}

func (p *parser) look() token {
	return p.toks[min(p.pos+1, len(p.toks)-1)]
}

func (p *parser) skipName(s string) bool {
	if p.cur().isName(s) {
		p.pos++
		return true
	}
	return false
}

func (p *parser) skipOp(s string) bool {
	if p.cur().isOp(s) {
		p.pos++
		return true
	}
	return false
}

func (p *parser) failf(t token, format string, args ...any) error {
	e := errf(KindSyntax, format, args...)
	e.Line = t.line
	return e
}

func (p *parser) expectOp(s string) (token, error) {
	if t := p.cur(); !t.isOp(s) {
		return t, p.failf(t, "expected token %q, got %s", s, t)
	}
	return p.next(), nil
}

func (p *parser) expectName() (token, error) {
	if t := p.cur(); t.kind != tokName {
		return t, p.failf(t, "expected token 'name', got %s", t)
	}
	return p.next(), nil
}

func (p *parser) expectKind(k tokenKind) error {
	if t := p.cur(); t.kind != k {
		return p.failf(t, "expected %s, got %s", token{kind: k}, t)
	}
	p.pos++
	return nil
}

// enter counts one level of nesting; the caller must call leave.
func (p *parser) enter() error {
	if p.depth++; p.depth > maxNesting {
		return p.failf(p.cur(), "template nests deeper than %d levels", maxNesting)
	}
	return nil
}

func (p *parser) leave() { p.depth-- }

// newOutput returns the statement that writes x.
func newOutput(x expr, line int) stmt {
	if c, ok := x.(*constExpr); ok && c.v.kind == String {
		return &dataStmt{text: c.v.Str()}
	}
	return &outputStmt{x: x, line: line}
}

// body parses statements until a tag named by one of ends, whose name token
// is left as the current one. No ends means the end of the template.
func (p *parser) body(ends ...string) ([]stmt, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	var out []stmt
	for {
		switch t := p.next(); t.kind {
		case tokEOF:
			if len(ends) > 0 {
				return nil, p.failf(t, "unexpected end of template: expected %q", ends[len(ends)-1])
			}
			return out, nil
		case tokData:
			out = append(out, &dataStmt{t.text})
		case tokVarBegin:
			x, err := p.tupleOrExpr(true)
			if err != nil {
				return nil, err
			}
			if err := p.expectKind(tokVarEnd); err != nil {
				return nil, err
			}
			out = append(out, newOutput(x, t.line))
		case tokBlockBegin:
			if c := p.cur(); c.kind == tokName && slices.Contains(ends, c.text) {
				return out, nil
			}
			s, err := p.statement()
			if err != nil {
				return nil, err
			}
			if err := p.expectKind(tokBlockEnd); err != nil {
				return nil, err
			}
			out = append(out, s...)
		}
	}
}

// block parses the rest of an opening tag and the statements up to one of
// ends, and returns the name of the tag that ended it.
func (p *parser) block(ends ...string) ([]stmt, string, error) {
	p.skipOp(":")
	if err := p.expectKind(tokBlockEnd); err != nil {
		return nil, "", err
	}
	b, err := p.body(ends...)
	if err != nil {
		return nil, "", err
	}
	return b, p.next().text, nil
}

func (p *parser) statement() ([]stmt, error) {
	t := p.cur()
	if t.kind != tokName {
		return nil, p.failf(t, "tag name expected")
	}
	p.next()
	one := func(s stmt, err error) ([]stmt, error) { return []stmt{s}, err }
	switch t.text {
	case "if":
		return one(p.ifTag(t))
	case "for":
		return one(p.forTag(t))
	case "set":
		return one(p.setTag(t))
	case "macro":
		return one(p.macroTag(t))
	case "call":
		return one(p.callTag(t))
	case "filter":
		return one(p.filterTag(t))
	case "with":
		return one(p.withTag(t))
	case "print":
		return p.printTag(t)
	case "generation":
		b, _, err := p.block("endgeneration")
		return one(&scopeStmt{body: b}, err)
	case "break", "continue":
		if p.loops == 0 {
			return nil, p.failf(t, "'%s' outside loop", t.text)
		}
		if t.text == "break" {
			return one(&jumpStmt{errBreak}, nil)
		}
		return one(&jumpStmt{errContinue}, nil)
	case "include", "import", "from", "extends", "block", "autoescape":
		return nil, p.failf(t, "the %s tag is not supported in a chat template", t.text)
	}
	return nil, p.failf(t, "Encountered unknown tag '%s'.", t.text)
}

func (p *parser) ifTag(t token) (stmt, error) {
	top := &ifStmt{line: t.line}
	for n := top; ; {
		var err error
		var end string
		if n.cond, err = p.tupleOrExpr(false); err != nil {
			return nil, err
		}
		if n.body, end, err = p.block("elif", "else", "endif"); err != nil {
			return nil, err
		}
		switch end {
		case "elif":
			n = &ifStmt{line: p.cur().line}
			top.elif = append(top.elif, n)
			continue
		case "else":
			if top.alt, _, err = p.block("endif"); err != nil {
				return nil, err
			}
		}
		return top, nil
	}
}

func (p *parser) forTag(t token) (stmt, error) {
	f := &forStmt{line: t.line}
	var err error
	if f.target, err = p.assignTarget(false, "in"); err != nil {
		return nil, err
	}
	f.testOn = f.target.clone()
	if !p.skipName("in") {
		return nil, p.failf(p.cur(), "expected token 'in', got %s", p.cur())
	}
	if f.iter, err = p.tupleOrExpr(false, "recursive"); err != nil {
		return nil, err
	}
	if p.skipName("if") {
		if f.test, err = p.expression(); err != nil {
			return nil, err
		}
	}
	f.recursive = p.skipName("recursive")
	if f.target.binds("loop") {
		return nil, p.failf(t, "Can't assign to special loop variable in for-loop target")
	}
	var end string
	p.loops++
	f.body, end, err = p.block("endfor", "else")
	p.loops--
	if err != nil {
		return nil, err
	}
	for _, s := range statements[*setStmt](f.body) {
		if s.target.binds("loop") {
			return nil, p.failf(t, "Can't assign to special loop variable in for-loop target")
		}
	}
	if end == "else" {
		if f.alt, _, err = p.block("endfor"); err != nil {
			return nil, err
		}
	}
	return f, nil
}

func (p *parser) setTag(t token) (stmt, error) {
	to, err := p.assignTarget(true)
	if err != nil {
		return nil, err
	}
	if p.skipOp("=") {
		x, err := p.tupleOrExpr(true)
		return &setStmt{target: to, x: x, line: t.line}, err
	}
	s := &setBlockStmt{target: to, line: t.line}
	if p.cur().isOp("|") {
		x, err := p.filters(nil)
		if err != nil {
			return nil, err
		}
		s.filter = x.(*filterExpr)
	}
	s.body, _, err = p.block("endset")
	return s, err
}

func (p *parser) macroTag(t token) (stmt, error) {
	name, err := p.expectName()
	if err != nil {
		return nil, err
	}
	m := &macroInfo{name: name.text, line: t.line}
	if err := p.signature(m); err != nil {
		return nil, err
	}
	m.body, err = p.function("endmacro")
	return &macroStmt{name: name.text, m: m}, err
}

// function parses the body of a macro or call block.
func (p *parser) function(end string) ([]stmt, error) {
	loops := p.loops
	p.loops = 0
	body, _, err := p.block(end)
	p.loops = loops
	return body, err
}

// signature parses "(a, b=1)".
func (p *parser) signature(m *macroInfo) error {
	if _, err := p.expectOp("("); err != nil {
		return err
	}
	for !p.cur().isOp(")") {
		if len(m.params) > 0 {
			if _, err := p.expectOp(","); err != nil {
				return err
			}
		}
		t, err := p.expectName()
		if err != nil {
			return err
		}
		if slices.Contains(m.params, t.text) || reserved(t.text) {
			return p.failf(t, "can't use '%s' as a parameter", t.text)
		}
		m.params = append(m.params, t.text)
		switch {
		case p.skipOp("="):
			x, err := p.expression()
			if err != nil {
				return err
			}
			m.defaults = append(m.defaults, x)
		case t.text == "caller":
			return p.failf(t, `the special "caller" argument must be omitted or be given a default`)
		case len(m.defaults) > 0:
			return p.failf(t, "non-default argument follows default argument")
		}
	}
	p.next()
	return nil
}

func (p *parser) callTag(t token) (stmt, error) {
	m := &macroInfo{name: "caller", line: t.line}
	if p.cur().isOp("(") {
		if err := p.signature(m); err != nil {
			return nil, err
		}
	}
	x, err := p.expression()
	if err != nil {
		return nil, err
	}
	c, ok := x.(*callExpr)
	if !ok {
		return nil, p.failf(t, "expected call")
	}
	m.body, err = p.function("endcall")
	return &callStmt{call: c, m: m, line: t.line}, err
}

func (p *parser) filterTag(t token) (stmt, error) {
	x, err := p.filterChain(nil, true)
	if err != nil {
		return nil, err
	}
	b, _, err := p.block("endfilter")
	return &filterStmt{filter: x.(*filterExpr), body: b, line: t.line}, err
}

func (p *parser) withTag(t token) (stmt, error) {
	w := &withStmt{line: t.line}
	for p.cur().kind != tokBlockEnd {
		if len(w.targets) > 0 {
			if _, err := p.expectOp(","); err != nil {
				return nil, err
			}
		}
		to, err := p.assignTarget(false)
		if err != nil {
			return nil, err
		}
		if _, err := p.expectOp("="); err != nil {
			return nil, err
		}
		x, err := p.expression()
		if err != nil {
			return nil, err
		}
		w.targets, w.values = append(w.targets, to), append(w.values, x)
	}
	var err error
	w.body, _, err = p.block("endwith")
	return w, err
}

func (p *parser) printTag(t token) ([]stmt, error) {
	var out []stmt
	for p.cur().kind != tokBlockEnd {
		if len(out) > 0 {
			if _, err := p.expectOp(","); err != nil {
				return nil, err
			}
		}
		x, err := p.expression()
		if err != nil {
			return nil, err
		}
		out = append(out, newOutput(x, t.line))
	}
	return out, nil
}

func reserved(name string) bool {
	switch name {
	case "true", "false", "none", "True", "False", "None":
		return true
	}
	return false
}

// assignTarget parses what an assignment stores to. With attrs, "ns.name" is
// allowed. end names a keyword that ends the target.
func (p *parser) assignTarget(attrs bool, end ...string) (target, error) {
	out := target{line: p.cur().line}
	for {
		if len(out.tuple) > 0 {
			if _, err := p.expectOp(","); err != nil {
				return out, err
			}
		}
		if p.tupleEnd(end) {
			break
		}
		t, err := p.oneTarget(attrs)
		if err != nil {
			return out, err
		}
		out.tuple = append(out.tuple, t)
		if !p.cur().isOp(",") {
			break
		}
		out.multi = true
	}
	if len(out.tuple) == 1 && !out.multi {
		return out.tuple[0], nil
	}
	if len(out.tuple) == 0 {
		return out, p.failf(p.cur(), "expected an assignment target, got %s", p.cur())
	}
	return out, nil
}

func (p *parser) oneTarget(attrs bool) (target, error) {
	if err := p.enter(); err != nil {
		return target{}, err
	}
	defer p.leave()
	if p.skipOp("(") {
		t, err := p.assignTarget(attrs)
		if err != nil {
			return t, err
		}
		_, err = p.expectOp(")")
		return t, err
	}
	name, err := p.expectName()
	if err != nil {
		return target{}, err
	}
	t := target{name: name.text, line: name.line}
	if reserved(t.name) {
		return t, p.failf(name, "can't assign to '%s'", t.name)
	}
	if attrs && p.skipOp(".") {
		a, err := p.expectName()
		t.attr = a.text
		return t, err
	}
	return t, nil
}

// binds reports whether an assignment to t sets the variable name.
func (t target) binds(name string) bool {
	for _, x := range t.tuple {
		if x.binds(name) {
			return true
		}
	}
	return !t.multi && t.attr == "" && t.name == name
}

func (t target) clone() target {
	t.tuple = slices.Clone(t.tuple)
	for i := range t.tuple {
		t.tuple[i] = t.tuple[i].clone()
	}
	return t
}
