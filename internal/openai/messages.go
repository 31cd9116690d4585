package openai

import "strconv"

// messages reads the conversation.
func (p *parser) messages() *Error {
	if p.peek() != '[' {
		return p.wrongType("an array with at least one message")
	}
	start := p.i
	if err := p.enter(); err != nil {
		return err
	}
	n := 0
	for {
		ok, err := p.elem(&n)
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if n > p.lim.Messages {
			return p.refuse(CodeTooMany, "at most "+strconv.Itoa(p.lim.Messages)+" messages")
		}
		p.at = n - 1
		if p.peek() != '{' {
			return p.wrongType("an object")
		}
		if err := p.message(); err != nil {
			return err
		}
	}
	p.at = -1
	if n == 0 {
		return p.refuse(CodeInvalidValue, "an array with at least one message")
	}
	p.r.Messages = p.b[start:p.i:p.i]
	return nil
}

// message reads one message, whose brace was seen.
func (p *parser) message() *Error {
	role := false
	o, err := p.open()
	if err != nil {
		return err
	}
	for {
		name, _, ok, err := p.next(&o)
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		switch string(name) {
		case "role":
			p.sub, role = "role", true
			if p.peek() != '"' {
				return p.wrongType("a string")
			}
			_, _, err = p.str()
		case "content":
			p.sub = "content"
			err = p.content()
		default:
			err = p.skip()
		}
		if err != nil {
			return err
		}
		p.sub = ""
	}
	if !role {
		p.sub = "role"
		return p.refuse(CodeMissing, "a string")
	}
	return nil
}

// content reads null, a string, or an array of parts.
func (p *parser) content() *Error {
	c := p.peek()
	if c != '[' {
		if c != '"' && c != 'n' {
			return p.wrongType("a string, null or an array of parts")
		}
		return p.skip()
	}
	if err := p.enter(); err != nil {
		return err
	}
	n := 0
	for {
		ok, err := p.elem(&n)
		if err != nil || !ok {
			return err
		}
		if n > p.lim.Parts {
			return p.refuse(CodeTooMany, "at most "+strconv.Itoa(p.lim.Parts)+" parts")
		}
		switch p.peek() {
		case '"':
			err = p.skip()
		case '{':
			err = p.part()
		default:
			err = p.wrongType("a string, null or an array of parts")
		}
		if err != nil {
			return err
		}
	}
}

// part reads one content part, whose brace was seen. A part counts as text
// only if its type says so and its text is a string: anything else may become
// something in the prompt that a text tokenizer cannot predict.
func (p *parser) part() *Error {
	typed, text, other := false, false, false
	o, err := p.open()
	if err != nil {
		return err
	}
	for {
		name, _, ok, err := p.next(&o)
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		start, c := p.i, p.peek()
		if err := p.skip(); err != nil {
			return err
		}
		switch string(name) {
		case "type":
			typed = string(p.b[start:p.i]) == `"text"`
		case "text":
			text = c == '"'
		case "uuid", "cache_control":
		default:
			other = true
		}
	}
	if !typed || !text || other {
		p.r.Multimodal = true
	}
	return nil
}
