package registry

import (
	"math"
	"time"
)

// Routable reports whether a request may be sent at now: the replica is a
// member, not draining, not asleep, and not ejected; or its pause is over and
// the one trial that may bring it back is not under way.
func (r *Replica) Routable(now time.Time) bool {
	out := r.out.Load()
	return out == 0 || out == ejected && r.mayTry(now)
}

func (r *Replica) mayTry(now time.Time) bool {
	return r.trial.Load() == 0 && !r.probing.Load() && r.pauseOver(now)
}

func (r *Replica) pauseOver(now time.Time) bool { return now.UnixNano() >= r.until.Load() }

// enter decides whether a lease may be granted at now. If it is to be a trial,
// trial is its number and it is under way; else trial is 0.
func (r *Replica) enter(now time.Time) (trial uint64, ok bool) {
	if r.out.Load() == 0 {
		return 0, true
	}
	if !r.Routable(now) {
		return 0, false
	}
	r.pool.mu.Lock()
	defer r.pool.mu.Unlock()
	if !r.Routable(now) || !r.is(ejected) { // readmitted just now, or not to be used
		return 0, r.out.Load() == 0
	}
	r.health.trials++
	r.trial.Store(r.health.trials)
	return r.health.trials, true
}

// endTrial lets another trial through, unless one is under way already.
func (r *Replica) endTrial(trial uint64) {
	if trial != 0 {
		r.trial.CompareAndSwap(trial, 0)
	}
}

// Drain takes the replica out of rotation for good, or until Resume. What is
// in flight there is not touched.
func (r *Replica) Drain() {
	r.out.Or(draining)
	r.pool.mu.Lock()
	r.pool.uncapLocked()
	r.pool.mu.Unlock()
	r.pool.tell()
	r.pool.changed()
}

// Resume ends Drain.
func (r *Replica) Resume() {
	r.out.And(^draining)
	r.pool.changed()
}

// Draining reports whether Drain was called.
func (r *Replica) Draining() bool { return r.is(draining) }

// Ejected reports whether the replica is out of rotation for its health, and
// why. It stays so through its pause and until a trial succeeds.
func (r *Replica) Ejected() (Reason, bool) {
	if !r.is(ejected) {
		return "", false
	}
	r.pool.mu.Lock()
	defer r.pool.mu.Unlock()
	return r.health.reason, r.is(ejected)
}

// GivenUp reports whether the replica is ejected, for whatever reason, or no
// member any more, and at the last that was seen of it its engine stood still with
// work, or its probes failed: what was sent there has no answer to wait for.
func (r *Replica) GivenUp() bool {
	return r.is(ejected|removed) && (r.stands.Load() || r.probing.Load())
}

// Failures returns how many requests in a row failed on the replica, and when
// the last one did.
func (r *Replica) Failures() (n int, last time.Time) {
	if n = int(r.failures.Load()); n == 0 {
		return 0, time.Time{}
	}
	return n, time.Unix(0, r.failed.Load())
}

// Progress says that the replica produced a token at now: a probe that fails
// meanwhile finds it busy, not dead. It costs one atomic store.
func (r *Replica) Progress(now time.Time) {
	if t := now.UnixNano(); t > r.progress.Load() {
		r.progress.Store(t)
	}
}

// LastProgress returns when the replica last produced a token, as told by
// Progress and Succeeded or seen in its reports; the zero time if it never did.
func (r *Replica) LastProgress() time.Time {
	t := r.progress.Load()
	if t == 0 {
		return time.Time{}
	}
	return time.Unix(0, t)
}

// Succeeded says that the replica answered something: failures are counted
// anew. It does not readmit an ejected replica; [Lease.Succeeded], which is for
// requests that have a lease, does.
func (r *Replica) Succeeded(now time.Time) {
	r.Progress(now)
	if r.failures.Load() != 0 {
		r.failures.Store(0)
	}
}

// readmit ends an ejection whose trial of that number has succeeded, if no other
// outcome has ended that trial.
func (r *Replica) readmit(trial uint64, now time.Time) {
	r.pool.mu.Lock()
	back := r.out.Load()&(ejected|removed) == ejected && r.trial.Load() == trial
	if back {
		r.admitLocked(now)
	}
	r.pool.mu.Unlock()
	if back {
		r.pool.tell()
		r.pool.changed()
	}
}

// Failed says that a request failed through the replica's fault: it could
// not be reached, broke off, stayed silent or answered with a server error. A
// refusal that the request itself caused (4xx) and a client that left are no
// failures and must not be told.
func (r *Replica) Failed(now time.Time) {
	r.failed.Store(now.UnixNano())
	failures := r.failures.Add(1)
	if r.countFailure(int(failures), now) {
		r.pool.tell()
		r.pool.changed() // another may be back in its place
	}
}

// countFailure reports whether the failure, the last of so many in a row,
// ejected r.
func (r *Replica) countFailure(failures int, now time.Time) (out bool) {
	cfg := &r.config().Eject
	r.pool.mu.Lock()
	defer r.pool.mu.Unlock()
	if r.is(ejected) {
		if r.pauseOver(now) {
			r.pauseLocked(r.health.reason, cfg.Pause, now)
		}
		return false
	}
	return failures >= cfg.Failures && r.ejectLocked(ByFailures, cfg.Pause, now)
}

// SetProbe takes the outcome of an active health probe at now. Several
// failures in a row eject, unless a token or an engine step was seen within
// the last Frozen time: a saturated engine answers probes late. Within the Dwell
// time after it was ejected or readmitted it takes twice as many. A replica so
// ejected stays out for at least the Dwell time, and comes back by a trial once a
// probe succeeds, or before if another has to go in its place.
func (r *Replica) SetProbe(ok bool, now time.Time) {
	if r.countProbe(ok, now) {
		r.pool.tell()
		r.pool.changed()
	}
}

