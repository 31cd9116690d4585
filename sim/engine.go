package sim

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// EngineConfig says how an Engine schedules. The zero value of every field but
// Profile is vLLM's default.
type EngineConfig struct {
	Profile Profile

	LongPrefill   int     // longest prefill chunk of one sequence; if zero, the step's budget
	FirstChunk    bool    // admit when the first chunk fits, not the whole prompt (scheduler_reserve_full_isl off)
	Watermark     float64 // share of the blocks kept free when admitting beside running sequences
	Priority      bool    // schedule by Sequence.Priority, then age; if false, first come first served
	NoPrefixCache bool    // no prefix caching
	TailFirst     bool    // freed blocks without a hash join the end of the eviction order too, as up to vLLM 0.23

	MaxLoRAs    int // adapters in one step, and GPU slots; if zero, 1
	MaxCPULoRAs int // adapters kept in host memory; if zero, MaxLoRAs

	// Stored is called when blocks [from, to) of s get their hashes, and Removed
	// when a hash is dropped: what vLLM reports as KV events. Both are called
	// inside Begin and must not call the Engine. They may be nil.
	Stored  func(s *Sequence, from, to int)
	Removed func(hash uint64)
}

// Engine is the scheduler and the KV cache of one replica. It has no clock:
// Begin decides on a step and says how long it takes, End applies its results.
// Between the two, time passes as the caller likes; Submit and Abort are
// allowed at any moment and take effect at the step boundary as in vLLM.
//
// An Engine is not safe for concurrent use. A step allocates no memory once its
// queues have grown to their working size.
type Engine struct {
	cfg   EngineConfig
	kv    *blocks
	lora  adapters
	order uint64

	waiting queue
	skipped queue // passed over in an earlier step, looked at first
	passed  queue // passed over in this step
	running []*Sequence
	aborts  []*Sequence

	inStep bool
	stall  time.Duration // adapter loads that the next step waits for
	ghosts Work          // sequences that stopped in the step before: their slot in this one is wasted
	out    []Output
	begun  []*Sequence // admitted for the first time in the step
	stats  Stats
}

// Output is what a step did for one sequence.
type Output struct {
	Seq    *Sequence
	First  bool   // the token is the sequence's first
	Reason Reason // why the sequence finished, or empty
}

// Reason is a finish reason.
type Reason string

// The reasons why a sequence finishes.
const (
	Stopped Reason = "stop"   // a stop token or stop string
	Length  Reason = "length" // the output limit
	Aborted Reason = "abort"  // Abort was called
)

// ErrTooLong is returned by Submit for a sequence that can never fit into the KV cache.
var ErrTooLong = errors.New("sim: sequence is larger than the KV cache")

// NewEngine returns an idle Engine with an empty cache.
func NewEngine(cfg EngineConfig) (*Engine, error) {
	cfg.Profile = cfg.Profile.withDefaults()
	err := cfg.Profile.Validate()
	if cfg.Watermark < 0 || cfg.Watermark >= 1 {
		err = errors.Join(err, fmt.Errorf("sim: Watermark is %v, want at least 0 and below 1", cfg.Watermark))
	}
	if cfg.LongPrefill < 0 || cfg.MaxLoRAs < 0 || cfg.MaxCPULoRAs < 0 {
		err = errors.Join(err, errors.New("sim: LongPrefill, MaxLoRAs or MaxCPULoRAs is negative"))
	}
	if err != nil {
		return nil, err
	}
	cfg.MaxLoRAs = max(cfg.MaxLoRAs, 1)
	cfg.MaxCPULoRAs = max(cfg.MaxCPULoRAs, cfg.MaxLoRAs)
	e := &Engine{
		cfg:  cfg,
		kv:   newBlocks(cfg.Profile.KVTokens/cfg.Profile.BlockSize, cfg.Removed),
		lora: newAdapters(cfg.MaxLoRAs, cfg.MaxCPULoRAs),
	}
	e.lora.disk, e.lora.copy = cfg.Profile.AdapterDisk, cfg.Profile.AdapterCopy
	return e, nil
}

// Submit puts s at the end of the waiting line.
func (e *Engine) Submit(s *Sequence) error {
	if s.Prompt < 1 || s.Output < 1 {
		return fmt.Errorf("sim: sequence has a prompt of %d and an output of %d tokens, want at least 1 each", s.Prompt, s.Output)
	}
	if s.state != idle {
		return errors.New("sim: sequence is already submitted")
	}
	need := e.blocksFor(s.Prompt + s.Output - 1) // the last token is never an input
	if need > e.kv.usable() {
		return fmt.Errorf("%w: %d blocks, capacity %d", ErrTooLong, need, e.kv.usable())
	}
	e.order++
	s.reset(e.order, e.lora.id(s.Adapter))
	s.held = slices.Grow(s.held, need)
	e.lora.inFlight[s.adapter]++
	e.enqueue(s)
	return nil
}

