package pattern

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/expediterhq/expediter/tokenize/internal/class"
)

// node is a parsed part of a pattern.
type node struct {
	kind     kind
	set      set     // kindSet
	sub      []*node // operands
	min, max int     // kindRepeat; max < 0: no bound
	lazy     bool
}

type kind uint8

const (
	kindSet kind = iota
	kindSequence
	kindAlternatives
	kindRepeat
	kindAhead
	kindNotAhead
	kindAtomic
)

// Limits on the size of a pattern.
const (
	maxDepth  = 20
	maxRepeat = 100
	maxProg   = 10_000
)

type parser struct {
	src   string
	pos   int
	fold  bool
	depth int
}

// SyntaxError reports a pattern, or a feature of one, that Compile does not know.
type SyntaxError struct {
	Offset int    // byte offset into the pattern
	What   string // what was found
}

// Error describes the error.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("pattern: %s at offset %d", e.What, e.Offset)
}

func (p *parser) fail(format string, args ...any) error {
	return &SyntaxError{p.pos, fmt.Sprintf(format, args...)}
}

func (p *parser) more() bool { return p.pos < len(p.src) }

func (p *parser) accept(lit string) bool {
	if strings.HasPrefix(p.src[p.pos:], lit) {
		p.pos += len(lit)
		return true
	}
	return false
}

func (p *parser) next() rune {
	r, n := utf8.DecodeRuneInString(p.src[p.pos:])
	p.pos += n
	return r
}

func (p *parser) alternatives() (*node, error) {
	if p.depth++; p.depth > maxDepth {
		return nil, p.fail("groups nested deeper than %d", maxDepth)
	}
	defer func() { p.depth-- }()
	alt := &node{kind: kindAlternatives}
	for {
		seq, err := p.sequence()
		if err != nil {
			return nil, err
		}
		alt.sub = append(alt.sub, seq)
		if !p.accept("|") {
			return alt, nil
		}
	}
}

func (p *parser) sequence() (*node, error) {
	seq := &node{kind: kindSequence}
	for p.more() && p.src[p.pos] != '|' && p.src[p.pos] != ')' {
		start := p.pos
		n, err := p.atom()
		if err != nil {
			return nil, err
		}
		if n, err = p.quantified(n); err != nil {
			return nil, err
		}
		if p.fold && foldsToOne(p.src[start:]) {
			p.pos = start
			return nil, p.fail("case-insensitive letters that fold to one character")
		}
		seq.sub = append(seq.sub, n)
	}
	return seq, nil
}

// foldsToOne says whether the source starts with two letters which a
// case-insensitive match also finds as a single character, such as the sharp s.
func foldsToOne(src string) bool {
	if len(src) < 2 {
		return false
	}
	switch strings.ToLower(src[:2]) {
	case "ss", "st", "ff", "fi", "fl":
		return true
	}
	return false
}

func (p *parser) atom() (*node, error) {
	n := &node{kind: kindSet}
	switch c := p.src[p.pos]; c {
	case '(':
		return p.group()
	case '[':
		if err := p.class(&n.set); err != nil {
			return nil, err
		}
	case '\\':
		if err := p.escape(&n.set); err != nil {
			return nil, err
		}
	case '.':
		p.pos++
		n.set.addRune('\n', '\n')
		n.set.negate = true
	case '*', '+', '?', '{', '^', '$':
		return nil, p.fail("unsupported %q", c)
	default:
		if p.fold && c >= utf8.RuneSelf {
			return nil, p.fail("case-insensitive character outside ASCII")
		}
		p.literal(&n.set, p.next())
	}
	n.set.seal()
	return n, nil
}

func (p *parser) literal(c *set, r rune) {
	if p.fold && (r|0x20) >= 'a' && (r|0x20) <= 'z' {
		c.addFolded(r)
		return
	}
	c.addRune(r, r)
}

func (p *parser) group() (*node, error) {
	start, fold := p.pos, p.fold
	n := &node{}
	switch {
	case p.accept("(?i:"):
		p.fold = true
		n.kind = kindSequence
	case p.accept("(?:"):
		n.kind = kindSequence
	case p.accept("(?!"):
		n.kind = kindNotAhead
	case p.accept("(?="):
		n.kind = kindAhead
	case p.accept("(?>"):
		n.kind = kindAtomic
	case p.accept("(?"):
		p.pos = start
		return nil, p.fail("unsupported group %q", p.src[start:min(start+4, len(p.src))])
	default:
		p.pos++
		n.kind = kindSequence
	}
	body, err := p.alternatives()
	if err != nil {
		return nil, err
	}
	if !p.accept(")") {
		return nil, p.fail("group without end")
	}
	p.fold = fold
	n.sub = []*node{body}
	return n, nil
}

func (p *parser) quantified(n *node) (*node, error) {
	if !p.more() {
		return n, nil
	}
	rep := &node{kind: kindRepeat, sub: []*node{n}}
	switch p.src[p.pos] {
	case '*':
		rep.min, rep.max = 0, -1
	case '+':
		rep.min, rep.max = 1, -1
	case '?':
		rep.min, rep.max = 0, 1
	case '{':
		return p.counted(rep)
	default:
		return n, nil
	}
	p.pos++
	if n.kind == kindAhead || n.kind == kindNotAhead || n.minWidth() == 0 {
		return nil, p.fail("repetition of what may be empty")
	}
	switch {
	case p.accept("?"):
		rep.lazy = true
	case p.accept("+"):
		rep = &node{kind: kindAtomic, sub: []*node{rep}}
	}
	return rep, p.notQuantified()
}

