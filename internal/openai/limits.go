package openai

// MaxLimit is the largest value accepted for max_tokens and
// max_completion_tokens. No model has such a context, and the product of it
// with the largest n and number of prompts fits in 64 bits.
const MaxLimit = 1<<31 - 1

// Limits bounds what one body may hold. Bytes are bounded by whoever reads
// the body.
type Limits struct {
	Depth    int // levels of nesting. If zero, 64
	Keys     int // names in one object. If zero, 4096
	Messages int // If zero, 4096
	Parts    int // content parts of one message. If zero, 1024
	Tools    int // If zero, 256
	Prompts  int // prompts of one completion request. If zero, 1024
	Stop     int // stop strings. If zero, 4
	N        int // choices. If zero, 128
}

func (l Limits) filled() Limits {
	set := func(n *int, v int) {
		if *n <= 0 {
			*n = v
		}
	}
	set(&l.Depth, 64)
	set(&l.Keys, 4096)
	set(&l.Messages, 4096)
	set(&l.Parts, 1024)
	set(&l.Tools, 256)
	set(&l.Prompts, 1024)
	set(&l.Stop, 4)
	set(&l.N, 128)
	return l
}
