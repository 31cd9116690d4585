package registry

import (
	"math"
	"time"
)

// report is one State with what was concluded from it when it arrived.
type report struct {
	state   State
	others  Load      // what the engine held beyond this process's ledger
	alone   bool      // others is zero
	staleAt time.Time // when it stops being used
}

// State returns what the replica last reported, or nil if it never did. It
// must not be modified.
func (r *Replica) State() *State {
	if rep := r.report.Load(); rep != nil {
		return &rep.state
	}
	return nil
}

// Fresh reports whether the replica has reported within the pool's
// StaleAfter before now.
func (r *Replica) Fresh(now time.Time) bool { return r.fresh(now) != nil }

func (r *Replica) fresh(now time.Time) *report {
	rep := r.report.Load()
	if rep == nil || now.After(rep.staleAt) {
		return nil
	}
	return rep
}

// Report takes what the engine said about itself, received at s.At, and
// compares it with the ledger at this moment. A counter that went backwards
// means that the engine restarted. A report older than the last is dropped.
func (r *Replica) Report(s State) { r.ReportSince(s, r.Load()) }

// ReportSince is Report for a caller that noted the ledger when it asked: of
// asked and the ledger now the larger is compared with the answer, so that
// requests that ended while the answer was under way are not taken for
// somebody else's.
func (r *Replica) ReportSince(s State, asked Load) {
	r.reporting.Lock()
	prev := r.report.Load()
	if prev != nil && s.At.Before(prev.state.At) {
		r.reporting.Unlock()
		return
	}
	restarted := prev != nil && wentBack(&prev.state, &s)
	if restarted {
		prev = nil
	}
	if s.KVTokens > 0 {
		r.setCapacity(int64(s.KVTokens))
	}
	now := r.Load()
	known := Load{
		Requests:   max(now.Requests, asked.Requests),
		Prefilling: max(now.Prefilling, asked.Prefilling),
		KV:         max(now.KV, asked.KV),
	}
	rep := &report{state: s, others: r.beyond(&s, known), staleAt: s.At.Add(r.config().StaleAfter)}
	rep.alone = rep.others == Load{}
	if restarted {
		r.restart()
	}
	back := r.sleep(s.Asleep)
	r.report.Store(rep)
	for _, name := range s.Adapters {
		_, _ = r.adapters.use(name, r.maxLoRA())
	}
	frozen := r.watch(prev, &s)
	r.reporting.Unlock()
	if frozen || back {
		r.pool.tell()
	}
	r.pool.changed()
}

// sleep notes whether the engine is asleep. Ejected members are readmitted if
// none is left that serves; it reports whether some may have been.
func (r *Replica) sleep(is bool) (back bool) {
	if !is {
		r.out.And(^asleep)
		return false
	}
	if r.out.Or(asleep)&asleep != 0 {
		return false
	}
	r.pool.mu.Lock()
	defer r.pool.mu.Unlock()
	r.pool.uncapLocked()
	return true
}

func wentBack(a, b *State) bool {
	return b.Steps < a.Steps || b.GeneratedTokens < a.GeneratedTokens ||
		b.PromptTokens < a.PromptTokens || b.Preemptions < a.Preemptions
}

// beyond sizes what s shows and known does not. The engine says how many
// requests and KV tokens it holds; their prompts and contexts are taken to be
// like those this process sends there.
func (r *Replica) beyond(s *State, known Load) Load {
	requests := max(0, s.Running+s.Waiting-known.Requests)
	waiting := min(requests, max(0, s.Waiting-known.Prefilling))
	used := int(s.KVUsage * float64(s.KVTokens))
	context := r.mix.context.value()
	if context == 0 && s.Running > 0 {
		context = float64(used) / float64(s.Running)
	}
	prefill := r.mix.prefill.value()
	if prefill == 0 {
		prefill = context / 2
	}
	return Load{
		Requests:   requests,
		Prefilling: waiting,
		Prefill:    int(math.Round(prefill * float64(waiting))),
		KV:         max(0, used-known.KV),
		Context:    int(math.Round(context * float64(requests))),
	}
}

// Others returns what the engine held at its last report beyond what this
// process had there: the load of other senders. Prompts waiting then are
// taken to be computed since at the replica's prefill rate. fresh is false,
// and the load zero, when there is no report younger than StaleAfter.
func (r *Replica) Others(now time.Time) (others Load, fresh bool) {
	rep := r.fresh(now)
	if rep == nil {
		return Load{}, false
	}
	return r.othersOf(rep, now), true
}

func (r *Replica) othersOf(rep *report, now time.Time) Load {
	others := rep.others
	others.Prefill = r.waiting(rep, now)
	return others
}

// waiting returns the prefill that others had waiting at the report and that
// should not be computed by now.
func (r *Replica) waiting(rep *report, now time.Time) int {
	if rep.others.Prefill == 0 {
		return 0
	}
	done := now.Sub(rep.state.At).Seconds() * r.PrefillRate()
	return max(0, rep.others.Prefill-max(0, int(done)))
}

// Estimate returns the load on the replica at now: this process's ledger, what
// it has set aside, and [Replica.Others]. It is never negative. Without a fresh report
// there are no others in it, and it then understates what is there.
func (r *Replica) Estimate(now time.Time) Load {
	others, _ := r.Others(now)
	load := r.ledger.load().Add(others)
	load.KV += int(r.ledger.aside.Load())
	return load
}

// View is what a router asks about one replica at one moment.
type View struct {
	Load        Load    // as [Replica.Estimate] returns it
	PrefillRate float64 // as [Replica.PrefillRate] returns it
	Full        int     // KV tokens; 0 = unknown
	Usable      int     // KV tokens below the headroom
	Fresh       bool    // there is a report younger than StaleAfter
	Reported    bool    // there is a report, of whatever age
}

// View fills v with the state of the replica at now and reports whether it is
// routable.
func (r *Replica) View(v *View, now time.Time) (routable bool) {
	g := &r.ledger
	v.Load.Requests = int(g.requests.Load())
	v.Load.Prefilling = int(g.prefilling.Load())
	v.Load.Prefill = int(g.prefill.Load())
	v.Load.KV = int(g.kv.Load() + g.aside.Load())
	v.Load.Context = int(g.context.Load())
	v.PrefillRate = r.PrefillRate()
	v.Full, v.Usable = int(r.capacity.Load()), int(r.usable.Load())
	rep := r.report.Load()
	v.Reported = rep != nil
	if v.Fresh = rep != nil && !now.After(rep.staleAt); v.Fresh && !rep.alone {
		v.Load.Requests += rep.others.Requests
		v.Load.Prefilling += rep.others.Prefilling
		v.Load.Prefill += r.waiting(rep, now)
		v.Load.KV += rep.others.KV
		v.Load.Context += rep.others.Context
	}
	return r.Routable(now)
}
