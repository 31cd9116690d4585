package fleet

import (
	"errors"
	"time"

	"github.com/expediterhq/expediter/quota"
)

// Run plays the trace through the fleet and returns what came of it. A Config
// or a trace that makes no sense, or a trace without requests, is an error. It is
// deterministic, and safe to call from several goroutines at once if the
// Config's functions are.
func Run(cfg Config, trace *Trace) (*Report, error) {
	if err := errors.Join(cfg.validate(), trace.Validate()); err != nil {
		return nil, err
	}
	if len(trace.Requests) == 0 {
		return nil, errors.New("fleet: trace: it has no requests")
	}
	w, err := newWorld(cfg.withDefaults(), trace)
	if err != nil {
		return nil, err
	}
	w.run()
	return w.report(), nil
}

// world is one run.
type world struct {
	cfg   Config
	trace *Trace
	size  int // tokens per KV block
	cal   calendar
	now   int64   // nanoseconds since epoch
	next  int     // in roots: the request that comes next
	roots []int   // requests that wait for no other
	after [][]int // by request: those that wait for its end
	left  int     // requests that are not over
	end   int64   // when the last request was over

	nodes    []*node
	gateways []*gateway
	quota    *quota.Memory
	longest  int // tokens of the longest sequence that any replica can hold
	tenants  map[string]*tenant
	order    []*tenant // by first appearance
	books    books

	spareJobs    []*job
	spareFlights []*flight
}

// tenant is a tenant's terms and account.
type tenant struct {
	Tenant
	name string
	TenantReport
	ttft, tpot []float64
}

// epoch is the moment at which virtual time begins.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func (w *world) time() time.Time { return epoch.Add(time.Duration(w.now)) }

func newWorld(cfg Config, trace *Trace) (*world, error) {
	w := &world{cfg: cfg, trace: trace, size: cfg.Replicas[0].Profile.BlockSize, tenants: map[string]*tenant{}}
	w.quota = quota.NewMemory(quota.MemoryConfig{Now: w.time, MaxRemembered: 16})
	w.plan()
	for i := range cfg.Replicas {
		n, err := newNode(w, i)
		if err != nil {
			return nil, err
		}
		w.nodes = append(w.nodes, n)
		w.longest = max(w.longest, n.eng.Capacity()*w.size)
	}
	for i := range cfg.Gateways {
		g, err := newGateway(w, i)
		if err != nil {
			return nil, err
		}
		w.gateways = append(w.gateways, g)
	}
	for _, n := range w.nodes {
		if at := n.cfg.Join; at > 0 {
			w.cal.push(event{at: int64(at), kind: joinDue, who: n.id})
		} else {
			w.join(n)
		}
		if at := n.cfg.Leave; at > 0 {
			w.cal.push(event{at: int64(at), kind: leaveDue, who: n.id})
		}
	}
	for i, ch := range cfg.Changes {
		w.cal.push(event{at: int64(ch.At), kind: changeDue, who: int32(i)})
	}
	if cfg.Scrape > 0 {
		for i := range w.gateways { // gateways look at different moments
			w.cal.push(event{at: int64(cfg.Scrape) * int64(i) / int64(cfg.Gateways), kind: scrape, who: int32(i)})
		}
	}
	w.cal.push(event{at: int64(cfg.Sample), kind: sampleDue})
	return w, nil
}

// plan sorts out which requests wait for which.
func (w *world) plan() {
	rs := w.trace.Requests
	w.left = len(rs)
	w.after = make([][]int, len(rs))
	for i := range rs {
		if a := rs[i].After; a > 0 {
			w.after[a-1] = append(w.after[a-1], i)
		} else {
			w.roots = append(w.roots, i)
		}
	}
}

func (w *world) run() {
	for w.left > 0 {
		if w.next < len(w.roots) {
			i := w.roots[w.next]
			if at := int64(w.trace.Requests[i].At); len(w.cal.heap) == 0 || at < w.cal.heap[0].at {
				w.now = at
				w.arrive(i)
				w.next++
				continue
			}
		}
		e := w.cal.pop()
		w.now = e.at
		w.handle(&e)
	}
	w.end = w.now
	w.settleEngines()
}

// settleEngines lets the engines drop what was aborted in their last steps.
func (w *world) settleEngines() {
	for len(w.cal.heap) > 0 {
		e := w.cal.pop()
		w.now = e.at
		if e.kind == stepEnds {
			w.nodes[e.who].stepEnds(e.attempt)
		}
	}
	w.now = w.end
}

func (w *world) handle(e *event) {
	switch e.kind {
	case arriveDue:
		w.arrive(int(e.who))
	case arriveAtReplica:
		if e.job.attempt == e.attempt {
			w.nodes[e.who].accept(e.job)
		}
	case stepEnds:
		w.nodes[e.who].stepEnds(e.attempt)
	case firstToken:
		if e.job.attempt == e.attempt {
			e.job.gateway.firstToken(e.job)
		}
	case finished:
		if e.job.attempt == e.attempt {
			e.job.gateway.finished(e.job)
		}
	case broken:
		if e.job.attempt == e.attempt {
			e.job.gateway.broken(e.job)
		}
	case firstTokenDue:
		if e.job.attempt == e.attempt && e.job.first == 0 && e.job.state == sent {
			w.nodes[e.who].hangUp(e.job)
			e.job.gateway.broken(e.job)
		}
	case deadline:
		if e.job.attempt == e.attempt && e.job.state == inLine {
			e.job.gateway.expire()
		}
	case scrape:
		w.scrape(e.who)
	case reported:
		w.gateways[e.answer.gateway].reported(int(e.who), e.answer)
	case changeDue:
		w.change(w.cfg.Changes[e.who])
	case joinDue:
		w.join(w.nodes[e.who])
	case leaveDue:
		w.leave(w.nodes[e.who])
	case sampleDue:
		w.sample()
		w.cal.push(event{at: w.now + int64(w.cfg.Sample), kind: sampleDue})
	case silenceDue:
		w.nodes[e.who].silenceDue(e.attempt)
	}
	for _, g := range w.gateways {
		g.pump()
	}
}

// arrive brings request i of the trace to one of the gateways in turn.
func (w *world) arrive(i int) {
	j := w.job(i)
	w.books.requests++
	j.tenant.Requests++
	j.gateway = w.gateways[mix(w.cfg.Seed^uint64(i))%uint64(len(w.gateways))]
	j.expect = j.gateway.expect(j)
	j.gateway.arrive(j)
	j.gateway.pump()
}

func (w *world) tenant(name string) *tenant {
	t := w.tenants[name]
	if t == nil {
		t = &tenant{Tenant: w.cfg.Tenant(name), name: name}
		w.tenants[name] = t
		w.order = append(w.order, t)
	}
	return t
}

func (w *world) join(n *node) {
	n.member = true
	n.since = w.now
	for _, g := range w.gateways {
		g.join(n)
	}
}

func (w *world) leave(n *node) {
	if !n.member {
		return
	}
	n.account()
	n.member = false
	for _, g := range w.gateways {
		g.leave(n)
	}
}

func (w *world) change(ch Change) {
	n := w.nodes[ch.Replica]
	switch ch.Do {
	case Kill:
		n.kill()
	case Start:
		n.up = true
	case Restart:
		n.kill()
		n.up = true
	case Hang:
		n.hang()
	case Resume:
		n.resume()
	case Slowdown:
		n.slow = ch.Slow
	}
}
