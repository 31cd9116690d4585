package expediter

import (
	"cmp"
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/expediterhq/expediter/admission"
	"github.com/expediterhq/expediter/prefix"
	"github.com/expediterhq/expediter/registry"
	"github.com/expediterhq/expediter/router"
	"github.com/expediterhq/expediter/vllm"
)

// pool is one Pool made ready to serve: its parts, and what was learned.
type pool struct {
	Pool
	replicas *registry.Pool
	outputs  *admission.Outputs
	own      *admission.Controller     // the Admitter, where the Config brought none
	freed    *atomic.Pointer[Admitter] // who hears of room that appears; one per registry.Pool
	parity   *parity                   // whether the replicas count the same tokens; one per registry.Pool
	stop     func()                    // ends what serves this pool in the background

	mu    sync.Mutex
	epoch uint64
	slots map[int]occupant
}

// occupant is who holds a slot of the prefix map.
type occupant struct {
	replica    *registry.Replica
	generation uint64
	blocks     int // the size of its KV cache as the prefix map was told
}

// newPool fills in the parts that pc leaves out; from before, the same
// pool's earlier form, it takes those that were made for it.
func newPool(pc Pool, rp *registry.Pool, before *pool) (*pool, error) {
	p := &pool{Pool: pc, replicas: rp, outputs: new(admission.Outputs), slots: make(map[int]occupant)}
	p.DefaultMaxTokens = cmp.Or(p.DefaultMaxTokens, 1024)
	p.MaxWait = cmp.Or(p.MaxWait, 30*time.Second)
	same := before != nil && before.replicas == rp
	if same {
		p.outputs = before.outputs
		p.freed = before.freed
		p.parity = before.parity
		p.Router = cmp.Or(p.Router, before.Router)
		if p.Prefix == nil {
			p.Prefix = before.Prefix
		}
		if p.Admitter == nil && before.own != nil {
			p.own, p.Admitter = before.own, before.Admitter
		}
		if p.Transport == nil {
			p.Transport = before.Transport
		}
	}
	if p.Router == nil {
		p.Router = router.New(router.Config{})
	}
	if p.Prefix == nil {
		p.Prefix = prefix.NewTable(prefix.TableConfig{})
	}
	if p.Transport == nil {
		p.Transport = vllm.NewTransport(vllm.TransportConfig{})
	}
	if p.Admitter == nil {
		c, err := admission.NewController(admission.Config{})
		if err != nil {
			return nil, err
		}
		p.own, p.Admitter = c, c
	}
	return p, nil
}

// serve starts what a pool needs in the background: news of room for its
// line, the comparison of token ids, and the watcher that reads its replicas'
// metrics.
func (h *Handler) serve(g *generation, p *pool) {
	p.freed = new(atomic.Pointer[Admitter])
	freed := p.freed
	p.replicas.OnChange(func() {
		if a := freed.Load(); a != nil {
			(*a).Freed()
		}
	})
	p.listen()
	ctx, cancel := context.WithCancel(h.ctx)
	p.stop = cancel
	p.parity = &parity{ctx: ctx}
	h.compare(g, p)
	if g.Scrape < 0 {
		return
	}
	w := &vllm.Watcher{Pool: p.replicas, Interval: g.Scrape, Transport: p.Transport, APIKey: p.APIKey, Logger: g.Logger}
	h.tasks.Go(func() { w.Run(ctx) })
}

// listen makes p's Admitter the one that hears of room in its replicas.
func (p *pool) listen() { p.freed.Store(&p.Admitter) }

// forgetChanged drops from the prefix map the slots whose replica left or
// restarted since the last call.
func (p *pool) forgetChanged() {
	epoch := p.replicas.Epoch()
	p.mu.Lock()
	defer p.mu.Unlock()
	if epoch == p.epoch {
		return
	}
	p.epoch = epoch
	held := make(map[int]occupant, len(p.slots))
	for _, r := range p.replicas.Replicas() {
		held[r.Slot()] = occupant{replica: r, generation: r.Generation()}
	}
	for slot, who := range p.slots {
		if now := held[slot]; now.replica != who.replica || now.generation != who.generation {
			p.Prefix.Forget(slot)
		}
	}
	p.slots = held
}

// sizedMap is a PrefixMap that can be told how many blocks a replica holds.
type sizedMap interface{ SetBlocks(slot, n int) }

// fit makes the prefix map as large as r's KV cache.
func (p *pool) fit(r *registry.Replica, blockSize int) {
	m, ok := p.Prefix.(sizedMap)
	full, _ := r.Capacity()
	if !ok || full == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if who := p.slots[r.Slot()]; who.replica == r && who.blocks != full/blockSize {
		who.blocks = full / blockSize
		p.slots[r.Slot()] = who
		m.SetBlocks(r.Slot(), who.blocks)
	}
}

// idleCloser is what http.Transport offers to let idle connections go.
type idleCloser interface{ CloseIdleConnections() }

// closeIdle lets go of t's idle connections, if it can.
func closeIdle(t http.RoundTripper) {
	if c, ok := t.(idleCloser); ok {
		c.CloseIdleConnections()
	}
}
