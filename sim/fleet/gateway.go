package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/expediterhq/expediter/admission"
	"github.com/expediterhq/expediter/prefix"
	"github.com/expediterhq/expediter/registry"
	"github.com/expediterhq/expediter/router"
)

// gateway is one gateway: the library's parts, and the dispatch between them.
type gateway struct {
	w       *world
	id      int
	pool    *registry.Pool
	router  *router.Router
	prefix  prefix.Map
	line    *admission.Line
	outputs admission.Outputs // lengths of answers, by tenant
	freed   bool              // room may have appeared since the line was last tried

	replicas []*registry.Replica // by replica of the fleet; nil if not a member
	epoch    uint64
	slots    []occupant
	changes  int // to the prefix map
	route    router.Request
}

// occupant is who holds a slot of the prefix map.
type occupant struct {
	replica    *registry.Replica
	generation uint64
}

// maxLease is longer than any request lives, so that no lease must be renewed.
const maxLease = 24 * time.Hour

func newGateway(w *world, id int) (*gateway, error) {
	pc := w.cfg.Pool
	pc.Name = "pool"
	pc.BlockSize = w.size
	pool, err := registry.NewPool(pc)
	if err != nil {
		return nil, err
	}
	line, err := admission.NewLine(w.cfg.Line)
	if err != nil {
		return nil, err
	}
	g := &gateway{
		w: w, id: id, pool: pool, line: line, router: w.cfg.Router(mix(w.cfg.Seed + uint64(id))),
		prefix: w.cfg.Prefix(), replicas: make([]*registry.Replica, len(w.cfg.Replicas)),
	}
	pool.OnChange(func() { g.freed = true })
	return g, nil
}

func (g *gateway) join(n *node) {
	r, err := g.pool.Add(registry.ReplicaConfig{Name: n.cfg.Name, URL: fmt.Sprintf("http://replica-%d.invalid:8000", n.id), Zone: n.cfg.Zone})
	if err != nil {
		panic(err) // names are checked when the world is made
	}
	g.replicas[n.id] = r
	if m, ok := g.prefix.(interface{ SetBlocks(slot, n int) }); ok {
		m.SetBlocks(r.Slot(), n.eng.Capacity())
	}
	if !g.w.cfg.Direct && g.w.cfg.Scrape < 0 {
		g.reported(int(n.id), n.answer(g))
	}
}

func (g *gateway) leave(n *node) {
	g.pool.Remove(g.replicas[n.id])
	g.replicas[n.id] = nil
}

// expect is the output to claim KV cache for.
func (g *gateway) expect(j *job) int {
	if f := g.w.cfg.Expect; f != nil {
		return max(f(j.req), 1)
	}
	return g.outputs.Expect(j.req.Tenant, j.limit(g.w))
}

// arrive takes a new request as far as the line.
func (g *gateway) arrive(j *job) {
	w := g.w
	if l := j.tenant.Limit; l.Concurrency > 0 || len(l.Windows) > 0 {
		r := j.reservation(w)
		if err := w.quota.Reserve(context.Background(), r); err != nil {
			w.refused(j, overQuota)
			return
		}
		j.held = &r
	}
	g.enqueue(j)
}

func (g *gateway) work(j *job) admission.Work {
	return admission.Work{
		Tenant: j.req.Tenant, Tier: j.tenant.Tier, Weight: j.tenant.Weight,
		Tokens: j.req.Prompt + j.expect, Input: j.req.Prompt, Output: j.expect,
		Arrived: epoch.Add(time.Duration(j.arrived)), Deadline: epoch.Add(time.Duration(j.arrived) + g.w.cfg.MaxWait),
		Retry: j.tries > 0,
	}
}

func (g *gateway) enqueue(j *job) {
	it, out, err := g.line.Push(g.work(j), g.w.time())
	if out != nil {
		g.w.refused(out.Value.(*job), pushedOut)
	}
	if err != nil {
		why := queueFull
		if e := (*admission.Error)(nil); errors.As(err, &e) && e.Reason == admission.Deadline {
			why = hopeless
		}
		g.w.refused(j, why)
		return
	}
	it.Value = j
	j.item, j.state = it, inLine
	g.freed = true
	g.w.cal.push(event{at: j.arrived + int64(g.w.cfg.MaxWait), kind: deadline, job: j, attempt: j.attempt})
}

// pump starts what can be started, if room may have appeared.
func (g *gateway) pump() {
	for g.freed {
		g.freed = false
		if g.line.Len() == 0 {
			return
		}
		now := g.w.time()
		g.line.Opened()
		for it := g.line.Next(now); it != nil; it = g.line.Next(now) {
			g.try(it, now)
		}
	}
}

// try looks for a replica for one entry of the line.
func (g *gateway) try(it *admission.Item, now time.Time) {
	j := it.Value.(*job)
	g.forgetChanged()
	g.overlap(j)
	g.route = router.Request{
		Adapter: j.req.Adapter, Prompt: j.req.Prompt, Output: j.expect, Cached: j.overlap,
		Tried: j.tried, BlockSize: g.w.size, Now: now, Key: mix(uint64(j.n)),
	}
	if len(j.blocks) > 0 {
		g.route.Key, g.route.Blocks = j.blocks[0], j.blocks
	}
	d, err := g.router.Pick(&g.route, g.pool.Replicas())
	switch {
	case err == nil:
		g.line.Start(it, now)
		j.item = nil
		g.send(j, d)
	case errors.Is(err, router.ErrNoRoom):
		g.line.Refuse(it, now)
	default:
		g.line.Remove(it, now)
		j.item = nil
		g.w.failed(j, g.why(j, err))
	}
}

