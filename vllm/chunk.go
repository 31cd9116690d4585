package vllm

import (
	"bytes"
	"errors"
)

// MaxCount is the largest number of tokens, choice index or error code that a
// Chunk reports; what a replica claims beyond it is cut to it.
const MaxCount = 1<<31 - 1

// The errors of Chunk.Parse.
var (
	ErrChunkSyntax = errors.New("vllm: chunk is not valid JSON")
	ErrChunkObject = errors.New("vllm: chunk is not a JSON object")
	ErrChunkDepth  = errors.New("vllm: chunk is nested too deeply")
)

// Chunk is what a gateway needs to know of one event of a stream, or of a
// whole answer that is not streamed: chat and completions alike. The zero
// value is ready. One Chunk reads any number of events, one after the other,
// without allocating.
//
// Slices are parts of the parsed data, or of memory that the next Parse uses
// again. Unknown fields are skipped, but checked; of a field that occurs
// twice the last value counts, as for every usual JSON reader.
type Chunk struct {
	ID, Model []byte // empty if absent or not a string

	// The model's value, quotes included, is data[ModelStart:ModelEnd]. Both
	// are zero if the field is absent or not a string.
	ModelStart, ModelEnd int

	Choices  int  // length of the array
	Content  bool // a choice has text, content, reasoning or a refusal that is not empty
	ToolCall bool // a choice has a tool call or a function call
	Role     bool // a choice names a role

	// FinishReason is the last one in the chunk, empty if no choice ends.
	FinishReason []byte

	// Finished lists the choices that end in this chunk.
	Finished []Finish

	// Error reports an error in place of an answer, in any of the engine's
	// forms: {"error":{...}}, {"error":"text"} and {"object":"error",...}.
	// ErrorCode is zero if it has none that is a number.
	Error                   bool
	ErrorCode               int
	ErrorMessage, ErrorType []byte

	Usage Usage

	// data[:UsageStart] and data[UsageEnd:] joined are the same object
	// without its usage field. Both are zero if there is none.
	UsageStart, UsageEnd int

	// Done reports the mark at the end of a stream, [DONE]. Nothing else is
	// set then.
	Done bool

	scratch []byte // strings without their escapes
	repeat  *chunkRepeat
}

// Usage is what a replica reports of the tokens of a request, each between
// zero and MaxCount.
type Usage struct {
	Present                    bool // there is a usage object
	Detailed                   bool // it says how many prompt tokens were cached
	Prompt, Completion, Cached int
}

// Finish is the end of one choice.
type Finish struct {
	Index  int // MaxCount if it is below zero
	Reason []byte
}

// FirstToken reports whether the chunk counts as the first token of an
// answer: content, a tool call or the end of a choice, and no error. A chunk
// that only names the role does not.
func (c *Chunk) FirstToken() bool {
	return !c.Error && (c.Content || c.ToolCall || len(c.Finished) > 0)
}

// Parse reads data, which must be one JSON object or [DONE], and replaces
// everything the Chunk held. It looks at every byte: without an error data is
// valid JSON, or [DONE]. After an error the Chunk holds nothing.
func (c *Chunk) Parse(data []byte) error {
	if c.again(data) {
		return nil
	}
	c.clear()
	if trimmed := bytes.Trim(data, " \t\r\n"); string(trimmed) == "[DONE]" {
		c.Done = true
		return nil
	}
	p := chunkParser{c: c, chunkLexer: chunkLexer{data: data, scratch: c.scratch}}
	p.top()
	c.scratch = p.scratch
	if p.err != nil {
		c.clear()
		return p.err
	}
	p.learn()
	return nil
}

func (c *Chunk) clear() {
	*c = Chunk{Finished: c.Finished[:0], scratch: c.scratch[:0], repeat: c.repeat}
}