// counted parses {n}, {n,} and {n,m}.
func (p *parser) counted(rep *node) (*node, error) {
	start := p.pos
	p.pos++
	lo, ok := p.number()
	hi := lo
	if p.accept(",") {
		hi = -1
		if p.more() && p.src[p.pos] != '}' {
			var okHi bool
			hi, okHi = p.number()
			ok = ok && okHi && hi >= lo
		}
	}
	if !ok || !p.accept("}") {
		p.pos = start
		return nil, p.fail("unsupported quantifier")
	}
	if lo > maxRepeat || hi > maxRepeat {
		p.pos = start
		return nil, p.fail("quantifier above %d", maxRepeat)
	}
	if rep.sub[0].minWidth() == 0 {
		return nil, p.fail("repetition of what may be empty")
	}
	rep.min, rep.max = lo, hi
	return rep, p.notQuantified()
}

func (p *parser) number() (int, bool) {
	n, start := 0, p.pos
	for p.more() && p.src[p.pos] >= '0' && p.src[p.pos] <= '9' && n <= maxRepeat {
		n = n*10 + int(p.src[p.pos]-'0')
		p.pos++
	}
	return n, p.pos > start
}

func (p *parser) notQuantified() error {
	if p.more() && strings.IndexByte("*+?{", p.src[p.pos]) >= 0 {
		return p.fail("quantifier after quantifier")
	}
	return nil
}

// class parses a bracketed class.
func (p *parser) class(c *set) error {
	p.pos++
	c.negate = p.accept("^")
	for first := true; ; first = false {
		if !p.more() {
			return p.fail("class without end")
		}
		if p.src[p.pos] == ']' && !first {
			p.pos++
			return nil
		}
		if err := p.classItem(c); err != nil {
			return err
		}
	}
}

func (p *parser) classItem(c *set) error {
	if p.fold {
		return p.fail("class in a case-insensitive group")
	}
	if p.src[p.pos] == '[' || p.src[p.pos] == ']' || strings.HasPrefix(p.src[p.pos:], "&&") {
		return p.fail("unsupported %q in a class", p.src[p.pos])
	}
	lo, isRune, err := p.classRune(c)
	if err != nil || !isRune {
		return err
	}
	hi := lo
	if rest := p.src[p.pos:]; len(rest) > 1 && rest[0] == '-' && rest[1] != ']' {
		p.pos++
		if p.src[p.pos] == '[' {
			return p.fail("unsupported range end")
		}
		if hi, isRune, err = p.classRune(c); err != nil {
			return err
		}
		if !isRune || hi < lo {
			return p.fail("bad range in a class")
		}
	}
	c.addRune(lo, hi)
	return nil
}

// classRune parses one character of a class, or adds a whole category to c.
func (p *parser) classRune(c *set) (r rune, isRune bool, err error) {
	if p.src[p.pos] != '\\' {
		return p.next(), true, nil
	}
	if r, ok := p.escapedRune(); ok {
		return r, true, nil
	}
	return 0, false, p.escape(c)
}

// escapedRune parses an escape that stands for one character.
func (p *parser) escapedRune() (rune, bool) {
	if p.pos+1 >= len(p.src) {
		return 0, false
	}
	b := p.src[p.pos+1]
	switch b {
	case 'r':
		p.pos += 2
		return '\r', true
	case 'n':
		p.pos += 2
		return '\n', true
	case 't':
		p.pos += 2
		return '\t', true
	}
	if b < utf8.RuneSelf && class.OfASCII(b)&(class.P|class.S) != 0 {
		p.pos += 2
		return rune(b), true
	}
	return 0, false
}

// escape parses an escape and adds what it stands for to c.
func (p *parser) escape(c *set) error {
	if r, ok := p.escapedRune(); ok {
		c.addRune(r, r)
		return nil
	}
	switch {
	case p.accept(`\s`):
		c.in |= class.Space
	case p.accept(`\S`):
		c.out = append(c.out, class.Space)
	case strings.HasPrefix(p.src[p.pos:], `\p{`), strings.HasPrefix(p.src[p.pos:], `\P{`):
		return p.property(c)
	default:
		return p.fail("unsupported escape %q", p.src[p.pos:min(p.pos+2, len(p.src))])
	}
	return nil
}

func (p *parser) property(c *set) error {
	if p.fold {
		return p.fail("property in a case-insensitive group")
	}
	negate := p.src[p.pos+1] == 'P'
	name, _, ok := strings.Cut(p.src[p.pos+3:], "}")
	if !ok {
		return p.fail("property without end")
	}
	var cls class.Set
	switch name {
	case "L":
		cls = class.L
	case "Lu":
		cls = class.Lu
	case "Lt":
		cls = class.Lt
	case "Lm":
		cls = class.Lm
	case "Lo":
		cls = class.Lo
	case "Ll":
		cls = class.Ll
	case "M":
		cls = class.M
	case "N":
		cls = class.N
	case "P":
		cls = class.P
	case "S":
		cls = class.S
	default:
		return p.fail("unsupported property %q", name)
	}
	p.pos += len(`\p{}`) + len(name)
	if negate {
		c.out = append(c.out, cls)
	} else {
		c.in |= cls
	}
	return nil
}

// minWidth returns the least number of characters that n matches.
func (n *node) minWidth() int {
	switch n.kind {
	case kindSet:
		return 1
	case kindAhead, kindNotAhead:
		return 0
	case kindRepeat:
		return n.min * n.sub[0].minWidth()
	case kindAlternatives:
		w := n.sub[0].minWidth()
		for _, sub := range n.sub[1:] {
			w = min(w, sub.minWidth())
		}
		return w
	}
	w := 0
	for _, sub := range n.sub {
		w = min(w+sub.minWidth(), maxRepeat)
	}
	return w
}
