package openai

import (
	"math"
	"strconv"
)

const promptForms = "a string, an array of strings, an array of token ids or an array of such arrays"

// prompt reads the four forms of a completion prompt, or null.
func (p *parser) prompt() *Error {
	if null, err := p.null(); null || err != nil {
		return err
	}
	switch p.peek() {
	case '"':
		var s string
		if err := p.text(&s); err != nil {
			return err
		}
		p.r.Prompts = []Prompt{{Text: s}}
		return nil
	case '[':
	default:
		return p.wrongType(promptForms)
	}
	if err := p.enter(); err != nil {
		return err
	}
	switch c := p.peek(); {
	case c == '"' || c == '[':
		return p.prompts(c)
	case c >= '0' && c <= '9':
		ids, err := p.ids()
		if err != nil {
			return err
		}
		p.r.Prompts = []Prompt{{IDs: ids}}
		return nil
	default:
		return p.wrongType(promptForms + ", not empty")
	}
}

// prompts reads the elements of an array of prompts that all start with form.
func (p *parser) prompts(form byte) *Error {
	n := 0
	for {
		ok, err := p.elem(&n)
		if err != nil || !ok {
			p.at = -1
			return err
		}
		p.at = n - 1
		if n > p.lim.Prompts {
			return p.refuse(CodeTooMany, "at most "+strconv.Itoa(p.lim.Prompts)+" prompts")
		}
		if p.peek() != form {
			return p.wrongType("the same form as the first prompt")
		}
		var one Prompt
		if form == '"' {
			err = p.text(&one.Text)
		} else if err = p.enter(); err == nil {
			one.IDs, err = p.ids()
		}
		if err != nil {
			return err
		}
		p.r.Prompts = append(p.r.Prompts, one)
	}
}

// ids reads token ids up to the closing bracket; there must be at least one.
func (p *parser) ids() ([]uint32, *Error) {
	var ids []uint32
	n := 0
	for {
		ok, err := p.elem(&n)
		if err != nil {
			return nil, err
		}
		if !ok {
			break
		}
		id, ok, err := p.id()
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, p.wrongType("token ids: whole numbers from 0 to " + strconv.Itoa(math.MaxInt32))
		}
		if ids == nil { // an id and its comma take at least two bytes
			ids = make([]uint32, 0, min((len(p.b)-p.i)/2+1, 64))
		}
		ids = append(ids, id)
	}
	if n == 0 {
		return nil, p.wrongType("at least one token id")
	}
	return ids, nil
}

// id reads one token id; ok is false for anything but a small enough integer.
func (p *parser) id() (id uint32, ok bool, err *Error) {
	if c := p.peek(); c < '0' || c > '9' {
		return 0, false, nil
	}
	lit, integer, err := p.number()
	if err != nil || !integer || lit.end-lit.start > 10 {
		return 0, false, err
	}
	v := uint64(0)
	for _, c := range p.b[lit.start:lit.end] {
		v = v*10 + uint64(c-'0')
	}
	return uint32(v), v <= math.MaxInt32, nil
}
