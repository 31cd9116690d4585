package sim

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"
)

// call is one generation request in progress: its sequences, and the mailbox
// through which the engine tells the handler about tokens.
type call struct {
	req     *body
	id      string
	created int64
	model   string // as answers name it
	adapter string
	prompt  int // tokens, all prompts
	choices []choice
	entry   *entry
	epoch   int

	mu     sync.Mutex
	events []event
	wake   chan struct{}
}

// choice is one sequence of a call.
type choice struct {
	call    *call
	index   int
	first   bool     // of the choices of one prompt
	ids     []uint32 // of the prompt
	out     []uint32 // of the output
	text    generator
	seq     Sequence
	started time.Time // when it joined the running set
	arr     time.Time
	last    time.Time // of its latest token
	begin   time.Time // of its first token

	sent   int    // tokens handed to the client
	shown  int    // of those, written; fewer with an interval
	body   []byte // not streaming: the text so far
	end    ending
	reason Reason
}

// event is one token of a choice, or its end.
type event struct {
	choice int
	reason Reason // not empty: the choice is finished
	empty  bool   // there is no token with it
}

var (
	errShutdown = errors.New("sim: replica is shutting down")
	errDead     = errors.New("sim: replica is dead")
)

func (c *call) push(e event) {
	c.mu.Lock()
	c.events = append(c.events, e)
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// take waits for events and swaps them with the slice given. It returns the
// context's error once the client has left.
func (c *call) take(ctx context.Context, into []event) ([]event, error) {
	for {
		c.mu.Lock()
		if len(c.events) > 0 {
			into, c.events = c.events, into[:0]
			c.mu.Unlock()
			return into, ctx.Err()
		}
		c.mu.Unlock()
		select {
		case <-c.wake:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// freed notes that the engine has let go of one of the call's sequences.
func (c *call) freed(now time.Time) {
	c.entry.update(func(r *Received) { r.Freed = now })
}

// cachedShare is what the choice adds to the request's cached tokens: the
// engine reports each prompt once.
func (ch *choice) cachedShare() int {
	if !ch.first {
		return 0
	}
	return ch.seq.Cached
}

func (c *call) cached() int {
	n := 0
	for i := range c.choices {
		n += c.choices[i].cachedShare()
	}
	return n
}

// shown is the number of tokens written to the client.
func (c *call) shown() int {
	n := 0
	for i := range c.choices {
		n += c.choices[i].shown
	}
	return n
}

func (c *call) generated() int {
	n := 0
	for i := range c.choices {
		n += c.choices[i].sent
	}
	return n
}

// prepare lays out one sequence per prompt and choice.
func (s *Server) prepare(c *call, prompts [][]uint32) {
	n := max(c.req.count(), 1)
	c.choices = make([]choice, len(prompts)*n)
	now := time.Now()
	for p, ids := range prompts {
		c.prompt += len(ids)
		seed := hashIDs(c.req.seed(), ids)
		for k := range n {
			ch := &c.choices[p*n+k]
			*ch = choice{call: c, index: p*n + k, first: k == 0, ids: ids, arr: now}
			ch.text = generator{seed: mix64(seed + uint64(k))}
			s.plan(ch)
		}
	}
}

// plan decides how long the choice's output is and names its blocks.
func (s *Server) plan(ch *choice) {
	b := ch.call.req
	limit := s.cfg.MaxModelLen - len(ch.ids)
	if m := b.maxTokens(); m >= 0 {
		limit = min(limit, m)
	}
	out := limit
	if !b.IgnoreEOS {
		out = min(limit, max(s.cfg.Natural(ch.text.seed), b.MinTokens, 1))
	}
	stop := out < limit
	ch.end.cut = math.MaxInt
	if end, ok := ch.text.find(b.Stop, out, b.MinTokens); ok {
		ch.end = end
		out, stop = end.tokens, true
	}
	ch.seq = Sequence{
		Prompt: len(ch.ids), Output: out, Stop: stop,
		Adapter: ch.call.adapter, Priority: b.Priority, NoCacheRead: b.PromptLogprobs != nil, Value: ch,
	}
	ch.out = make([]uint32, out)
	for i := range out {
		ch.out[i] = s.outputID(ch, i)
	}
	all := slices.Concat(ch.ids, ch.out)
	size := s.cfg.Profile.BlockSize
	if s.cfg.KVEvents != nil {
		ch.seq.Blocks = BlockHashes(nil, ch.call.adapter, b.CacheSalt, all, size)
	} else {
		ch.seq.Blocks = chain(chainSeed(ch.call.adapter, b.CacheSalt), all, size)
	}
}

// piece appends the text of the i-th generated token, without what belongs to
// a stop string.
func (ch *choice) piece(dst []byte, i int) []byte {
	n := len(dst)
	dst = ch.text.append(dst, i)
	if most := ch.end.cut - i*wordLen; most < wordLen {
		dst = dst[:n+max(most, 0)]
	}
	return dst
}

// outputID is the token id of the i-th generated token: the tokenizer's, if it
// has a single one for it.
func (s *Server) outputID(ch *choice, i int) uint32 {
	var word [wordLen]byte
	var one [4]uint32
	ids := s.cfg.Tokenize(one[:0], string(ch.text.append(word[:0], i)))
	if len(ids) == 1 {
		return ids[0]
	}
	return uint32(ch.text.at(i) % 32000)
}
