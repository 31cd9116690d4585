package redisquota_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/expediterhq/expediter/quota"
	"github.com/expediterhq/expediter/quota/redisquota"
)

// paced calls Reserve, and Settle for what was granted, at a rate for some time of
// a bubble.
type paced struct {
	t *testing.T
	s *redisquota.Store

	mu      sync.Mutex
	calls   int
	away    int // answered as unavailable
	slow    int // took more than 10 ms
	longest time.Duration
}

func (p *paced) run(rate int, span time.Duration) {
	var wg sync.WaitGroup
	every := time.Second / time.Duration(rate)
	for range span / every {
		wg.Go(p.call)
		time.Sleep(every)
	}
	wg.Wait()
}

func (p *paced) call() {
	r := reservation("t", unique())
	start := time.Now()
	err := p.s.Reserve(context.Background(), r)
	took := time.Since(start)
	if err == nil {
		start = time.Now()
		if err := p.s.Settle(context.Background(), r, 1); err != nil {
			p.t.Errorf("Settle = %v", err)
		}
		took = max(took, time.Since(start))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls++
	p.longest = max(p.longest, took)
	if took > 10*time.Millisecond {
		p.slow++
	}
	if errors.Is(err, quota.ErrUnavailable) {
		p.away++
	} else if err != nil {
		p.t.Errorf("Reserve = %v", err)
	}
}

// mark returns what happened since the last mark.
func (p *paced) mark() (calls, away int, longest time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	calls, away, longest = p.calls, p.away, p.longest
	p.calls, p.away, p.slow, p.longest = 0, 0, 0, 0
	return calls, away, longest
}

// policies are all of them.
var policies = map[string]redisquota.Config{
	"closed": {Policy: redisquota.Closed}, "open": {Policy: redisquota.Open},
	"local share": {Policy: redisquota.LocalShare, Share: 0.5},
}

// aways are ways for it to be away.
var aways = map[string]func(*fakeRedis) func(){
	"stopped": (*fakeRedis).stop, "killed": (*fakeRedis).kill, "vanished": (*fakeRedis).vanish,
}

// With Redis standing still or gone, under every policy and at every rate, from
// the first moment to the last: no Reserve and no Settle takes longer than 10 ms
// (under Closed only those that were waiting when the silence was noticed do),
// and a few probes after its return, however long it was away, Redis is asked
// again.
func TestH8NoCallWaitsForARedisThatIsAway(t *testing.T) {
	for name, cfg := range policies {
		for how, begin := range aways {
			for _, load := range []struct {
				rate int
				span time.Duration
			}{{10, 30 * time.Second}, {500, 5 * time.Second}, {5000, 1500 * time.Millisecond}} {
				t.Run(fmt.Sprint(name, "/", how, "/", load.rate), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { testAway(t, cfg, begin, load.rate, load.span) })
				})
			}
		}
	}
}

func testAway(t *testing.T, cfg redisquota.Config, begin func(*fakeRedis) func(), rate int, span time.Duration) {
	f := &fakeRedis{delay: 300 * time.Microsecond}
	s, end := openFake(t, f, cfg)
	p := &paced{t: t, s: s}
	p.run(rate, 500*time.Millisecond)
	if _, away, longest := p.mark(); away > 0 || longest > 5*time.Millisecond {
		t.Fatalf("before: %d unavailable, the slowest call took %v", away, longest)
	}
	over := begin(f)
	p.run(rate, span)
	p.mu.Lock()
	slow := p.slow
	p.mu.Unlock()
	calls, away, longest := p.mark()
	most, first := 10*time.Millisecond, 0
	if cfg.Policy == redisquota.Closed { // those that come in the first 30 ms may wait for as long
		most, first = 30*time.Millisecond, rate*30/1000+1
	}
	if longest > most || slow > first {
		t.Errorf("the slowest of %d calls took %v, want at most %v; %d took more than 10 ms, want at most %d", calls, longest, most, slow, first)
	}
	// Under Closed, all are refused but those that were under way.
	if want := cfg.Policy == redisquota.Closed; (away > 0) != want || want && calls-away > 1 {
		t.Errorf("%d of %d unavailable", away, calls)
	}
	if !s.Stats().Down {
		t.Error("the breaker is not open")
	}
	over()
	back := time.Now()
	for s.Stats().Down && time.Since(back) < time.Minute {
		time.Sleep(10 * time.Millisecond)
	}
	t.Logf("asked again after %v", time.Since(back))
	if time.Since(back) > 500*time.Millisecond { // one probe that was under way, and the next
		t.Errorf("the breaker was open for %v after Redis came back", time.Since(back))
	}
	p.run(rate, 500*time.Millisecond)
	if calls, away, longest := p.mark(); away > 0 || longest > 5*time.Millisecond {
		t.Errorf("after: %d of %d unavailable, the slowest call took %v", away, calls, longest)
	}
	end()
}

// A Redis that is far is not silent, and one that moves away or has become slower
// is taken for silent a few times only.
func TestASlowRedisIsNotSilent(t *testing.T) {
	for _, delay := range []time.Duration{time.Millisecond, 5 * time.Millisecond, 20 * time.Millisecond, 40 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			f := &fakeRedis{delay: delay}
			s, end := openFake(t, f, redisquota.Config{Policy: redisquota.Closed, Timeout: max(5*delay, 100*time.Millisecond)})
			p := &paced{t: t, s: s}
			p.run(1000, time.Second)
			if calls, away, _ := p.mark(); away > 0 {
				t.Errorf("%v away from the start: %d of %d unavailable", delay, away, calls)
			}
			f.slow(300 * time.Microsecond)
			p.run(1000, time.Second)
			p.mark()
			f.slow(delay)
			p.run(1000, 10*delay)
			_, away, _ := p.mark()
			p.run(1000, 2*time.Second)
			if calls, late, _ := p.mark(); late > 0 {
				t.Errorf("%v away, for a while: %d of %d unavailable", delay, late, calls)
			}
			t.Logf("%v: %d calls were refused until that was learned", delay, away)
			end()
		})
	}
}

// A Redis that stands still for a moment, as for a fork: the policy answers in
// between and not a call longer, and the breaker stays closed.
func TestAPauseEndsWithTheFirstAnswer(t *testing.T) {
	for _, pause := range []time.Duration{4 * time.Millisecond, 20 * time.Millisecond, 40 * time.Millisecond, 90 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			f := &fakeRedis{delay: 300 * time.Microsecond}
			s, end := openFake(t, f, redisquota.Config{Policy: redisquota.Closed})
			p := &paced{t: t, s: s}
			p.run(1000, 500*time.Millisecond)
			p.mark()
			resume := f.stop()
			time.AfterFunc(pause, resume)
			p.run(1000, pause)
			_, away, longest := p.mark()
			if most := int(pause / time.Millisecond); away > most || pause < 25*time.Millisecond && away > 0 || longest > 32*time.Millisecond {
				t.Errorf("a pause of %v: %d unavailable, the slowest call took %v", pause, away, longest)
			}
			time.Sleep(time.Millisecond)
			p.run(1000, time.Second)
			if calls, away, _ := p.mark(); away > 0 || s.Stats().Down {
				t.Errorf("after a pause of %v: %d of %d unavailable, %+v", pause, away, calls, s.Stats())
			}
			end()
		})
	}
}
