package registry

import "time"

// stillness says since when an engine has had work without making a step, as
// far as its reports tell. What it was sent and has not answered is the ledger's.
type stillness struct {
	steps    time.Time // since when the step counter has stood still; zero = no report yet
	reported time.Time // since when each report has shown work; zero = the last showed none
}

// note takes a report in which the step counter has moved or not.
func (s *stillness) note(state *State, moved bool) {
	if moved || s.steps.IsZero() {
		s.steps = state.At
	}
	switch {
	case !state.working():
		s.reported = time.Time{}
	case s.reported.IsZero():
		s.reported = state.At
	}
}

// frozen reports whether at now there has been work for so long, and for as long
// neither a step nor a token, which progress is the last of. While the engine
// shows no work, requests sent since then, zero if there are none, are work too,
// but have half as much time again: the server before the engine may still prepare them.
func (s *stillness) frozen(now, progress, sent time.Time, limit time.Duration) bool {
	since := s.reported
	if since.IsZero() {
		since, limit = sent, limit+limit/2
	}
	return !since.IsZero() && now.Sub(latest(since, latest(progress, s.steps))) >= limit
}

func (s *State) working() bool { return s.Running+s.Waiting > 0 }

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// countsSteps reports whether Steps says anything.
func (s *State) countsSteps() bool { return s.CountsSteps || s.Steps > 0 }

// producedSince reports whether tokens were computed after prev.
func (s *State) producedSince(prev *State) bool {
	return s.GeneratedTokens > prev.GeneratedTokens || s.PromptTokens > prev.PromptTokens
}

// watch looks at two reports of one engine for signs of life. It ejects the
// replica when its step counter stands still while there is work and no token
// came meanwhile either, and reports whether it did. An engine that has made no
// step since its start is not judged: the first may compile for minutes.
func (r *Replica) watch(before *report, s *State) (out bool) {
	var prev State
	if before != nil {
		prev = before.state
	}
	moved := before == nil || prev.Steps != s.Steps
	if before != nil && (moved || !s.countsSteps() && s.producedSince(&prev)) {
		r.Progress(s.At)
	}
	if moved && before != nil {
		r.learnFromCounters(&prev, s)
	}
	cfg := &r.config().Eject
	r.pool.mu.Lock()
	defer r.pool.mu.Unlock()
	h := &r.health
	still := &h.still
	if s.Steps == 0 || s.Asleep {
		*still = stillness{}
		r.stands.Store(false)
		return false
	}
	still.note(s, moved)
	h.alive = h.alive || moved && h.reason == ByFreeze
	progress := time.Unix(0, r.progress.Load())
	frozen := still.frozen(s.At, progress, r.ledger.since(), cfg.Frozen)
	waited := s.working() || r.ledger.prefilling.Load() > 0
	quiet := s.At.Sub(latest(progress, still.steps)) >= cfg.Frozen
	r.stands.Store(frozen || r.stands.Load() && quiet && waited)
	return frozen && !r.is(ejected) && r.ejectLocked(ByFreeze, cfg.Pause, s.At)
}
