package vllm

import "strconv"

// chunkParser reads the fields of a Chunk.
type chunkParser struct {
	chunkLexer
	c *Chunk

	// {"object":"error"} has the error's fields at the top.
	objectIsError      bool
	topMessage, topTyp []byte
	topCode            int

	// What is needed to know the next chunk again.
	idEnd       int  // the end of the id's text
	texts       int  // strings in fields that can be content
	filledOther bool // such a field, or a tool call, is a filled array or object
	twice       bool // a field of usage occurs twice
	usageSeen   bool
	hole        [maxHoles]hole
	holes       int // may be more than there is room for
}

func (p *chunkParser) top() {
	isObject := p.peek() == '{'
	if isObject {
		for ok := p.open(); ok; ok = p.more() {
			p.topField()
		}
	} else {
		p.skip()
	}
	if p.peek(); p.pos < len(p.data) {
		p.fail(ErrChunkSyntax)
	}
	if !isObject {
		p.fail(ErrChunkObject)
	}
	if p.objectIsError && !p.c.Error {
		p.c.Error = true
		p.c.ErrorMessage, p.c.ErrorType, p.c.ErrorCode = p.topMessage, p.topTyp, p.topCode
	}
}

func (p *chunkParser) topField() {
	comma := p.comma
	switch string(p.key()) {
	case "id":
		p.c.ID = p.text()
		p.idEnd = 0
		if p.c.ID != nil {
			p.idEnd = p.pos - 1
		}
	case "model":
		p.model()
	case "object":
		p.objectIsError = string(p.text()) == "error"
	case "choices":
		p.choices()
	case "usage":
		start := p.key0
		p.usage()
		p.usageSpan(comma, start)
	case "error":
		p.error()
	case "message":
		p.topMessage = p.text()
	case "type":
		p.topTyp = p.text()
	case "code":
		p.topCode = p.count()
	default:
		p.skip()
	}
}

// text reads a value and returns it if it is a string, nil if not.
func (p *chunkParser) text() []byte {
	if p.peek() == '"' {
		return p.str()
	}
	p.skip()
	return nil
}

// filled reads a value and reports whether it is a string, an array or an
// object that is not empty.
func (p *chunkParser) filled() bool {
	switch c := p.peek(); c {
	case '"':
		raw, _ := p.rawString()
		p.texts++
		p.addHole(holeText, p.pos-1-len(raw), p.pos-1)
		return len(raw) > 0
	case '{', '[':
		start := p.pos
		p.skip()
		end := p.pos
		if p.err != nil {
			return false
		}
		p.pos = start + 1
		empty := p.peek() == c+2
		p.pos = end
		p.filledOther = p.filledOther || !empty
		return !empty
	}
	p.skip()
	return false
}

func (p *chunkParser) model() {
	p.c.Model, p.c.ModelStart, p.c.ModelEnd = nil, 0, 0
	if p.peek() != '"' {
		p.skip()
		return
	}
	start := p.pos
	p.c.Model = p.str()
	p.c.ModelStart, p.c.ModelEnd = start, p.pos
}

func (p *chunkParser) choices() {
	c := p.c
	c.Choices, c.Content, c.ToolCall, c.Role = 0, false, false, false
	c.FinishReason, c.Finished = nil, c.Finished[:0]
	if p.peek() != '[' {
		p.skip()
		return
	}
	for ok := p.open(); ok; ok = p.more() {
		c.Choices++
		p.choice()
	}
}

// said is what one message, whole or in part, holds.
type said struct{ content, tool, role bool }

func (p *chunkParser) choice() {
	if p.peek() != '{' {
		p.skip()
		return
	}
	var (
		index          int
		text           bool
		delta, message said
		reason         []byte
	)
	for ok := p.open(); ok; ok = p.more() {
		switch string(p.key()) {
		case "index":
			index = p.index()
		case "text":
			text = p.filled()
		case "delta":
			delta = p.said()
		case "message":
			message = p.said()
		case "finish_reason":
			reason = p.text()
		default:
			p.skip()
		}
	}
	c := p.c
	c.Content = c.Content || text || delta.content || message.content
	c.ToolCall = c.ToolCall || delta.tool || message.tool
	c.Role = c.Role || delta.role || message.role
	if len(reason) > 0 {
		c.FinishReason = reason
		c.Finished = append(c.Finished, Finish{Index: index, Reason: reason})
	}
}

