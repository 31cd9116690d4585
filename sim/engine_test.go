package sim_test

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/expediterhq/expediter/sim"
)

// randomConfig is a small engine under pressure.
func randomConfig(rnd *rand.Rand) sim.EngineConfig {
	return sim.EngineConfig{
		Profile: sim.Profile{
			Name: "small", Slope: time.Millisecond, KVToken: 1000, Pair: 10, BlockSize: 1 + rnd.IntN(6),
			KVTokens: 60 + rnd.IntN(120), MaxBatchedTokens: 4 + rnd.IntN(40), MaxSeqs: 1 + rnd.IntN(9),
			AdapterCopy: time.Millisecond, AdapterDisk: 5 * time.Millisecond,
		},
		LongPrefill:   rnd.IntN(2) * (1 + rnd.IntN(8)),
		FirstChunk:    rnd.IntN(3) == 0,
		Priority:      rnd.IntN(3) == 0,
		NoPrefixCache: rnd.IntN(4) == 0,
		TailFirst:     rnd.IntN(2) == 0,
		Watermark:     float64(rnd.IntN(2)) * 0.1,
		MaxLoRAs:      1 + rnd.IntN(2),
	}
}

// randomSequence shares prefixes with others of the same group.
func randomSequence(rnd *rand.Rand, size, id int) *sim.Sequence {
	s := &sim.Sequence{Prompt: 1 + rnd.IntN(40), Output: 1 + rnd.IntN(20), Priority: rnd.IntN(3), Stop: rnd.IntN(2) == 0, Value: id}
	s.Adapter = []string{"", "", "t1", "t2", "t3"}[rnd.IntN(5)]
	s.NoCacheRead = rnd.IntN(8) == 0
	group, shared := uint64(rnd.IntN(3)), rnd.IntN(8)
	for i := range s.Prompt / size {
		h := group<<8 | uint64(i) | uint64(len(s.Adapter))<<40 | 1<<50
		if i >= shared {
			h = uint64(id+1)<<16 | uint64(i)
		}
		s.Blocks = append(s.Blocks, h)
	}
	return s
}

// account is what is known about one sequence from outside.
type account struct {
	tokens, ends int
	prefill      int  // prompt tokens computed before the first token
	preempted    bool // before the first token
}

// watched is an engine under random load with aborts, seen from outside.
type watched struct {
	t     *testing.T
	seed  uint64
	rnd   *rand.Rand
	e     *sim.Engine
	books map[*sim.Sequence]*account
	live  []*sim.Sequence
}

func (w *watched) submit() {
	s := randomSequence(w.rnd, w.e.BlockSize(), len(w.books))
	switch err := w.e.Submit(s); {
	case err == nil:
		w.books[s] = &account{}
		w.live = append(w.live, s)
	case !errors.Is(err, sim.ErrTooLong):
		w.t.Fatalf("seed %d: %v", w.seed, err)
	}
}

func (w *watched) abort() {
	if len(w.live) > 0 && w.rnd.IntN(6) == 0 {
		s := w.live[w.rnd.IntN(len(w.live))]
		if w.books[s].ends == 0 && w.e.Abort(s) {
			w.books[s].ends++
		}
	}
}

// begun notes what a step computes.
func (w *watched) begun() {
	sum := 0
	running := map[*sim.Sequence]bool{}
	for _, s := range w.e.Running() {
		sum += s.Scheduled()
		running[s] = true
		if b := w.books[s]; b.tokens == 0 {
			b.prefill += s.Scheduled()
		}
	}
	if sum > w.e.Profile().MaxBatchedTokens || len(w.e.Running()) > w.e.Profile().MaxSeqs {
		w.t.Fatalf("seed %d: step of %d tokens with %d running", w.seed, sum, len(w.e.Running()))
	}
	for _, s := range w.live {
		if b := w.books[s]; b.prefill > 0 && b.tokens == 0 && !running[s] {
			b.preempted = true
		}
	}
}

// ended notes what one sequence got from a step.
func (w *watched) ended(o sim.Output) {
	b := w.books[o.Seq]
	if o.Reason != sim.Aborted {
		b.tokens++
	}
	if o.First && !b.preempted && b.prefill+o.Seq.Cached != o.Seq.Prompt {
		w.t.Fatalf("seed %d: prompt of %d tokens, %d cached, %d computed", w.seed, o.Seq.Prompt, o.Seq.Cached, b.prefill)
	}
	if o.First != (b.tokens == 1 && o.Reason != sim.Aborted) {
		w.t.Fatalf("seed %d: First = %v at token %d", w.seed, o.First, b.tokens)
	}
	if o.Reason != "" {
		b.ends++
	}
	if (o.Reason == sim.Stopped || o.Reason == sim.Length) && b.tokens != o.Seq.Output {
		w.t.Fatalf("seed %d: %d tokens of %d", w.seed, b.tokens, o.Seq.Output)
	}
}

