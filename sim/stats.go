package sim

// Stats is what an engine reports about itself. Counters count since the
// engine was made or reset.
type Stats struct {
	Running  int // sequences in the running set
	Waiting  int // sequences waiting, those passed over included
	Deferred int // of those, passed over because their adapter had no slot
	Free     int // KV blocks that no sequence holds
	Usable   int // KV blocks in all

	Steps       uint64
	StepTokens  uint64 // tokens computed in all steps
	Queries     uint64 // prompt tokens looked up in the prefix cache at first admission
	Hits        uint64 // of those, found
	Prompt      uint64 // prompt tokens of sequences that have their first token
	Cached      uint64 // of those, found in the prefix cache
	Generated   uint64 // tokens generated
	Prefill     uint64 // prefill tokens computed
	Recomputed  uint64 // of those, because of a preemption
	Preemptions uint64
	Loads       uint64 // adapter loads into a GPU slot
	Stop        uint64 // sequences finished by reason
	Length      uint64
	Abort       uint64

	last Work
}

// Stats returns the state as of this moment.
func (e *Engine) Stats() Stats {
	st := e.stats
	st.Running = len(e.running)
	st.Waiting = e.waiting.n + e.skipped.n
	st.Deferred = e.skipped.n
	st.Free, st.Usable = e.kv.free, e.kv.usable()
	st.Loads = e.lora.loads
	return st
}

// KVUsage is the share of usable blocks that sequences hold, as vLLM reports it.
func (st Stats) KVUsage() float64 {
	if st.Usable == 0 {
		return 0
	}
	return 1 - float64(st.Free)/float64(st.Usable)
}

// Adapters appends the names of adapters with unfinished sequences.
func (e *Engine) Adapters(dst []string) []string {
	for id, n := range e.lora.inFlight {
		if id > 0 && n > 0 {
			dst = append(dst, e.lora.names[id])
		}
	}
	return dst
}

// Resident appends the names of adapters in GPU slots, least recently used first.
func (e *Engine) Resident(dst []string) []string {
	for _, id := range e.lora.gpu {
		dst = append(dst, e.lora.names[id])
	}
	return dst
}

func (st *Stats) step(w Work) {
	st.Steps++
	st.StepTokens += uint64(w.Tokens)
	st.last = w
}

func (st *Stats) finished(r Reason) {
	switch r {
	case Stopped:
		st.Stop++
	case Length:
		st.Length++
	case Aborted:
		st.Abort++
	}
}
