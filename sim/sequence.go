package sim

// Sequence is one sequence to generate. The caller fills in the exported
// fields and hands it to Engine.Submit; from then until it is finished it
// belongs to the Engine, which reads them and keeps Blocks.
//
// A Sequence may be reused after it has finished: Submit resets its state.
type Sequence struct {
	Prompt int // tokens, at least 1
	Output int // tokens to generate, at least 1

	// Blocks names the contents of the sequence's full blocks, one hash per
	// block, each depending on the one before. It covers the prompt, and as much
	// of the output behind it as is known; full blocks beyond it are given names
	// that nothing else has.
	Blocks []uint64

	Adapter     string // LoRA adapter; empty is the base model
	Priority    int    // with EngineConfig.Priority: smaller is served first
	Stop        bool   // the output ends with a stop token rather than at a limit
	NoCacheRead bool   // does not look for cached blocks, as requests for prompt_logprobs
	Value       any    // the caller's

	// Cached is the number of prompt tokens found in the cache when the
	// sequence was first admitted.
	Cached int
	// Generated is the number of tokens generated so far.
	Generated int
	// Preempted counts the times the sequence lost its blocks.
	Preempted int

	state    state
	order    uint64 // of submission
	adapter  int32
	computed int // tokens whose KV entries exist
	step     int // tokens in the step that runs
	hashed   int // leading blocks that have been registered
	held     []int32
	aborted  bool
	admitted bool // has been in the running set
}

type state uint8

const (
	idle state = iota
	waiting
	running
)

// known is the number of tokens the engine knows: the prompt and what was generated.
func (s *Sequence) known() int { return s.Prompt + s.Generated }

// Computed returns the number of tokens whose KV entries exist.
func (s *Sequence) Computed() int { return s.computed }

// Scheduled returns the tokens that the running step computes for the sequence.
func (s *Sequence) Scheduled() int { return s.step }

// Running reports whether the sequence is in the running set.
func (s *Sequence) Running() bool { return s.state == running }

func (s *Sequence) reset(order uint64, adapter int32) {
	s.Cached, s.Generated, s.Preempted = 0, 0, 0
	s.state, s.order, s.adapter = waiting, order, adapter
	s.computed, s.step, s.hashed = 0, 0, 0
	s.held = s.held[:0]
	s.aborted, s.admitted = false, false
}

// queue is a double-ended queue of sequences.
type queue struct {
	ring []*Sequence
	head int
	n    int
}

func (q *queue) at(i int) *Sequence { return q.ring[(q.head+i)&(len(q.ring)-1)] }

func (q *queue) grow() {
	if q.n < len(q.ring) {
		return
	}
	ring := make([]*Sequence, max(16, 2*len(q.ring)))
	for i := range q.n {
		ring[i] = q.at(i)
	}
	q.ring, q.head = ring, 0
}

func (q *queue) pushBack(s *Sequence) {
	q.grow()
	q.ring[(q.head+q.n)&(len(q.ring)-1)] = s
	q.n++
}

func (q *queue) pushFront(s *Sequence) {
	q.grow()
	q.head = (q.head - 1) & (len(q.ring) - 1)
	q.ring[q.head] = s
	q.n++
}

func (q *queue) popFront() *Sequence {
	s := q.ring[q.head]
	q.ring[q.head] = nil
	q.head = (q.head + 1) & (len(q.ring) - 1)
	q.n--
	return s
}

// removeAt takes out the i-th sequence and keeps the order of the others.
func (q *queue) removeAt(i int) *Sequence {
	mask := len(q.ring) - 1
	s := q.at(i)
	for ; i > 0; i-- {
		q.ring[(q.head+i)&mask] = q.ring[(q.head+i-1)&mask]
	}
	q.popFront()
	return s
}

// insertAt puts s in front of the i-th sequence.
func (q *queue) insertAt(i int, s *Sequence) {
	q.pushFront(s)
	mask := len(q.ring) - 1
	for j := range i {
		q.ring[(q.head+j)&mask] = q.ring[(q.head+j+1)&mask]
	}
	q.ring[(q.head+i)&mask] = s
}

// remove takes out s if it is there.
func (q *queue) remove(s *Sequence) bool {
	for i := range q.n {
		if q.at(i) == s {
			q.removeAt(i)
			return true
		}
	}
	return false
}
