package admission_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"
	"time"

	"github.com/expediterhq/expediter/admission"
)

// model is the order of a Line written down without any cleverness: one list
// of works, gone through and sorted anew for every question.
type model struct {
	cfg     admission.Config
	works   []*modelWork
	tenants map[modelTenant]*modelCounter
	last    map[int]float64 // by tier
	credit  map[int]float64
	seq     int
	tried   []*modelWork
}

type modelTenant struct {
	tier int
	id   string
}

type modelCounter struct {
	counter, weight float64
	since           int
}

type modelWork struct {
	admission.Work
	seq     int
	refused bool
	item    *admission.Item
}

func (w *modelWork) cost() float64 { return float64(w.Input) + 2*float64(w.Output) }

func (m *model) of(w *modelWork) *modelCounter { return m.tenants[modelTenant{w.Tier, w.Tenant}] }

func (m *model) waiting(tier int, tenant string) (n, tokens int) {
	for _, w := range m.works {
		if w.Tier == tier && (tenant == "" || w.Tenant == tenant) {
			n++
			tokens += w.Tokens
		}
	}
	return n, tokens
}

// push adds a work and returns the one pushed out for it, and whether there
// was room.
func (m *model) push(w *modelWork) (out *modelWork, ok bool) {
	tokens := w.Tokens
	for _, o := range m.works {
		tokens += o.Tokens
	}
	if len(m.works) >= m.cfg.MaxWaiting || tokens > m.cfg.MaxWaitingTokens {
		if out = m.victim(w, tokens); out == nil {
			return nil, false
		}
		m.remove(out)
	}
	if len(m.works) == 0 {
		m.opened()
	}
	m.seq++
	w.seq = m.seq
	key := modelTenant{w.Tier, w.Tenant}
	c := m.tenants[key]
	if c == nil {
		c = &modelCounter{}
		m.tenants[key] = c
	}
	c.weight = w.Weight
	if n, _ := m.waiting(w.Tier, w.Tenant); n == 0 {
		floor, any := m.last[w.Tier], false
		for _, o := range m.works {
			if o.Tier == w.Tier && (!any || m.of(o).counter < floor) {
				floor, any = m.of(o).counter, true
			}
		}
		c.counter = max(c.counter, floor)
		c.since = m.seq
	}
	m.works = append(m.works, w)
	return out, true
}

func (m *model) victim(w *modelWork, tokens int) *modelWork {
	share := func(tier, entries, tokens int) bool { // of the line, at most the floor
		n, held := m.waiting(tier, "")
		f := m.cfg.TierFloor
		return float64(n+entries) <= f*float64(m.cfg.MaxWaiting) && float64(held+tokens) <= f*float64(m.cfg.MaxWaitingTokens)
	}
	for tier := 9; tier >= 0; tier-- {
		order := m.order(tier)
		if len(order) == 0 || tier != w.Tier && share(tier, 0, 0) {
			continue
		}
		if tier < w.Tier && !share(w.Tier, 1, w.Tokens) {
			break
		}
		bound := 0.0
		if tier == w.Tier {
			_, mine := m.waiting(tier, w.Tenant)
			bound = float64(mine+w.Tokens) / w.Weight
		}
		worst := ""
		for _, o := range order {
			_, held := m.waiting(tier, o.Tenant)
			if h := float64(held) / m.of(o).weight; h > bound {
				bound, worst = h, o.Tenant
			}
		}
		for _, o := range slices.Backward(order) {
			if o.Tenant == worst && tokens-o.Tokens <= m.cfg.MaxWaitingTokens {
				return o
			} else if o.Tenant == worst {
				break
			}
		}
	}
	return nil
}

func (m *model) remove(w *modelWork) {
	m.works = slices.DeleteFunc(m.works, func(o *modelWork) bool { return o == w })
	m.tried = slices.DeleteFunc(m.tried, func(o *modelWork) bool { return o == w })
	if n, _ := m.waiting(w.Tier, ""); n == 0 {
		m.last[w.Tier] = m.of(w).counter
		m.credit[w.Tier] = 0
	}
}

func (m *model) opened() {
	for _, w := range m.works {
		w.refused = false
	}
	m.tried = nil
}

// order is the order of service inside a tier.
func (m *model) order(tier int) []*modelWork {
	var list []*modelWork
	for _, w := range m.works {
		if w.Tier == tier {
			list = append(list, w)
		}
	}
	sort.SliceStable(list, func(i, j int) bool {
		a, b := list[i], list[j]
		ca, cb := m.of(a), m.of(b)
		if a.Tenant != b.Tenant {
			if ca.counter != cb.counter {
				return ca.counter < cb.counter
			}
			return ca.since < cb.since
		}
		if !a.Deadline.Equal(b.Deadline) {
			return !a.Deadline.IsZero() && (b.Deadline.IsZero() || a.Deadline.Before(b.Deadline))
		}
		if !a.Arrived.Equal(b.Arrived) {
			return a.Arrived.Before(b.Arrived)
		}
		return a.seq < b.seq
	})
	return list
}

func (m *model) candidate(w *modelWork) bool {
	smallest := math.MaxInt
	for _, t := range m.tried {
		smallest = min(smallest, t.Tokens)
	}
	if w.refused || len(m.tried) >= 2 && w.Tokens >= smallest || len(m.tried) >= 32 && w.Tokens > smallest/2 {
		return false
	}
	return true
}

