package pattern

// Compile parses a pattern in the syntax of the reference's regular expression
// engine. It returns a *SyntaxError for what it does not support, among it
// patterns that match the empty text.
func Compile(src string) (*Pattern, error) {
	p := parser{src: src}
	root, err := p.alternatives()
	if err != nil {
		return nil, err
	}
	if p.more() {
		return nil, p.fail("unexpected %q", src[p.pos])
	}
	if root.minWidth() == 0 {
		return nil, p.fail("match of the empty text")
	}
	c := compiler{p: &Pattern{}}
	for _, alt := range root.sub {
		var first leads
		alt.addLeads(&first)
		c.p.alts = append(c.p.alts, alternative{c.here(), first})
		c.emit(alt)
		c.add(inst{op: opMatch})
	}
	if c.tooLong {
		return nil, p.fail("pattern too long once repetitions are written out")
	}
	return c.p, nil
}

type compiler struct {
	p       *Pattern
	tooLong bool
}

func (c *compiler) here() int32 { return int32(len(c.p.prog)) }

func (c *compiler) add(in inst) int32 {
	if len(c.p.prog) >= maxProg {
		c.tooLong = true
		return 0
	}
	c.p.prog = append(c.p.prog, in)
	return c.here() - 1
}

func (c *compiler) emit(n *node) {
	if c.tooLong {
		return
	}
	switch n.kind {
	case kindSet:
		c.p.sets = append(c.p.sets, n.set)
		c.add(inst{op: opSet, x: int32(len(c.p.sets) - 1)})
	case kindSequence:
		for _, sub := range n.sub {
			c.emit(sub)
		}
	case kindAlternatives:
		c.emitAlternatives(n.sub)
	case kindRepeat:
		c.emitRepeat(n)
	case kindAhead:
		c.emitSub(opAhead, n.sub[0])
	case kindNotAhead:
		c.emitSub(opNot, n.sub[0])
	case kindAtomic:
		c.emitSub(opAtomic, n.sub[0])
	}
}

func (c *compiler) emitSub(o op, n *node) {
	at := c.add(inst{op: o})
	c.emit(n)
	c.add(inst{op: opMatch})
	c.p.prog[at].x = c.here()
}

func (c *compiler) emitAlternatives(alts []*node) {
	var jumps []int32
	for i, alt := range alts {
		if i == len(alts)-1 {
			c.emit(alt)
			break
		}
		split := c.add(inst{op: opSplit})
		c.p.prog[split].x = c.here()
		c.emit(alt)
		jumps = append(jumps, c.add(inst{op: opJump}))
		c.p.prog[split].y = c.here()
	}
	for _, j := range jumps {
		c.p.prog[j].x = c.here()
	}
}

func (c *compiler) emitRepeat(n *node) {
	for range n.min {
		c.emit(n.sub[0])
	}
	if n.max < 0 && !n.lazy && n.sub[0].kind == kindSet {
		c.p.sets = append(c.p.sets, n.sub[0].set)
		c.add(inst{op: opRun, x: int32(len(c.p.sets) - 1)})
		return
	}
	if n.max < 0 {
		split := c.add(inst{op: opSplit})
		body := c.here()
		c.emit(n.sub[0])
		c.add(inst{op: opJump, x: split})
		c.setSplit(split, body, c.here(), n.lazy)
		return
	}
	var splits []int32
	for range n.max - n.min {
		splits = append(splits, c.add(inst{op: opSplit}))
		c.emit(n.sub[0])
	}
	for _, s := range splits {
		c.setSplit(s, s+1, c.here(), n.lazy)
	}
}

func (c *compiler) setSplit(at, body, after int32, lazy bool) {
	if lazy {
		body, after = after, body
	}
	c.p.prog[at].x, c.p.prog[at].y = body, after
}
