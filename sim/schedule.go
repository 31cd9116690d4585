package sim

import "time"

// Begin decides what the next step computes and returns how long it takes.
// It returns false, and starts nothing, if there is no work.
func (e *Engine) Begin() (time.Duration, bool) {
	if e.inStep {
		panic("sim: Begin called during a step")
	}
	clear(e.out)
	e.out = e.out[:0]
	clear(e.begun)
	e.begun = e.begun[:0]
	if e.Idle() {
		e.ghosts = Work{}
		return 0, false
	}
	e.lora.newStep()
	budget, preempted := e.scheduleRunning(e.cfg.Profile.MaxBatchedTokens)
	if !preempted {
		e.admit(budget)
	}
	w := e.ghosts
	e.ghosts = Work{}
	for _, s := range e.running {
		if s.step > 0 {
			e.account(&w, s)
		}
	}
	e.inStep = true
	e.stats.step(w)
	stall := e.stall + e.lora.loadStep()
	e.stall = 0
	return e.cfg.Profile.StepTime(w) + stall, true
}

// account adds what s computes in the step to w. A chunk of one token is read
// by the decode kernel.
func (e *Engine) account(w *Work, s *Sequence) {
	if s.step == 1 {
		w.Decode(s.computed + 1)
	} else {
		w.Chunk(s.step, s.computed)
	}
	if s.computed+1 == s.known() && s.Generated > 0 {
		return
	}
	e.stats.Prefill += uint64(s.step)
	if s.Preempted > 0 {
		e.stats.Recomputed += uint64(s.step)
	}
}

// scheduleRunning serves the running set in order of admission. It returns the
// budget left and whether a sequence was preempted.
func (e *Engine) scheduleRunning(budget int) (int, bool) {
	preempted := false
	for i := 0; i < len(e.running) && budget > 0; i++ {
		s := e.running[i]
		n := e.chunk(s, budget)
		need := e.blocksFor(s.computed+n) - len(s.held)
		for need > e.kv.free && s.state == running {
			preempted = true
			at := e.victim()
			if at <= i {
				budget += e.running[at].step
				i--
			}
			e.preempt(at)
		}
		if s.state != running {
			if e.cfg.Priority {
				continue
			}
			break // s was the last
		}
		e.take(s, n, need)
		e.lora.use(s.adapter)
		budget -= n
	}
	return budget, preempted
}

// chunk is the number of tokens of s that the step computes.
func (e *Engine) chunk(s *Sequence, budget int) int {
	n := s.known() - s.computed
	if e.cfg.LongPrefill > 0 {
		n = min(n, e.cfg.LongPrefill)
	}
	return min(n, budget)
}

// victim returns the place in the running set of the sequence to preempt: the
// last admitted, or with priorities the least urgent and newest.
func (e *Engine) victim() int {
	at := len(e.running) - 1
	if !e.cfg.Priority {
		return at
	}
	for i, s := range e.running {
		if before(e.running[at], s) {
			at = i
		}
	}
	return at
}

// before reports whether a is served before b under priority scheduling.
func before(a, b *Sequence) bool {
	if a.Priority != b.Priority {
		return a.Priority < b.Priority
	}
	return a.order < b.order
}

// preempt takes all blocks of a running sequence and puts it at the front of
// the waiting line. Its tokens are kept and will be computed again.
func (e *Engine) preempt(at int) {
	s := e.running[at]
	copy(e.running[at:], e.running[at+1:])
	e.running[len(e.running)-1] = nil
	e.running = e.running[:len(e.running)-1]
	e.free(s)
	s.Preempted++
	s.state = waiting
	e.stats.Preemptions++
	if e.cfg.Priority {
		e.enqueue(s)
		return
	}
	e.waiting.pushFront(s)
}

// enqueue puts s into the waiting line, at its end or at its place by priority.
func (e *Engine) enqueue(s *Sequence) {
	if !e.cfg.Priority {
		e.waiting.pushBack(s)
		return
	}
	at := e.waiting.n
	for at > 0 && before(s, e.waiting.at(at-1)) {
		at--
	}
	e.waiting.insertAt(at, s)
}

