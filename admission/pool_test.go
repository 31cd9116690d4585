package admission_test

import (
	"slices"
	"testing"
	"time"

	"github.com/expediterhq/expediter/admission"
)

// pool is a set of replicas in virtual time that a Line fills. Work takes its
// tokens on one replica, the emptiest, for its time.
type pool struct {
	t       *testing.T
	line    *admission.Line
	now     time.Time
	room    []int // free tokens by replica
	running []running
	started []start_
	late    int // started after their deadline
	out     int // pushed out for others
}

type running struct {
	end     time.Time
	replica int
	tokens  int
}

type start_ struct {
	admission.Work
	at time.Time
}

func newPool(t *testing.T, cfg admission.Config, replicas, tokens int) *pool {
	t.Helper()
	line, err := admission.NewLine(cfg)
	if err != nil {
		t.Fatal(err)
	}
	p := &pool{t: t, line: line, now: start}
	for range replicas {
		p.room = append(p.room, tokens)
	}
	return p
}

// push adds work that will run for a time; it reports whether it was accepted.
func (p *pool) push(w admission.Work, d time.Duration) bool {
	it, out, err := p.line.Push(w, p.now)
	if err == nil {
		it.Value = d
	}
	if out != nil {
		p.out++
	}
	p.fill()
	return err == nil
}

// fill starts what fits.
func (p *pool) fill() {
	for it := p.line.Next(p.now); it != nil; it = p.line.Next(p.now) {
		i := 0
		for j := range p.room {
			if p.room[j] > p.room[i] {
				i = j
			}
		}
		if p.room[i] < it.Tokens {
			p.line.Refuse(it, p.now)
			continue
		}
		if !it.Deadline.IsZero() && p.now.After(it.Deadline) {
			p.late++
		}
		p.room[i] -= it.Tokens
		p.running = append(p.running, running{p.now.Add(it.Value.(time.Duration)), i, it.Tokens})
		p.started = append(p.started, start_{it.Work, p.now})
		p.line.Start(it, p.now)
	}
}

// advance lets time pass up to until; expired work leaves at its deadline.
func (p *pool) advance(until time.Time) (expired int) {
	for {
		slices.SortFunc(p.running, func(a, b running) int { return a.end.Compare(b.end) })
		next := until
		if len(p.running) > 0 && p.running[0].end.Before(next) {
			next = p.running[0].end
		}
		p.now = next
		expired += len(p.line.Expired(p.now))
		if len(p.running) == 0 || p.running[0].end.After(p.now) {
			p.line.Opened()
			p.fill()
			if !p.now.Before(until) {
				return expired
			}
			continue
		}
		r := p.running[0]
		p.running = p.running[1:]
		p.room[r.replica] += r.tokens
		p.line.Opened()
		p.fill()
	}
}

func (p *pool) startOf(id string) (time.Duration, bool) {
	i := slices.IndexFunc(p.started, func(s start_) bool { return s.ID == id })
	if i < 0 {
		return 0, false
	}
	return p.started[i].at.Sub(start), true
}
