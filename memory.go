package expediter

import "sync"

// prompt is memory for a request's prompt. It is handed on to the next
// request as soon as an answer has begun: nothing is tried again then, and
// streams stay open for long.
type prompt struct {
	body   []byte // as the client sent it
	sent   []byte // as it goes upstream
	tokens []uint32
	blocks []uint64
	held   []int // prompt tokens that each slot holds
}

// answered is memory for what goes out to the client. A stream has it only while
// something is on its way: between two events it would go cold.
type answered struct {
	out []byte
	cut []byte
}

var (
	prompts = sync.Pool{New: func() any { return new(prompt) }}
	answers = sync.Pool{New: func() any { return new(answered) }}
)

const keepMax = 256 << 10 // bytes of one buffer worth keeping

// shows is what is still needed of a request when its body is gone.
type shows struct {
	usage, continuous, multimodal bool
}

// forgetPrompt hands the memory of the prompt on, once; but not what went
// upstream if a transport may still be reading it.
func (q *request) forgetPrompt() {
	p := q.prompt
	if p == nil {
		return
	}
	q.prompt, q.in, q.size.body = nil, nil, nil
	q.route.Blocks, q.route.Cached = nil, nil
	if q.heldBytes > 0 {
		q.h.bodies.give(q.tenant.ID, q.heldBytes)
		q.heldBytes = 0
	}
	if q.content != nil && (q.rec.Attempts > 1 || !q.content.Free()) {
		p.sent = nil
	}
	q.content = nil
	if cap(p.body) <= keepMax && cap(p.sent) <= keepMax && 4*cap(p.tokens) <= keepMax {
		prompts.Put(p)
	}
}

// borrow provides memory for what goes out.
func (q *request) borrow() {
	if q.answered == nil {
		q.answered = answers.Get().(*answered)
		q.out = q.out[:0]
	}
}

// forgetAnswer hands the memory of what has gone out on.
func (q *request) forgetAnswer() {
	a := q.answered
	q.answered = nil
	if a != nil && cap(a.out) <= keepMax && cap(a.cut) <= keepMax {
		answers.Put(a)
	}
}
