package router

import (
	"github.com/expediterhq/expediter/registry"
)

// MarginalCost is the default scorer: the delay that a request suffers and
// causes, from the replica's load, speed and cache. The package comment has
// the formula and where each term comes from. The zero value is ready.
type MarginalCost struct {
	Stall   float64 // α: what a second of stalled decoding counts. If zero, 0.1; below zero, nothing
	Decode  float64 // β: what a second of slower decoding counts. If zero, 0.03; below zero, nothing
	Context float64 // k: seconds per step to read one token of context. If zero, 1e-7
}

// Terms are the parts of a marginal cost, in seconds.
type Terms struct{ Wait, Stall, Decode, Overflow float64 }

// Sum returns the whole cost.
func (t Terms) Sum() float64 { return t.Wait + t.Stall + t.Decode + t.Overflow }

func (m MarginalCost) withDefaults() MarginalCost {
	if m.Stall == 0 {
		m.Stall = 0.1
	}
	if m.Decode == 0 {
		m.Decode = 0.03
	}
	if m.Context <= 0 {
		m.Context = 1e-7
	}
	m.Stall, m.Decode = max(m.Stall, 0), max(m.Decode, 0)
	return m
}

// Score adds the marginal cost of each replica.
func (m MarginalCost) Score(cost []float64, req *Request, replicas []*registry.Replica) {
	m = m.withDefaults()
	for i, r := range replicas {
		cost[i] += m.terms(req, req.Load(i, r), r).Sum()
	}
}

// Terms returns the parts of the cost of sending req to r under load l.
func (m MarginalCost) Terms(req *Request, l registry.Load, r *registry.Replica) Terms {
	m = m.withDefaults()
	return m.terms(req, l, r)
}

func (m *MarginalCost) terms(req *Request, l registry.Load, r *registry.Replica) Terms {
	perToken := 1 / r.PrefillRate()
	c := req.Claim(r)
	batch, output := float64(l.Requests), float64(max(0, req.Output))
	sequences := float64(c.Sequences)
	perSequence := perToken / 2
	t := Terms{
		Wait:  float64(l.Prefill+c.Prefill) * perToken,
		Stall: m.Stall * batch * float64(c.Prefill) * perToken,
		Decode: m.Decode / 2 * output * (perSequence*batch + m.Context*float64(l.Context) +
			batch*(perSequence*sequences+m.Context*float64(c.Context))),
	}
	if full, usable := r.Capacity(); full > 0 {
		if over := l.KV + c.KV - usable; over > 0 {
			t.Overflow = (1 + m.Stall*batch) * float64(over) * perToken
		}
	}
	return t
}