// Abort ends s and reports whether it is gone at once. If a step runs, it
// returns false: s keeps its blocks until the step is over, and End reports it.
// Aborting a sequence that has finished does nothing and returns true.
func (e *Engine) Abort(s *Sequence) bool {
	switch {
	case s.state == idle:
		return true
	case e.inStep && !s.aborted:
		s.aborted = true
		e.aborts = append(e.aborts, s)
		return false
	case e.inStep:
		return false
	}
	e.drop(s)
	return true
}

// Started returns the sequences that joined the running set for the first time
// in the step that Begin started. It is valid until the next call of Begin.
func (e *Engine) Started() []*Sequence { return e.begun }

// Running returns the running set in order of admission. It is the Engine's own:
// valid until the next call, and not to be changed.
func (e *Engine) Running() []*Sequence { return e.running }

// Waiting appends the waiting line to dst in the order in which it is looked at.
func (e *Engine) Waiting(dst []*Sequence) []*Sequence {
	for _, q := range []*queue{&e.skipped, &e.waiting} {
		for i := range q.n {
			dst = append(dst, q.at(i))
		}
	}
	return dst
}

// Idle reports whether nothing is waiting or running.
func (e *Engine) Idle() bool { return e.waiting.n+e.skipped.n+len(e.running) == 0 }

// End finishes the step that Begin started and returns what it produced. The
// slice is valid until the next call of Begin. Without a step it returns nothing.
func (e *Engine) End() []Output {
	if !e.inStep {
		return nil
	}
	e.inStep = false
	e.applyAborts()
	e.applyStep()
	return e.out
}

// applyAborts frees the aborted sequences before any output of the step is looked at.
func (e *Engine) applyAborts() {
	for i, s := range e.aborts {
		e.aborts[i] = nil
		if s.state == running {
			e.ghosts.Decode(s.known()) // the step that follows is already scheduled with it
		}
		e.drop(s)
		e.out = append(e.out, Output{Seq: s, Reason: Aborted})
	}
	e.aborts = e.aborts[:0]
}

// drop takes s out of wherever it is.
func (e *Engine) drop(s *Sequence) {
	if s.state == waiting {
		_ = e.waiting.remove(s) || e.skipped.remove(s)
	} else {
		i := slices.Index(e.running, s)
		e.running = slices.Delete(e.running, i, i+1)
	}
	e.finish(s, Aborted)
}

// applyStep gives each scheduled sequence its progress, and a token to each
// whose known tokens are all computed.
func (e *Engine) applyStep() {
	left := e.running[:0]
	for _, s := range e.running {
		n := s.step
		s.computed += n
		s.step = 0
		if n == 0 || s.computed < s.known() {
			left = append(left, s)
			continue
		}
		s.Generated++
		e.stats.Generated++
		o := Output{Seq: s, First: s.Generated == 1}
		if o.First {
			e.stats.Prompt += uint64(s.Prompt)
			e.stats.Cached += uint64(s.Cached)
		}
		if s.Generated < s.Output {
			e.out = append(e.out, o)
			left = append(left, s)
			continue
		}
		o.Reason = Length
		if s.Stop {
			o.Reason = Stopped
			e.ghosts.Decode(s.known())
		}
		e.finish(s, o.Reason)
		e.out = append(e.out, o)
	}
	clear(e.running[len(left):])
	e.running = left
}

func (e *Engine) finish(s *Sequence, why Reason) {
	e.free(s)
	s.state = idle
	e.lora.inFlight[s.adapter]--
	e.stats.finished(why)
}

func (e *Engine) free(s *Sequence) {
	e.kv.release(s.held, e.cfg.TailFirst)
	s.held = s.held[:0]
	s.computed, s.step, s.hashed = 0, 0, 0
}

func (e *Engine) blocksFor(tokens int) int {
	size := e.cfg.Profile.BlockSize
	return (tokens + size - 1) / size
}

// Reset drops everything, as a restarted process does: all sequences, the
// cache, the adapters and the counters. No Output is reported for what was lost.
func (e *Engine) Reset() {
	for _, s := range e.running {
		s.state = idle
	}
	for _, q := range []*queue{&e.waiting, &e.skipped} {
		for i := range q.n {
			q.at(i).state = idle
		}
	}
	fresh, _ := NewEngine(e.cfg) // the configuration was valid before
	*e = *fresh
}

// ResetPrefixCache drops all cached blocks. Like vLLM's, it does nothing and
// reports false while any request holds blocks.
func (e *Engine) ResetPrefixCache() bool { return e.kv.clear() }

// BlockSize returns the tokens per KV block.
func (e *Engine) BlockSize() int { return e.cfg.Profile.BlockSize }

// Capacity returns the number of usable KV blocks.
func (e *Engine) Capacity() int { return e.kv.usable() }

// Profile returns the profile in use, defaults filled in.
func (e *Engine) Profile() Profile { return e.cfg.Profile }

// Step returns what the step that runs computes, and zero outside one.
func (e *Engine) Step() Work {
	if !e.inStep {
		return Work{}
	}
	return e.stats.last
}

// LoadAdapter makes an adapter resident, as vLLM does when it is registered:
// the time it takes is added to the next step.
func (e *Engine) LoadAdapter(name string) {
	e.stall += e.lora.load(e.lora.id(name))
}
