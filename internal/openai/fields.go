package openai

import "strconv"

// streamOptions reads stream_options and where its parts are.
func (p *parser) streamOptions() *Error {
	if null, err := p.null(); null || err != nil {
		return err
	}
	if p.peek() != '{' {
		return p.wrongType("an object")
	}
	r := p.r
	r.StreamOptionsPresent = true
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
			r.options.end = p.i - 1
			r.options.empty = o.n == 0
			return nil
		}
		value := span{start: p.i}
		switch string(name) {
		case "include_usage":
			p.sub = "include_usage"
			err = p.flag(&r.IncludeUsage)
			value.end = p.i
			r.options.include = value
		case "continuous_usage_stats":
			p.sub = "continuous_usage_stats"
			err = p.flag(&r.ContinuousUsage)
			value.end = p.i
			r.options.continuous = value
		default:
			err = p.skip()
		}
		if err != nil {
			return err
		}
		p.sub = ""
	}
}

// stop reads a string, an array of strings, or null.
func (p *parser) stop() *Error {
	if null, err := p.null(); null || err != nil {
		return err
	}
	if p.peek() != '[' {
		if p.peek() != '"' {
			return p.wrongType("a string or an array of strings")
		}
		_, _, err := p.str()
		return err
	}
	n := 0
	if err := p.enter(); err != nil {
		return err
	}
	for {
		ok, err := p.elem(&n)
		if err != nil || !ok {
			p.at = -1
			return err
		}
		if n > p.lim.Stop {
			return p.refuse(CodeTooMany, "at most "+strconv.Itoa(p.lim.Stop)+" strings")
		}
		p.at = n - 1
		if p.peek() != '"' {
			return p.wrongType("a string")
		}
		if _, _, err := p.str(); err != nil {
			return err
		}
	}
}

// logprobs reads a flag in chat and a count in completions, which the engine
// checks.
func (p *parser) logprobs() *Error {
	var asked bool
	if p.r.Kind == Chat {
		return p.flag(&asked)
	}
	return p.present(&asked, "")
}

// tools reads a non-empty array of objects, or null.
func (p *parser) tools() *Error {
	if null, err := p.null(); null || err != nil {
		return err
	}
	start := p.i
	if p.peek() != '[' {
		return p.wrongType("an array of objects")
	}
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
		if n > p.lim.Tools {
			return p.refuse(CodeTooMany, "at most "+strconv.Itoa(p.lim.Tools)+" tools")
		}
		if p.peek() != '{' {
			p.at = n - 1
			return p.wrongType("an object")
		}
		if err := p.skip(); err != nil {
			return err
		}
	}
	if n == 0 {
		return p.refuse(CodeInvalidValue, "at least one tool, or no such field")
	}
	p.r.Tools = p.b[start:p.i:p.i]
	return nil
}