// index reads a choice's index. One below zero is no choice's, as is one too large.
func (p *chunkParser) index() int {
	if p.peek() != '-' {
		return p.count()
	}
	if f, _ := strconv.ParseFloat(string(p.scalar()), 64); f < 0 {
		return MaxCount
	}
	return 0
}

func (p *chunkParser) said() said {
	if p.peek() != '{' {
		p.skip()
		return said{}
	}
	var content, reasoning, thought, refusal, audio, tools, function, role bool
	for ok := p.open(); ok; ok = p.more() {
		switch string(p.key()) {
		case "content":
			content = p.filled()
		case "reasoning":
			reasoning = p.filled()
		case "reasoning_content":
			thought = p.filled()
		case "refusal":
			refusal = p.filled()
		case "audio":
			audio = p.filled()
		case "tool_calls":
			tools = p.filled()
		case "function_call":
			function = p.filled()
		case "role":
			role = len(p.text()) > 0
		default:
			p.skip()
		}
	}
	return said{
		content: content || reasoning || thought || refusal || audio,
		tool:    tools || function,
		role:    role,
	}
}

func (p *chunkParser) usage() {
	p.twice = p.twice || p.usageSeen
	p.usageSeen = true
	p.c.Usage = Usage{}
	if p.peek() != '{' {
		p.skip()
		return
	}
	u := Usage{Present: true}
	var prompt, completion, details bool
	for ok := p.open(); ok; ok = p.more() {
		switch string(p.key()) {
		case "prompt_tokens":
			u.Prompt = p.countHole(holePrompt, &prompt)
		case "completion_tokens":
			u.Completion = p.countHole(holeCompletion, &completion)
		case "prompt_tokens_details":
			p.twice = p.twice || details
			details = true
			u.Cached, u.Detailed = p.cached()
		default:
			var other bool
			p.countHole(holeOther, &other)
		}
	}
	p.c.Usage = u
}

// cached reads the details of the prompt: how many tokens were found in the
// cache, and whether they say so.
func (p *chunkParser) cached() (n int, seen bool) {
	if p.peek() != '{' {
		p.skip()
		return 0, false
	}
	var twice bool
	for ok := p.open(); ok; ok = p.more() {
		if string(p.key()) == "cached_tokens" {
			c := p.peek()
			n = p.countHole(holeCached, &twice)
			seen = c == '-' || c >= '0' && c <= '9'
		} else {
			p.skip()
		}
	}
	return n, seen
}

// countHole reads a count, which may be another in the next chunk.
func (p *chunkParser) countHole(kind holeKind, seen *bool) int {
	p.twice = p.twice || *seen
	*seen = true
	p.peek()
	start := p.pos
	n := p.count()
	if end := p.pos; p.err == nil && digits(p.data[start:end]) == end-start {
		p.addHole(kind, start, end)
	}
	return n
}

func (p *chunkParser) addHole(kind holeKind, start, end int) {
	if p.holes < maxHoles {
		p.hole[p.holes] = hole{kind, start, end}
	}
	p.holes++
}

// usageSpan finds what to cut so that the object stays one: the field and
// the comma after it, or the one before it if it is the last.
func (p *chunkParser) usageSpan(comma, start int) {
	if p.err != nil {
		return
	}
	p.c.UsageStart, p.c.UsageEnd = start, p.pos
	switch {
	case p.peek() == ',':
		p.c.UsageEnd = p.pos + 1
	case comma >= 0:
		p.c.UsageStart = comma
	}
}

// error reads the value of the error field. null and false are none, nor is
// an empty string.
func (p *chunkParser) error() {
	c := p.c
	c.Error, c.ErrorCode, c.ErrorMessage, c.ErrorType = false, 0, nil, nil
	switch p.peek() {
	case '{':
		c.Error = true
	case '"':
		c.ErrorMessage = p.str()
		c.Error = len(c.ErrorMessage) > 0
		return
	case 'n', 'f':
		p.scalar()
		return
	default:
		c.Error = true
		p.skip()
		return
	}
	for ok := p.open(); ok; ok = p.more() {
		switch string(p.key()) {
		case "message":
			c.ErrorMessage = p.text()
		case "type":
			c.ErrorType = p.text()
		case "code":
			c.ErrorCode = p.count()
		default:
			p.skip()
		}
	}
}