// why says what kept every replica from being picked for j.
func (g *gateway) why(j *job, err error) failure {
	if errors.Is(err, router.ErrTooLarge) {
		return tooLarge
	}
	now := g.w.time()
	for _, r := range g.pool.Replicas() {
		if r.Routable(now) && !slices.Contains(j.tried, r) {
			return ruledOut
		}
	}
	return noReplica
}

// forgetChanged drops what the prefix map knows of replicas that left or restarted.
func (g *gateway) forgetChanged() {
	e := g.pool.Epoch()
	if e == g.epoch {
		return
	}
	g.epoch = e
	g.changes++
	held := make([]occupant, g.pool.Slots())
	for _, r := range g.pool.Replicas() {
		held[r.Slot()] = occupant{r, r.Generation()}
	}
	for slot, who := range g.slots {
		if who.replica != nil && (slot >= len(held) || held[slot] != who) {
			g.prefix.Forget(slot)
		}
	}
	g.slots = held
}

// overlap fills j.overlap with the prompt tokens each slot is believed to
// hold, unless it says so already: what waits in line is tried often.
func (g *gateway) overlap(j *job) {
	if j.overlapAt == g.changes {
		return
	}
	j.overlapAt = g.changes
	j.overlap = append(j.overlap[:0], make([]int, g.pool.Slots())...)
	if len(j.blocks) == 0 {
		return
	}
	g.prefix.Overlap(j.overlap, j.blocks)
	for i, blocks := range j.overlap {
		j.overlap[i] = min(blocks, (j.req.Prompt-1)/g.w.size) * g.w.size
	}
}

func (g *gateway) send(j *job, d router.Decision) {
	w := g.w
	j.replica, j.lease, j.guess = d.Replica, d.Lease, d.Cached
	id := w.nodeOf(g, d.Replica).id
	j.state, j.sentAt, j.flight = sent, w.now, nil
	j.attempt++
	j.tries++
	w.books.predicted += d.Cached
	if j.tries == 1 {
		w.books.wait = append(w.books.wait, float64(w.now-j.arrived)/1e9)
	}
	g.prefix.Add(d.Replica.Slot(), j.blocks)
	g.changes++
	w.cal.push(event{at: w.now + int64(w.cfg.Delay), kind: arriveAtReplica, who: id, job: j, attempt: j.attempt})
	w.cal.push(event{at: w.now + int64(w.cfg.FirstToken), kind: firstTokenDue, who: id, job: j, attempt: j.attempt})
}

func (w *world) nodeOf(g *gateway, r *registry.Replica) *node {
	for i, x := range g.replicas {
		if x == r {
			return w.nodes[i]
		}
	}
	panic("fleet: a replica of no pool was chosen")
}

func (g *gateway) firstToken(j *job) {
	j.first = g.w.now
	now := g.w.time()
	j.lease.FirstTokenAt(now)
	j.lease.Succeeded(now)
}

// finished settles a request that got all its tokens.
func (g *gateway) finished(j *job) {
	w := g.w
	if o, ok := g.prefix.(interface {
		Observe(slot, predicted, cached int)
	}); ok {
		o.Observe(j.replica.Slot(), j.guess/w.size, j.cached/w.size)
		g.changes++
	}
	if j.req.Output > 1 {
		j.replica.ObserveStep(time.Duration((w.now - j.first) / int64(j.req.Output-1)))
	}
	j.replica.Progress(w.time())
	j.lease.Release()
	g.outputs.Observe(j.req.Tenant, j.req.Output)
	w.settle(j, j.req.Prompt+j.req.Output)
	w.done(j)
	w.finish(j)
}

// broken is told that a request's connection failed: it is tried elsewhere if
// no token has come.
func (g *gateway) broken(j *job) {
	w := g.w
	j.lease.Release()
	j.replica.Failed(w.time())
	j.attempt++
	if j.first != 0 {
		w.books.truncated++
		j.tenant.Failed++
		w.settle(j, j.req.Prompt+j.generated)
		w.finish(j)
		return
	}
	j.tried = append(j.tried, j.replica)
	if j.tries >= w.cfg.Attempts || w.now >= j.arrived+int64(w.cfg.MaxWait) {
		w.failed(j, attemptsBroke)
		return
	}
	w.books.retried++
	g.enqueue(j)
}

// expire turns away everything that has waited too long.
func (g *gateway) expire() {
	for _, it := range g.line.Expired(g.w.time()) {
		g.w.refused(it.Value.(*job), expired)
	}
}

// reported takes a replica's answer to a scrape.
func (g *gateway) reported(who int, a *answer) {
	r := g.replicas[who]
	if r == nil {
		return
	}
	now := g.w.time()
	r.SetProbe(a.ok, now)
	if !a.ok {
		return
	}
	a.state.At = now
	r.ReportSince(a.state, a.asked)
}

// settle ends a request's reservation.
func (w *world) settle(j *job, used int) {
	if j.held == nil {
		return
	}
	if err := w.quota.Settle(context.Background(), *j.held, int64(used)); err != nil {
		panic(err) // memory does not fail
	}
	j.held = nil
}
