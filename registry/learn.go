package registry

import (
	"math"
	"sync/atomic"
	"time"
)

// Bounds of what is believed of a replica's speed.
const (
	minPrefillRate = 50        // tokens/s
	maxPrefillRate = 1_000_000 // tokens/s
	minStepTime    = time.Millisecond
	maxStepTime    = 5 * time.Second

	learnSwing = 4.0 // a sample further than this factor from the estimate is cut to it
	stepShare  = 0.1 // weight of one sample
)

// average is an exponentially weighted mean that starts at its first sample.
// Concurrent updates may lose one another; none tears.
type average struct{ bits atomic.Uint64 }

func (a *average) value() float64 { return math.Float64frombits(a.bits.Load()) }

func (a *average) set(v float64) { a.bits.Store(math.Float64bits(v)) }

// speed is what was learned about how fast a replica works.
type speed struct {
	prefill average // tokens/s; 0 = nothing learned
	step    average // seconds per output token of one sequence; 0 = nothing learned
}

func (s *speed) learnStep(perToken time.Duration, assumed time.Duration) {
	if perToken < minStepTime || perToken > maxStepTime {
		return
	}
	was := s.step.value()
	if was == 0 {
		was = assumed.Seconds()
	}
	s.step.set(blend(was, perToken.Seconds(), stepShare))
}

// blend moves was towards sample by share on a logarithmic scale, on which
// twice as fast and half as fast are equally far. One wild sample moves it by
// at most learnSwing to the power of share.
func blend(was, sample, share float64) float64 {
	return was * math.Pow(clamp(sample/was, 1/learnSwing, learnSwing), share)
}

func clamp(v, lo, hi float64) float64 { return math.Min(math.Max(v, lo), hi) }

// mix is the mean request that this process sends, per sequence. The
// requests of others are sized by it.
type mix struct{ prefill, context average }

func (m *mix) note(prefill, context, sequences int64) {
	const share = 0.05
	p, c := float64(prefill)/float64(sequences), float64(context)/float64(sequences)
	if m.context.value() == 0 {
		m.prefill.set(p)
		m.context.set(c)
		return
	}
	m.prefill.set(m.prefill.value() + share*(p-m.prefill.value()))
	m.context.set(m.context.value() + share*(c-m.context.value()))
}

// PrefillRate returns how many uncached prompt tokens the replica computes
// per second: [PoolConfig.PrefillRate] times its weight at first, then what
// the pool's replicas turn out to do, then, as evidence comes in, what this
// one does. It is learned from the time between dispatch and first token.
func (r *Replica) PrefillRate() float64 {
	if v := r.speed.prefill.value(); v > 0 {
		return v
	}
	if v := r.pool.speed.prefill.value(); v > 0 {
		return v * r.Weight()
	}
	return r.config().PrefillRate * r.Weight()
}

// StepTime returns the time the replica takes per output token of one
// sequence: [PoolConfig.StepTime] at first, then learned from ObserveStep and
// from the token counters in reports.
func (r *Replica) StepTime() time.Duration {
	if v := r.speed.step.value(); v > 0 {
		return time.Duration(v * float64(time.Second))
	}
	return r.config().StepTime
}

// ObserveStep teaches the replica's step time with the mean time per output
// token of one finished request.
func (r *Replica) ObserveStep(perToken time.Duration) {
	r.speed.learnStep(perToken, r.config().StepTime)
}

// learnFromCounters takes the time per output token from two reports between
// which the engine was busy: running sequences times the time between them,
// over the tokens they produced.
func (r *Replica) learnFromCounters(prev, s *State) {
	tokens := s.GeneratedTokens - prev.GeneratedTokens
	if prev.Running == 0 || s.Running == 0 || tokens <= 0 {
		return
	}
	running := float64(prev.Running+s.Running) / 2
	perToken := s.At.Sub(prev.At).Seconds() * running / tokens
	r.speed.learnStep(time.Duration(perToken*float64(time.Second)), r.config().StepTime)
}
