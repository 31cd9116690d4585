package expediter

import (
	"testing"
	"time"

	"github.com/expediterhq/expediter/registry"
)

// TestOneReplicaCountsOnce: a replica is counted once, as lost for certain or as
// undecided, in whatever order its losses are told.
func TestOneReplicaCountsOnce(t *testing.T) {
	pool, err := registry.NewPool(registry.PoolConfig{Name: "p"})
	if err != nil {
		t.Fatal(err)
	}
	r, err := pool.Add(registry.ReplicaConfig{URL: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	l := loss{r, r.Generation(), now, now}
	for _, tt := range []struct {
		name               string
		told               func(p *poison)
		certain, undecided int
	}{
		{"lost", func(p *poison) { p.lost(1, l) }, 0, 1},
		{"lost twice", func(p *poison) { p.lost(1, l); p.lost(1, l) }, 0, 1},
		{"lost, then down", func(p *poison) { p.lost(1, l); p.add(1, l.who(), now) }, 1, 0},
		{"down, then lost", func(p *poison) { p.add(1, l.who(), now); p.lost(1, l) }, 1, 0},
		{"not decided in time", func(p *poison) { p.lost(1, l); p.convict(1, now, now) }, 1, 0},
		{"lost after the one that is not decided in time", func(p *poison) { p.lost(1, l); p.convict(1, now.Add(-time.Nanosecond), now) }, 0, 1},
		{"suspected, lost, then another suspected and down", func(p *poison) {
			p.suspect(1, l.who(), now)
			p.lost(1, l)
			p.suspect(1, "other", now)
			p.add(1, "other", now)
		}, 2, 0},
		{"another start of it", func(p *poison) {
			p.add(1, l.who(), now)
			p.lost(1, loss{r, r.Generation() - 1, now, now}) // it was started since
		}, 2, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPoison()
			tt.told(p)
			if c, u := p.count(1, now); c != tt.certain || u != tt.undecided {
				t.Errorf("count = %d, %d, want %d, %d", c, u, tt.certain, tt.undecided)
			}
		})
	}
}
