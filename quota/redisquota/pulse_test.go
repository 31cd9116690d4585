package redisquota

import (
	"testing"
	"time"
)

// beatsUntilSilent counts the beats until p is silent, up to most.
func beatsUntilSilent(p *pulse, most int) int {
	for n := 1; n <= most; n++ {
		if p.beat(); p.silent() {
			return n
		}
	}
	return 0
}

func TestPulse(t *testing.T) {
	const patience, most = 6 * time.Millisecond, 100 * time.Millisecond
	const ms = time.Millisecond
	for _, tt := range []struct {
		name    string
		answers []time.Duration
		want    int // beats until it is silent; the first is less than an interval after the beginning
	}{
		{"never heard of", nil, 51},
		{"near", []time.Duration{ms / 2, ms / 2, ms / 2, ms / 2, ms / 2, ms / 2, ms / 2, ms / 2}, 5},
		{"first answer", []time.Duration{2 * ms}, 7},
		{"far", []time.Duration{20 * ms, 20 * ms, 20 * ms, 20 * ms, 20 * ms, 20 * ms, 20 * ms, 20 * ms}, 17},
		{"farther than its time", []time.Duration{90 * ms, 90 * ms}, 51},
	} {
		p := newPulse(patience, most)
		for _, d := range tt.answers {
			p.answered(d)
		}
		if got := beatsUntilSilent(p, 1000); got != 0 {
			t.Errorf("%s: silent after %d beats although nothing was asked", tt.name, got)
		}
		p.begin()
		if got := beatsUntilSilent(p, 1000); got != tt.want {
			t.Errorf("%s: silent after %d beats, want %d", tt.name, got, tt.want)
		}
	}
}

// An answer ends a silence and begins the next one anew, also while other batches
// still wait; the end of the last batch ends it too.
func TestPulseEndsSilence(t *testing.T) {
	p := newPulse(6*time.Millisecond, 100*time.Millisecond)
	p.answered(0)
	p.begin()
	p.begin()
	for name, end := range map[string]func(){"an answer": func() { p.answered(0) }, "a probe": p.heal} {
		if beatsUntilSilent(p, 4) == 0 {
			t.Fatalf("before %s: not silent after 6 ms", name)
		}
		waits := p.silence()
		if end(); p.silent() {
			t.Errorf("silent after %s", name)
		}
		select {
		case <-waits:
		default:
			t.Errorf("before %s: who waited was not told", name)
		}
		if beatsUntilSilent(p, 3) != 0 {
			t.Errorf("after %s: silent again before 6 ms", name)
		}
		p.answered(0)
	}
	if beatsUntilSilent(p, 4) == 0 {
		t.Fatal("not silent after 6 ms")
	}
	p.end()
	if !p.silent() {
		t.Error("one batch of two has ended, and that ended the silence")
	}
	if p.end(); p.silent() {
		t.Error("silent with nothing under way")
	}
}

// A pause is not learned as usual: after it, silence is noticed nearly as soon as
// before, and a few answers later just as soon.
func TestPulseDoesNotLearnAPause(t *testing.T) {
	p := newPulse(6*time.Millisecond, 100*time.Millisecond)
	for range 100 {
		p.answered(time.Millisecond / 2)
	}
	p.answered(90 * time.Millisecond)
	if d := p.limitLocked(); d > 18*time.Millisecond {
		t.Errorf("after a pause of 90 ms a silence of %v is usual", d)
	}
	for range 20 {
		p.answered(time.Millisecond / 2)
	}
	if d := p.limitLocked(); d > 8*time.Millisecond {
		t.Errorf("20 answers after a pause of 90 ms a silence of %v is usual", d)
	}
}

// What was begun before the breaker closed does not open it again.
func TestPulseOutdated(t *testing.T) {
	p := newPulse(time.Millisecond, time.Second)
	begun := time.Now()
	if p.outdated(begun) {
		t.Error("outdated although the breaker never was open")
	}
	p.heal()
	if !p.outdated(begun) || p.outdated(time.Now()) {
		t.Errorf("outdated: before %v, after %v; want true, false", p.outdated(begun), p.outdated(time.Now()))
	}
}
