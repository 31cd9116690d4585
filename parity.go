package expediter

import (
	"context"
	"sync/atomic"

	"github.com/expediterhq/expediter/registry"
	"github.com/expediterhq/expediter/tokenize"
	"github.com/expediterhq/expediter/vllm"
)

// parity is the standing comparison of a pool's token ids with those of its
// replicas. It is shared by all generations of the pool.
type parity struct {
	ctx   context.Context // ends with the pool
	check atomic.Pointer[vllm.Parity]
	of    compared // with Handler.reload held
	stop  context.CancelFunc
}

// compared is what a comparison depends on.
type compared struct {
	tokenizer *tokenize.Model
	served    string
	watched   // how the replicas are reached, and how often
}

func (c compared) same(o compared) bool {
	return c.tokenizer == o.tokenizer && c.served == o.served && c.watched.same(o.watched)
}

// differs reports whether a replica counts other tokens than the gateway.
func (y *parity) differs() bool {
	check := y.check.Load()
	return check != nil && check.Differs()
}

// compare makes p's replicas be asked for their token ids as g says, from now
// on; where nothing has changed the comparison goes on as it is.
func (h *Handler) compare(g *generation, p *pool) {
	y := p.tasks.parity
	of := compared{p.Tokenizer, p.Served, watched{transport: p.Transport, apiKey: p.APIKey, interval: g.Parity}}
	if y.of.same(of) {
		return
	}
	y.of = of
	if y.stop != nil {
		y.stop()
		y.stop = nil
	}
	y.check.Store(nil)
	if p.Tokenizer == nil || g.Parity < 0 {
		return
	}
	check, err := vllm.NewParity(vllm.ParityConfig{
		Pool: p.replicas, Model: p.Served, Encoder: p.Tokenizer, Interval: g.Parity,
		Transport: p.Transport, APIKey: p.APIKey, Logger: g.Logger,
	})
	if err != nil {
		g.Logger.Error("token ids are not compared", "pool", p.Name, "error", err)
		return
	}
	ctx, stop := context.WithCancel(y.ctx)
	y.stop = stop
	y.check.Store(check)
	h.tasks.Go(func() { check.Run(ctx) })
}

// Parity returns, for each replica that has been compared, whether its token
// ids are those that the gateway counts, for metrics. Replicas of pools
// without a Tokenizer, and those that cannot say, are left out.
func (h *Handler) Parity() map[*registry.Replica]bool {
	agrees := make(map[*registry.Replica]bool)
	for _, p := range h.current.Load().pools {
		check := p.tasks.parity.check.Load()
		if check == nil {
			continue
		}
		for r, f := range check.Findings() {
			if f.Verdict != vllm.Unknown {
				agrees[r] = f.Verdict == vllm.Agrees
			}
		}
	}
	return agrees
}