func (m *model) next() *modelWork {
	for tier := 1; tier < 10; tier++ {
		for _, w := range m.order(tier) {
			if m.credit[tier] > 0 && m.candidate(w) {
				if w.cost() <= m.credit[tier] {
					return w
				}
				break
			}
		}
	}
	for tier := range 10 {
		for _, w := range m.order(tier) {
			if m.candidate(w) {
				return w
			}
		}
	}
	return nil
}

func (m *model) start(w *modelWork) {
	m.credit[w.Tier] = max(m.credit[w.Tier]-w.cost(), 0)
	if !w.Retry {
		m.of(w).counter += w.cost() / w.Weight
	}
	for tier := w.Tier + 1; tier < 10; tier++ {
		if order := m.order(tier); len(order) > 0 {
			m.credit[tier] = min(m.credit[tier]+w.cost()*m.cfg.TierFloor/(1-m.cfg.TierFloor), 2*max(order[0].cost(), w.cost()))
		}
	}
	m.remove(w)
}

// TestLineAgainstModel drives a Line and the model through the same random
// histories and compares every decision.
func TestLineAgainstModel(t *testing.T) {
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		cfg := admission.Config{MaxWaiting: 60, MaxWaitingTokens: 60_000, TierFloor: 0.1, ReserveAfter: -1}
		line, err := admission.NewLine(cfg)
		if err != nil {
			t.Fatal(err)
		}
		h := &history{t: t, rnd: rnd, line: line, now: start, model: &model{
			cfg: cfg, tenants: map[modelTenant]*modelCounter{}, last: map[int]float64{}, credit: map[int]float64{},
		}}
		for range 700 {
			h.step()
		}
		h.expire()
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// history is one random history.
type history struct {
	t     *testing.T
	rnd   *rand.Rand
	line  *admission.Line
	model *model
	now   time.Time
}

func (h *history) step() {
	h.now = h.now.Add(time.Duration(h.rnd.IntN(50)) * time.Millisecond)
	switch h.rnd.IntN(5) {
	case 0, 1, 2:
		for range 1 + h.rnd.IntN(4) {
			h.push()
		}
	case 3:
		if m := h.model; len(m.works) > 0 {
			w := m.works[h.rnd.IntN(len(m.works))]
			m.remove(w)
			h.line.Remove(w.item, h.now)
		}
	case 4:
		room := h.rnd.IntN(8000)
		if h.rnd.IntN(30) == 0 {
			room = 1 << 30 // all of it
		}
		h.serve(room)
	}
	tokens := 0
	for _, w := range h.model.works {
		tokens += w.Tokens
	}
	if h.line.Len() != len(h.model.works) || h.line.Tokens() != tokens {
		h.t.Fatalf("line has %d entries of %d tokens, want %d of %d", h.line.Len(), h.line.Tokens(), len(h.model.works), tokens)
	}
}

func (h *history) push() {
	r := h.rnd
	w := &modelWork{Work: admission.Work{
		Tenant: string(rune('a' + r.IntN(6))), Tier: r.IntN(3), Tokens: 1 + r.IntN(3000),
		Input: 1 + r.IntN(2000), Output: r.IntN(500), Arrived: h.now,
	}}
	w.Weight = float64(1 + int(w.Tenant[0])%3)
	switch r.IntN(3) {
	case 0:
		w.Deadline = start.Add(time.Duration(1_000_000+r.IntN(1000)) * time.Second)
	case 1:
		w.Arrived = h.now.Add(-time.Duration(r.IntN(10)) * time.Second)
	}
	out, ok := h.model.push(w)
	it, pushedOut, err := h.line.Push(w.Work, h.now)
	if (err == nil) != ok {
		h.t.Fatalf("Push = %v, want success %v", err, ok)
	}
	if (pushedOut == nil) != (out == nil) || out != nil && pushedOut != out.item {
		h.t.Fatalf("Push pushed out %+v, want %+v", pushedOut, out)
	}
	w.item = it
}

// serve starts what fits into room, which a few items do whatever their size.
func (h *history) serve(room int) {
	h.model.opened()
	h.line.Opened()
	for {
		want := h.model.next()
		got := h.line.Next(h.now)
		if (got == nil) != (want == nil) || want != nil && got != want.item {
			h.t.Fatalf("Next = %+v, want %+v", got, want)
		}
		if got == nil {
			return
		}
		if got.Tokens <= room || h.rnd.IntN(20) == 0 {
			room -= got.Tokens
			h.line.Start(got, h.now)
			h.model.start(want)
		} else {
			h.line.Refuse(got, h.now)
			want.refused = true
			h.model.tried = append(h.model.tried, want)
		}
	}
}

func (h *history) expire() {
	at := start.Add(1_000_500 * time.Second)
	want := map[*admission.Item]bool{}
	for _, w := range h.model.works {
		if !w.Deadline.IsZero() && !w.Deadline.After(at) {
			want[w.item] = true
		}
	}
	for _, it := range h.line.Expired(at) {
		if !want[it] {
			h.t.Errorf("Expired returned %+v", it)
		}
		delete(want, it)
	}
	if len(want) > 0 {
		h.t.Errorf("Expired left %d items", len(want))
	}
}
