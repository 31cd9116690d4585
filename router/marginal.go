package router

import (
	"github.com/expediterhq/expediter/registry"
)

// MarginalCost is the default scorer: the delay that a request suffers and
// causes, from the replica's load, speed and cache. The package comment has
// the formula and where each term comes from. The zero value is ready.
type MarginalCost struct {
	Stall   float64 // α: what a second of stalled decoding counts. If zero, 0.2; below zero, nothing
	Decode  float64 // β: what a second of slower decoding counts. If zero, 0.05; below zero, nothing
	Crowd   float64 // γ: share by which each request there stretches the line. If zero, 0.05; below zero, nothing
	Context float64 // k: seconds per step to read one token of context. If zero, 1e-7
}

// Terms are the parts of a marginal cost, in seconds. The package comment has
// the formula of each.
type Terms struct{ Wait, Crowd, Stall, Decode, Overflow float64 }

// Sum returns the whole cost.
func (t Terms) Sum() float64 { return t.Wait + t.Crowd + t.Stall + t.Decode + t.Overflow }

func (m MarginalCost) withDefaults() MarginalCost {
	if m.Stall == 0 {
		m.Stall = 0.2
	}
	if m.Decode == 0 {
		m.Decode = 0.05
	}
	if m.Crowd == 0 {
		m.Crowd = 0.05
	}
	if m.Context <= 0 {
		m.Context = 1e-7
	}
	m.Stall, m.Decode, m.Crowd = max(m.Stall, 0), max(m.Decode, 0), max(m.Crowd, 0)
	return m
}

// Score adds the marginal cost of each replica.
func (m MarginalCost) Score(cost []float64, req *Request, replicas []*registry.Replica) {
	if len(replicas) == 0 {
		return
	}
	j := m.job(req, replicas[0])
	var made registry.View
	for i, r := range replicas {
		wait, crowd, stall, decode, overflow := j.terms(req.view(i, r, &made), float64(req.Uncached(r)))
		cost[i] += wait + crowd + stall + decode + overflow
	}
}

// Terms returns the parts of the cost of sending req to r, which is
// replicas[i] as in [Request.Load].
func (m MarginalCost) Terms(req *Request, i int, r *registry.Replica) Terms {
	j := m.job(req, r)
	var made registry.View
	var t Terms
	t.Wait, t.Crowd, t.Stall, t.Decode, t.Overflow = j.terms(req.view(i, r, &made), float64(req.Uncached(r)))
	return t
}

// job is what of a marginal cost does not depend on the replica.
type job struct {
	stall, crowd, read float64 // α, γ, k
	decode             float64 // β/2 times the output of one sequence
	sequences, output  float64 // output of all sequences
	context            float64
	mean               float64 // uncached prompt tokens of the pool's average request
}

func (m MarginalCost) job(req *Request, r *registry.Replica) job {
	m = m.withDefaults()
	n, output := float64(max(1, req.Sequences)), float64(max(0, req.Output))
	return job{
		stall: m.Stall, crowd: m.Crowd, read: m.Context, decode: m.Decode / 2 * output,
		sequences: n, output: n * output,
		context: float64(max(0, req.Prompt)) + n*output/2,
		mean:    r.Pool().MeanPrefill(),
	}
}

// terms returns the fields of Terms one by one: a struct of five would go
// through memory.
func (j *job) terms(v *registry.View, prefill float64) (wait, crowd, stall, decode, overflow float64) {
	perToken := 1 / v.PrefillRate
	perSequence := perToken / 2
	batch, pending := float64(v.Load.Requests), float64(v.Load.Prefill)
	wait = (pending + prefill) * perToken
	crowd = j.crowd * batch * pending * perToken
	stall = j.stall * batch * (prefill + j.mean) * perToken
	decode = j.decode * (perSequence*batch + j.read*float64(v.Load.Context) +
		batch*(perSequence*j.sequences+j.read*j.context))
	if over := float64(v.Load.KV-v.Usable) + prefill + j.output; over > 0 && v.Full > 0 {
		overflow = (1 + j.stall*batch) * over * perToken
	}
	return wait, crowd, stall, decode, overflow
}