// admit moves sequences from the waiting line into the running set until the
// budget, the running set or the KV cache is full. The first that does not fit
// stops admission; one whose adapter has no slot is passed over.
func (e *Engine) admit(budget int) {
	for budget > 0 && len(e.running) < e.cfg.Profile.MaxSeqs {
		q := e.nextQueue()
		if q == nil {
			break
		}
		s := q.at(0)
		if !e.lora.fits(s.adapter) {
			e.passed.pushBack(q.popFront())
			continue
		}
		hits, idle := e.lookup(s)
		n, ok := e.fits(s, budget, hits, idle)
		if !ok {
			s.held = s.held[:0]
			break
		}
		q.popFront()
		e.start(s, hits, n)
		budget -= n
	}
	for e.passed.n > 0 {
		last := e.passed.removeAt(e.passed.n - 1)
		e.skipped.pushFront(last)
	}
}

// nextQueue returns the queue whose front is looked at next, or nil.
func (e *Engine) nextQueue() *queue {
	switch {
	case e.skipped.n == 0 && e.waiting.n == 0:
		return nil
	case e.skipped.n == 0:
		return &e.waiting
	case e.waiting.n == 0 || !e.cfg.Priority:
		return &e.skipped
	case before(e.waiting.at(0), e.skipped.at(0)):
		return &e.waiting
	}
	return &e.skipped
}

// lookup returns how many leading blocks of s are cached, and how many of
// those nobody holds. The last known token is always computed.
func (e *Engine) lookup(s *Sequence) (hits, idle int) {
	if e.cfg.NoPrefixCache || s.NoCacheRead {
		return 0, 0
	}
	most := (s.known() - 1) / e.cfg.Profile.BlockSize
	s.held = s.held[:0]
	for hits < most {
		id := e.kv.find(s.blockHash(hits))
		if id == 0 {
			break
		}
		if e.kv.blk[id].refs == 0 {
			idle++
		}
		s.held = append(s.held, id)
		hits++
	}
	return hits, idle
}

// fits reports whether s can be admitted and how many tokens its first chunk has.
func (e *Engine) fits(s *Sequence, budget, hits, idle int) (int, bool) {
	cached := hits * e.cfg.Profile.BlockSize
	n := s.known() - cached
	if e.cfg.LongPrefill > 0 {
		n = min(n, e.cfg.LongPrefill)
	}
	n = min(n, budget)
	tokens := s.known()
	if e.cfg.FirstChunk {
		tokens = cached + n
	}
	need := e.blocksFor(tokens) - hits + idle
	if len(e.running) > 0 {
		need += int(e.cfg.Watermark * float64(e.kv.usable()))
	}
	return n, need <= e.kv.free
}

// start puts s into the running set with hits cached blocks, which lookup left
// in s.held, and a first chunk of n tokens.
func (e *Engine) start(s *Sequence, hits, n int) {
	for _, id := range s.held {
		e.kv.hold(id)
	}
	s.computed = hits * e.cfg.Profile.BlockSize
	s.hashed = hits
	if !s.admitted {
		s.admitted = true
		s.Cached = s.computed
		e.begun = append(e.begun, s)
		if !s.NoCacheRead {
			e.stats.Queries += uint64(s.Prompt)
			e.stats.Hits += uint64(s.computed)
		}
	}
	s.state = running
	e.running = append(e.running, s)
	e.lora.use(s.adapter)
	e.take(s, n, e.blocksFor(s.computed+n)-hits)
}

// take gives s its blocks for n more tokens and makes the full ones findable.
func (e *Engine) take(s *Sequence, n, need int) {
	for range need {
		s.held = append(s.held, e.kv.take())
	}
	s.step = n
	full := (s.computed + n) / e.cfg.Profile.BlockSize
	if full <= s.hashed || e.cfg.NoPrefixCache {
		return
	}
	for i := s.hashed; i < full; i++ {
		e.kv.register(s.held[i], s.blockHash(i))
	}
	from := s.hashed
	s.hashed = full
	if e.cfg.Stored != nil {
		e.cfg.Stored(s, from, full)
	}
}

// blockHash names the content of block i of s.
func (s *Sequence) blockHash(i int) uint64 {
	if i < len(s.Blocks) {
		return s.Blocks[i]
	}
	return mix64(s.order<<24 + uint64(i) + 1)
}
