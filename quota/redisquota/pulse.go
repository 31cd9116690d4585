package redisquota

import (
	"sync"
	"sync/atomic"
	"time"
)

// beatEvery is how often the watch looks at a lane that waits for Redis.
const beatEvery = 2 * time.Millisecond

// pulse tells when Redis has been silent on a lane for longer than it usually
// takes. An answer to anything is a sign of life, so that one connection that is
// stuck beside others that are not is no silence. Silence is counted in beats of
// the watch and not by the clock: a process that was stopped itself missed them,
// and does not take its own pause for one of Redis.
type pulse struct {
	patience time.Duration // beyond what is usual
	most     time.Duration // before the first answer, and at any time

	mu        sync.Mutex
	out       int // batches under way
	beats     int // since the last answer, while any was
	mean, dev time.Duration
	known     bool      // there was an answer
	healed    time.Time // when the breaker closed last

	// quiet is closed while Redis is silent, and replaced when it speaks.
	quiet atomic.Pointer[chan struct{}]
}

func newPulse(patience, most time.Duration) *pulse {
	p := &pulse{patience: patience, most: most}
	p.speakLocked(true)
	return p
}

// begin notes that a batch is under way.
func (p *pulse) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.out++; p.out == 1 {
		p.beats = 0
	}
}

// end notes that it no longer is. Without any there is nothing to be silent about:
// it is the breaker, or the next batch, that tells.
func (p *pulse) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.out--; p.out == 0 {
		p.speakLocked(false)
	}
}

// answered notes a sign of life after some time. One that comes later than it was
// waited for counts as that, so that a pause is not learned as usual while a
// Redis that has moved further away is, within a few answers.
func (p *pulse) answered(after time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	after = min(after, p.limitLocked())
	if !p.known {
		p.known, p.mean, p.dev = true, after, after/2
	} else {
		// As TCP estimates its round trip (RFC 6298, section 2).
		p.dev += ((after - p.mean).Abs() - p.dev) / 4
		p.mean += (after - p.mean) / 8
	}
	p.beats = 0
	p.speakLocked(false)
}

// limitLocked is how long a silence is still usual.
func (p *pulse) limitLocked() time.Duration {
	if !p.known {
		return p.most
	}
	return min(p.patience+p.mean+4*p.dev, p.most)
}

// attempt is how long a first attempt may take: half of the time there is, so that
// there is as much for another, or more with a Redis so far away that a connection
// would not be made in it, which takes four round trips with TLS.
func (p *pulse) attempt() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.known {
		return p.most
	}
	return min(max(p.most/2, p.patience+5*p.mean), p.most)
}

// beat is called by the watch, every beatEvery.
func (p *pulse) beat() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.out == 0 {
		return
	}
	// The first beat comes less than an interval after the silence began.
	if p.beats++; time.Duration(p.beats-1)*beatEvery >= p.limitLocked() && !p.silent() {
		close(*p.quiet.Load())
	}
}

// heal forgets a silence, because Redis takes writes again.
func (p *pulse) heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.beats, p.healed = 0, time.Now()
	p.speakLocked(false)
}

// outdated reports whether what was begun then says nothing about Redis any more.
func (p *pulse) outdated(begun time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return begun.Before(p.healed)
}

func (p *pulse) speakLocked(first bool) {
	if first || p.silent() {
		c := make(chan struct{})
		p.quiet.Store(&c)
	}
}

// silence returns a channel that is closed while, or as soon as, Redis is silent.
func (p *pulse) silence() <-chan struct{} { return *p.quiet.Load() }

func (p *pulse) silent() bool { return over(p.silence()) }

// over reports whether a channel is closed.
func over(quiet <-chan struct{}) bool {
	select {
	case <-quiet:
		return true
	default:
		return false
	}
}

// watch beats for all lanes while any batch is under way, until the store closes.
func (s *Store) watch() {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		tick.Stop()
		select {
		case <-s.awake:
		case <-s.ctx.Done():
			return
		}
		tick.Reset(beatEvery)
		for idle := 0; idle < 50; idle++ {
			select {
			case <-tick.C:
			case <-s.ctx.Done():
				return
			}
			if s.busy.Load() > 0 {
				idle = 0
			}
			for _, l := range s.lanes {
				l.pulse.beat()
			}
		}
	}
}

// begin and end enclose a batch.
func (l *lane) begin() {
	l.pulse.begin()
	if l.s.busy.Add(1) == 1 {
		select {
		case l.s.awake <- struct{}{}:
		default:
		}
	}
}

func (l *lane) end() {
	l.s.busy.Add(-1)
	l.pulse.end()
}