// Under random load with aborts nothing is lost: every sequence ends once, with
// all its tokens or by its abort, prompt tokens are cached or computed, the
// budget holds in every step, and in the end all blocks are free.
func TestEngineConserves(t *testing.T) {
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		cfg := randomConfig(rnd)
		stored, removed := 0, 0
		cfg.Stored = func(_ *sim.Sequence, from, to int) { stored += to - from }
		cfg.Removed = func(uint64) { removed++ }
		e, err := sim.NewEngine(cfg)
		if err != nil {
			t.Fatal(err)
		}
		w := &watched{t: t, seed: seed, rnd: rnd, e: e, books: map[*sim.Sequence]*account{}}
		for step := 0; step < 400 || !e.Idle(); step++ {
			if step > 20000 {
				t.Fatalf("seed %d: the engine does not finish: %+v", seed, e.Stats())
			}
			for step < 400 && rnd.IntN(3) == 0 {
				w.submit()
			}
			w.abort()
			if _, ok := e.Begin(); !ok {
				continue
			}
			w.begun()
			w.abort()
			for _, o := range e.End() {
				w.ended(o)
			}
		}
		checkBooks(t, seed, e.Stats(), w.books, stored-removed)
	}
}

func checkBooks(t *testing.T, seed uint64, st sim.Stats, books map[*sim.Sequence]*account, cached int) {
	t.Helper()
	tokens, ends := 0, 0
	for s, b := range books {
		if b.ends != 1 {
			t.Fatalf("seed %d: sequence %v ended %d times", seed, s.Value, b.ends)
		}
		tokens += b.tokens
		ends++
	}
	if st.Free != st.Usable || st.Running != 0 || st.Waiting != 0 {
		t.Errorf("seed %d: at rest %+v", seed, st)
	}
	if uint64(tokens) != st.Generated || uint64(ends) != st.Stop+st.Length+st.Abort {
		t.Errorf("seed %d: saw %d tokens and %d ends, Stats = %+v", seed, tokens, ends, st)
	}
	if cached < 0 || cached > st.Usable {
		t.Errorf("seed %d: %d blocks stored and not removed, capacity %d", seed, cached, st.Usable)
	}
	if st.Abort == 0 && st.Preemptions == 0 && st.Prefill != st.Prompt-st.Cached {
		t.Errorf("seed %d: %d prompt tokens, %d cached, %d computed", seed, st.Prompt, st.Cached, st.Prefill)
	}
}

// Without aborts every prompt token is either cached or computed, and what was
// computed again is known.
func TestPromptTokensAddUp(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		e, err := sim.NewEngine(randomConfig(rnd))
		if err != nil {
			t.Fatal(err)
		}
		prompt := 0
		for id := range 60 {
			s := randomSequence(rnd, e.BlockSize(), id)
			if e.Submit(s) == nil {
				prompt += s.Prompt
			}
		}
		for {
			if _, ok := e.Begin(); !ok {
				break
			}
			e.End()
		}
		st := e.Stats()
		if int(st.Prompt) != prompt || st.Preemptions == 0 && st.Prefill != st.Prompt-st.Cached || st.Prefill < st.Prompt-st.Cached {
			t.Errorf("seed %d: %d tokens in; %+v", seed, prompt, st)
		}
		if st.Recomputed > 0 && st.Preemptions == 0 {
			t.Errorf("seed %d: %d preemptions, %d tokens computed again", seed, st.Preemptions, st.Recomputed)
		}
	}
}

func busyEngine(tb testing.TB, n int) *sim.Engine {
	tb.Helper()
	e, err := sim.NewEngine(sim.EngineConfig{Profile: sim.Llama8BA100()})
	if err != nil {
		tb.Fatal(err)
	}
	for range n {
		if err := e.Submit(&sim.Sequence{Prompt: 100, Output: 3000}); err != nil {
			tb.Fatal(err)
		}
	}
	for range 20 {
		e.Begin()
		e.End()
	}
	return e
}

func TestStepDoesNotAllocate(t *testing.T) {
	e := busyEngine(t, 128)
	if n := testing.AllocsPerRun(500, func() { e.Begin(); e.End() }); n != 0 {
		t.Errorf("a step allocates %v times", n)
	}
}

func BenchmarkStep128(b *testing.B) {
	e := busyEngine(b, 128)
	n := 0
	for b.Loop() {
		if n++; n%2900 == 0 {
			b.StopTimer()
			e = busyEngine(b, 128)
			b.StartTimer()
		}
		e.Begin()
		e.End()
	}
}
