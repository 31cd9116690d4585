package registry

import "time"

// stillness says since when an engine has had work without making a step, as
// far as its reports and the ledger tell.
type stillness struct {
	steps time.Time // since when the step counter has stood still; zero = no report yet
	busy  time.Time // since when there has been work without a gap; zero = there is none
}

// since returns the time from which on there was work, no step and no token.
// still is false if there is no such time.
func (s *stillness) since(progress time.Time) (t time.Time, still bool) {
	if s.steps.IsZero() || s.busy.IsZero() {
		return time.Time{}, false
	}
	return latest(progress, latest(s.steps, s.busy)), true
}

// note takes a report received at s.At after one received at prev, which is
// zero for the first. own is since when the ledger has not been empty, zero if
// it is empty. A frozen engine may not even have counted the requests it got,
// so either is work.
func (s *stillness) note(state *State, prev, own time.Time, moved bool) {
	if moved || s.steps.IsZero() {
		s.steps = state.At
	}
	reported := state.Running+state.Waiting > 0
	switch {
	case !reported && own.IsZero():
		s.busy = time.Time{}
	case s.busy.IsZero() && (own.IsZero() || own.After(state.At)):
		s.busy = state.At
	case s.busy.IsZero(), !reported && own.After(prev):
		s.busy = own
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// watch looks at two reports of one engine for a step counter that stands
// still while there is work, and ejects the replica when no token came
// meanwhile either. It reports whether it did.
func (r *Replica) watch(before *report, s *State) (out bool) {
	if s.Steps == 0 && !s.CountsSteps {
		return false
	}
	var prev State
	if before != nil {
		prev = before.state
	}
	moved := before == nil || prev.Steps != s.Steps
	if moved && before != nil {
		r.stands.Store(false)
		r.Progress(s.At)
		r.learnFromCounters(&prev, s)
	}
	cfg := &r.config().Eject
	r.pool.mu.Lock()
	defer r.pool.mu.Unlock()
	still := &r.health.still
	still.note(s, prev.At, r.ledger.since(), moved)
	since, ok := still.since(time.Unix(0, r.progress.Load()))
	if !ok || s.At.Sub(since) < cfg.Frozen || r.is(asleep) {
		return false
	}
	out = !r.is(ejected) && r.ejectLocked(ByFreeze, cfg.Pause, s.At)
	r.stands.Store(true)
	return out
}
