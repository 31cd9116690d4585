package fleet

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/expediterhq/expediter/registry"
	"github.com/expediterhq/expediter/sim"
)

// node is one replica: an engine driven by the calendar.
type node struct {
	w      *world
	id     int32
	cfg    Replica
	eng    *sim.Engine
	up     bool
	hung   bool
	member bool
	slow   float64
	life   int32 // of the process; steps of an earlier one are void
	inStep bool
	seen   sim.Stats // as of the end of the latest step: what metrics show
	lost   sim.Stats // counters of processes that are gone
	on     map[*flight]struct{}

	since    int64 // when the account was last brought up to date
	inFlight int   // requests sent and not over
	area     float64
	kvArea   float64
	present  float64
	peak     float64
	requests int
}

func newNode(w *world, i int) (*node, error) {
	r := w.cfg.Replicas[i]
	ec := r.Engine
	ec.Profile = r.Profile
	eng, err := sim.NewEngine(ec)
	if err != nil {
		return nil, fmt.Errorf("fleet: replica %d: %w", i, err)
	}
	n := &node{w: w, id: int32(i), cfg: r, eng: eng, up: true, slow: r.Slow, on: map[*flight]struct{}{}}
	n.seen = eng.Stats()
	return n, nil
}

// accept takes a request off the network.
func (n *node) accept(j *job) {
	n.account()
	if !n.up {
		n.tell(j, broken)
		return
	}
	f := n.w.flight(j)
	if err := n.eng.Submit(&f.seq); err != nil {
		n.w.books.tooLong++
		n.w.spareFlights = append(n.w.spareFlights, f)
		n.tell(j, broken)
		return
	}
	n.on[f] = struct{}{}
	n.inFlight++
	n.requests++
	n.kick()
}

// tell sends news of a request to its gateway.
func (n *node) tell(j *job, k kind) {
	n.w.cal.push(event{at: n.w.now + int64(n.w.cfg.Delay), kind: k, who: n.id, job: j, attempt: j.attempt})
}

// kick starts a step if none runs.
func (n *node) kick() {
	if n.inStep || n.hung || !n.up {
		return
	}
	d, ok := n.eng.Begin()
	if !ok {
		return
	}
	n.inStep = true
	n.peak = max(n.peak, n.eng.Stats().KVUsage())
	if n.slow != 1 {
		d = time.Duration(float64(d) * n.slow)
	}
	n.w.cal.push(event{at: n.w.now + int64(d), kind: stepEnds, who: n.id, attempt: n.life})
}

func (n *node) stepEnds(life int32) {
	if life != n.life || n.hung || !n.inStep {
		return
	}
	n.account()
	n.inStep = false
	for _, o := range n.eng.End() {
		n.output(o.Seq.Value.(*flight), o)
	}
	n.seen = n.eng.Stats()
	n.kick()
}

// output acts on what a step did for one request.
func (n *node) output(f *flight, o sim.Output) {
	if o.Reason != "" {
		defer n.over(f)
	}
	if !f.live() {
		return
	}
	f.job.generated = f.seq.Generated
	if o.First {
		f.job.cached = f.seq.Cached
		n.tell(f.job, firstToken)
	} else if f.seq.Generated == f.claimed && o.Reason == "" {
		more := f.claimed/2 + 1
		f.claimed += more
		f.job.lease.Grow(more)
	}
	if o.Reason != "" {
		n.tell(f.job, finished)
	}
}

// over takes a flight that the engine has done with off the list.
func (n *node) over(f *flight) {
	delete(n.on, f)
	n.inFlight--
	n.w.spareFlights = append(n.w.spareFlights, f)
}

// sorted returns the flights in order of the trace.
func (n *node) sorted() []*flight {
	return slices.SortedFunc(maps.Keys(n.on), func(a, b *flight) int {
		return cmp.Or(cmp.Compare(a.n, b.n), cmp.Compare(a.attempt, b.attempt))
	})
}

// hangUp ends a job's present attempt, whose client has left. News that it is
// over may be on the way, and its flight another job's by then. A hung engine
// keeps it.
func (n *node) hangUp(j *job) {
	f := j.flight
	if f == nil || f.job != j || f.attempt != j.attempt || n.hung {
		return
	}
	if _, ok := n.on[f]; !ok {
		return
	}
	n.account()
	if n.eng.Abort(&f.seq) {
		n.over(f)
	}
}

// kill ends the process: everything on it breaks.
func (n *node) kill() {
	if !n.up {
		return
	}
	n.account()
	n.up, n.hung, n.inStep = false, false, false
	n.life++
	n.lost = add(n.lost, n.eng.Stats())
	n.eng.Reset()
	n.seen = n.eng.Stats()
	for _, f := range n.sorted() {
		if f.live() {
			n.tell(f.job, broken)
		}
		n.over(f)
	}
}

func (n *node) hang() {
	if !n.up || n.hung {
		return
	}
	n.hung = true
	n.w.cal.push(event{at: n.w.now + int64(n.w.cfg.Silence), kind: silenceDue, who: n.id, attempt: n.life})
}

func (n *node) resume() {
	if !n.hung {
		return
	}
	n.account()
	n.hung = false
	for _, f := range n.sorted() {
		if !f.live() && n.eng.Abort(&f.seq) {
			n.over(f)
		}
	}
	if n.inStep { // the step it hung in ends now
		n.w.cal.push(event{at: n.w.now, kind: stepEnds, who: n.id, attempt: n.life})
		return
	}
	n.kick()
}

// silenceDue breaks the streams that have been silent for too long.
func (n *node) silenceDue(life int32) {
	if !n.hung || life != n.life {
		return
	}
	for _, f := range n.sorted() {
		if f.live() && f.job.first != 0 {
			f.job.gateway.broken(f.job)
		}
	}
	n.w.cal.push(event{at: n.w.now + int64(n.w.cfg.Silence), kind: silenceDue, who: n.id, attempt: n.life})
}

// answer is what a scrape finds.
func (n *node) answer(g *gateway) *answer {
	st := &n.seen
	a := &answer{gateway: g.id, ok: n.up}
	if r := g.replicas[n.id]; r != nil {
		a.asked = r.Load()
	}
	a.state = registry.State{
		Running: st.Running, Waiting: st.Waiting, KVUsage: st.KVUsage(),
		KVTokens: st.Usable * n.w.size, BlockSize: n.w.size, Steps: st.Steps,
		GeneratedTokens: float64(st.Generated), PromptTokens: float64(st.Prompt), CachedTokens: float64(st.Cached),
		Preemptions: st.Preemptions, MaxLoRA: max(n.cfg.Engine.MaxLoRAs, 1), Adapters: n.eng.Adapters(nil),
	}
	if n.w.cfg.Direct {
		a.state.KVTokens = 0
	}
	return a
}

func (w *world) scrape(gw int32) {
	g := w.gateways[gw]
	for _, n := range w.nodes {
		if g.replicas[n.id] != nil {
			w.cal.push(event{
				at: w.now + 2*int64(w.cfg.Delay) + int64(w.cfg.MetricAge), kind: reported, who: n.id, answer: n.answer(g),
			})
		}
	}
	w.cal.push(event{at: w.now + int64(w.cfg.Scrape), kind: scrape, who: gw})
}

// account brings the time averages up to date.
func (n *node) account() {
	dt := float64(n.w.now-n.since) / 1e9
	n.since = n.w.now
	if !n.member || dt <= 0 {
		return
	}
	n.area += dt * float64(n.inFlight)
	n.kvArea += dt * n.eng.Stats().KVUsage()
	n.present += dt
}