// countProbe reports whether the probe ejected r.
func (r *Replica) countProbe(ok bool, now time.Time) (out bool) {
	cfg := &r.config().Eject
	r.pool.mu.Lock()
	defer r.pool.mu.Unlock()
	h := &r.health
	if ok {
		h.alive = h.alive || h.misses > 0 && h.reason == ByProbe
		h.misses = 0
		r.probing.Store(false)
		return false
	}
	h.misses++
	h.alive = h.alive && h.reason != ByProbe
	down := h.misses >= cfg.Misses && now.UnixNano()-r.progress.Load() >= int64(cfg.Frozen)
	if r.is(ejected) {
		r.probing.Store(down || r.probing.Load()) // until one succeeds
		return false
	}
	r.probing.Store(down) // also where it cannot be ejected, or is no member: see GivenUp
	if !down || h.misses < 2*cfg.Misses && !h.since.IsZero() && now.Sub(h.since) < cfg.Dwell {
		return false
	}
	return r.ejectLocked(ByProbe, max(cfg.Pause, cfg.Dwell), now)
}

// Restarted says that the engine is known to have started anew under the
// same address. Its generation grows, its last report, its adapters and its
// failures are forgotten, and if it was ejected it may be tried at once: a trial
// of its last life that is still out counts no more.
func (r *Replica) Restarted() {
	r.reporting.Lock()
	r.restart()
	r.report.Store(nil)
	r.reporting.Unlock()
	r.pool.changed()
}

func (r *Replica) restart() {
	r.generation.Store(r.pool.generations.Add(1))
	r.pool.epoch.Add(1)
	r.adapters.clear()
	r.failures.Store(0)
	r.out.And(^asleep)
	r.pool.mu.Lock()
	r.until.Store(math.MinInt64)
	r.trial.Store(0)
	r.health.misses = 0
	r.health.alive = r.health.reason == ByProbe
	r.health.still = stillness{}
	r.pool.mu.Unlock()
	r.probing.Store(false)
	r.stands.Store(false)
}

// ejectLocked takes r out of rotation if the pool can spare it, or another that
// has shown life takes its place. It reports whether it did.
func (r *Replica) ejectLocked(why Reason, pause time.Duration, now time.Time) bool {
	if r.is(removed) || !r.pool.spareLocked(r) && !r.pool.relieveLocked(now) {
		return false
	}
	cfg := &r.config().Eject
	if !r.health.since.IsZero() && now.Sub(r.health.since) >= cfg.MaxPause {
		r.health.ejects = 0
	}
	r.out.Or(ejected)
	r.health.since = now
	r.pauseLocked(why, pause, now)
	r.pool.noteLocked(r, true)
	return true
}

// pauseLocked starts a pause, twice as long as the last one of a row.
func (r *Replica) pauseLocked(why Reason, pause time.Duration, now time.Time) {
	cfg := &r.config().Eject
	for range r.health.ejects {
		if pause = min(2*pause, cfg.MaxPause); pause == cfg.MaxPause {
			break
		}
	}
	r.health.ejects++
	r.health.reason = why
	r.health.alive = false
	r.until.Store(now.Add(pause).UnixNano())
}

// admitLocked puts r back into rotation. The length of the next pause is
// remembered until it has been healthy for MaxPause.
func (r *Replica) admitLocked(now time.Time) {
	r.out.And(^ejected)
	r.pool.noteLocked(r, false)
	r.failures.Store(0)
	r.trial.Store(0)
	r.probing.Store(false)
	r.stands.Store(false)
	r.health.since = now
	r.health.misses = 0
	r.health.still = stillness{}
}

// spareLocked reports whether r may be ejected: no more than half of the
// members are then out, and some other member can serve.
func (p *Pool) spareLocked(r *Replica) bool {
	out, serving := 0, 0
	members := p.Replicas()
	for _, o := range members {
		switch {
		case o.is(ejected):
			out++
		case o != r && !o.is(draining|asleep):
			serving++
		}
	}
	return serving > 0 && 2*(out+1) <= len(members)
}

// relieveLocked readmits an ejected member that has shown life, before its pause is
// over: it must not use up what may be ejected. It reports whether there was one.
func (p *Pool) relieveLocked(now time.Time) bool {
	for _, o := range p.Replicas() {
		if o.is(ejected) && !o.is(draining|asleep) && o.aliveLocked() {
			o.admitLocked(now)
			return true
		}
	}
	return false
}

// aliveLocked reports whether what r was ejected for is over: a probe was answered,
// where one had not been, or the engine made a step, and no trial has failed since.
// Requests that failed are answered by a trial only.
func (r *Replica) aliveLocked() bool {
	return r.health.alive && !r.probing.Load() && !r.stands.Load()
}

// uncapLocked readmits ejected members while they are more than half of the
// pool or no other can serve, the one whose pause ends first before others:
// membership shrank under them, or those that serve were drained or fell asleep.
func (p *Pool) uncapLocked() {
	for {
		out, serving := 0, 0
		var first *Replica
		members := p.Replicas()
		for _, o := range members {
			switch {
			case o.is(ejected):
				out++
				if !o.is(draining) && (first == nil || o.until.Load() < first.until.Load()) {
					first = o
				}
			case !o.is(draining | asleep):
				serving++
			}
		}
		if first == nil || 2*out <= len(members) && serving > 0 {
			return
		}
		first.admitLocked(first.health.since)
	}
}
