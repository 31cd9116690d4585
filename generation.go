package expediter

import (
	"io"
	"slices"
	"sync"
	"time"

	"github.com/expediterhq/expediter/registry"
	"github.com/expediterhq/expediter/sse"
)

// generation is one Config made ready to serve. A request keeps the one it
// began with; a reload swaps in the next. What serves the pools of one lasts as
// long as it has requests.
type generation struct {
	Config
	pools    map[string]*pool
	models   map[string]*Model
	made     time.Time
	scanners sync.Pool

	requests int  // under way, and who holds it; guarded by the flight's lock
	replaced bool // no further ones begin; guarded by the flight's lock
}

// scanner returns a scanner of events for body, to be put back in scanners.
func (g *generation) scanner(body io.Reader) *sse.Scanner {
	if sc, ok := g.scanners.Get().(*sse.Scanner); ok {
		sc.Reset(body)
		return sc
	}
	return sse.NewScanner(body, sse.ScannerConfig{MaxEvent: g.Limits.Event})
}

// recycle puts a scanner back, without what it was reading.
func (g *generation) recycle(sc *sse.Scanner) {
	sc.Reset(nil)
	g.scanners.Put(sc)
}

// newGeneration makes c ready, taking over from those before, the last of which
// serves new requests, the pools that stay the same, with their lines and what
// they learned. One that was left out in between is the same while it has
// requests.
func newGeneration(c Config, before []*generation) (*generation, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	g := &generation{
		Config: c.withDefaults(),
		pools:  make(map[string]*pool, len(c.Pools)),
		models: make(map[string]*Model, len(c.Models)),
		made:   time.Now(),
	}
	for i := range g.Models {
		g.models[g.Models[i].Name] = &g.Models[i]
	}
	for _, pc := range g.Config.Pools {
		rp, _ := g.Registry.Pool(pc.Name)
		p, err := newPool(pc, rp, poolOf(before, pc.Name, rp))
		if err != nil {
			return nil, err
		}
		g.pools[pc.Name] = p
	}
	return g, nil
}

// poolOf returns the pool of that name and of these replicas that the last of
// the generations has which has one, or nil.
func poolOf(generations []*generation, name string, replicas *registry.Pool) *pool {
	for _, g := range slices.Backward(generations) {
		if p := g.pools[name]; p != nil && p.replicas == replicas {
			return p
		}
	}
	return nil
}
