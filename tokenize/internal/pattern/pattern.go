// Package pattern matches the regular expressions that tokenizer files split
// text with: alternation, groups, quantifiers, character classes with Unicode
// categories, case-insensitive ASCII literals and lookahead, with the leftmost
// and first-alternative rule of a backtracking matcher.
//
// It exists because neither package regexp (no lookahead) nor a matcher with
// other Unicode tables gives the reference's pieces. What it does not know it
// refuses at Compile.
package pattern

import "errors"

// ErrTooComplex reports that a match took more steps than allowed, which a
// pattern with nested or adjacent repetitions can provoke.
var ErrTooComplex = errors.New("pattern: match takes too many steps")

// Pattern is a compiled pattern. It is immutable and safe for concurrent use.
type Pattern struct {
	prog []inst
	sets []set
	alts []alternative
}

// alternative is one of the pattern's outermost alternatives.
type alternative struct {
	pc    int32
	first leads // bytes that a match can start with
}

// Machine is the scratch space of a match. The zero value is ready to use. It
// must not be used by two matches at once.
type Machine struct {
	stack []frame
	steps int
}

type op uint8

const (
	opSet    op = iota // one rune in sets[x]
	opRun              // as many runes in sets[x] as there are, or fewer
	opSplit            // try x, then y
	opJump             // go on at x
	opMatch            // done
	opAhead            // look ahead with the program at pc+1, go on at x if it matches
	opNot              // look ahead with the program at pc+1, go on at x if it does not
	opAtomic           // match the program at pc+1, keep its first match, go on at x
)

type inst struct {
	op   op
	x, y int32
}

// frame is a way not tried yet: go on with pc at pos or, after a run that could
// be shorter, one rune before pos, and so on down to least.
type frame struct {
	pc         int32
	pos, least int
}

// stepsPerByte and stepsAtLeast bound the work of finding all matches in one
// text: patterns in use take up to 12 steps per byte.
const (
	stepsPerByte = 30
	stepsAtLeast = 100_000
)

// Reset gives the machine a fresh allowance of steps for a text of n bytes.
func (m *Machine) Reset(n int) {
	m.steps = stepsAtLeast + stepsPerByte*n
}

// Next returns the leftmost match of p in s, which should be valid UTF-8, at or
// after i. Where there is none
// it returns len(s) twice. The text around s does not exist for it. The error,
// if any, is ErrTooComplex; steps count from the last Reset.
func (p *Pattern) Next(s string, i int, m *Machine) (start, end int, err error) {
	m.stack = m.stack[:0]
	for start = i; start < len(s); {
		for j := range p.alts {
			if alt := &p.alts[j]; alt.first.has(s[start]) {
				if end = p.run(s, start, alt.pc, m); end >= 0 {
					return start, end, nil
				}
			}
		}
		if m.steps--; m.steps < 0 {
			return len(s), len(s), ErrTooComplex
		}
		start++
		for start < len(s) && s[start]&0xC0 == 0x80 {
			start++
		}
	}
	return len(s), len(s), nil
}

// run matches the program at pc and returns the end of the match, or -1.
func (p *Pattern) run(s string, pos int, pc int32, m *Machine) int {
	base := len(m.stack)
	for {
		if m.steps--; m.steps < 0 {
			m.stack = m.stack[:base]
			return -1
		}
		ok := true
		switch in := p.prog[pc]; in.op {
		case opSet:
			var n int
			if ok, n = p.sets[in.x].matchAt(s, pos); ok {
				pos += n
				pc++
			}
		case opRun:
			pc++
			if end := p.sets[in.x].runFrom(s, pos); end > pos {
				m.steps -= (end - pos) / 4
				m.stack = append(m.stack, frame{pc, end, pos})
				pos = end
			}
		case opSplit:
			m.stack = append(m.stack, frame{in.y, pos, pos})
			pc = in.x
		case opJump:
			pc = in.x
		case opMatch:
			m.stack = m.stack[:base]
			return pos
		case opAhead, opNot:
			ok = (p.run(s, pos, pc+1, m) >= 0) == (in.op == opAhead)
			pc = in.x
		case opAtomic:
			end := p.run(s, pos, pc+1, m)
			if ok = end >= 0; ok {
				pos = end
			}
			pc = in.x
		}
		if !ok {
			if len(m.stack) == base {
				return -1
			}
			pc, pos = m.back(s)
		}
	}
}

// back takes up the way that was left last.
func (m *Machine) back(s string) (pc int32, pos int) {
	top := &m.stack[len(m.stack)-1]
	if top.pos > top.least { // give back a rune of a run
		top.pos--
		for top.pos > top.least && s[top.pos]&0xC0 == 0x80 {
			top.pos--
		}
	}
	pc, pos = top.pc, top.pos
	if pos == top.least {
		m.stack = m.stack[:len(m.stack)-1]
	}
	return pc, pos
}
