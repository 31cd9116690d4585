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

// TestReportsDecide: the first report that is late enough after a replica's losses
// decides about them, and not about one that comes later.
func TestReportsDecide(t *testing.T) {
	const ms = time.Millisecond
	for _, tt := range []struct {
		name               string
		told               func(o *ordeal)
		certain, undecided int
	}{
		{"a report", func(o *ordeal) { o.lost(0); o.report(100 * ms) }, 0, 0},
		{"a report that was under way", func(o *ordeal) { o.lost(0); o.report(99 * ms) }, 0, 1},
		{"another process", func(o *ordeal) { o.lost(0); o.replica.Restarted(); o.report(200 * ms) }, 1, 0},
		{"taken out of the pool", func(o *ordeal) { o.lost(0); o.replica.Pool().Remove(o.replica) }, 0, 0},
		{"lost again after a report", func(o *ordeal) { o.lost(0); o.report(200 * ms); o.lost(300 * ms) }, 0, 1},
		{"lost again after a report, and convicted of what was before", func(o *ordeal) { o.lost(0); o.report(200 * ms); o.lost(300 * ms); o.convict(100 * ms) }, 0, 1},
		{"lost again before a report that was under way", func(o *ordeal) { o.lost(0); o.lost(time.Second); o.report(1050 * ms) }, 0, 1},
		{"lost again before a report", func(o *ordeal) { o.lost(0); o.lost(time.Second); o.report(1100 * ms) }, 0, 0},
		{"lost again after a report, and then one", func(o *ordeal) {
			o.lost(0)
			o.report(200 * ms)
			o.lost(300 * ms)
			o.report(400 * ms)
		}, 0, 0},
		{"lost again and again, and silent", func(o *ordeal) {
			for at := range 10 {
				o.lost(time.Duration(at) * 100 * ms)
			}
			o.convict(500 * ms)
		}, 1, 0},
		{"lost again and again, and heard", func(o *ordeal) { o.lost(0); o.lost(150 * ms); o.report(200 * ms); o.convict(50 * ms) }, 0, 1},
		{"convicted after a report", func(o *ordeal) { o.lost(0); o.report(200 * ms); o.convict(time.Second) }, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pool, err := registry.NewPool(registry.PoolConfig{Name: "p"})
			if err != nil {
				t.Fatal(err)
			}
			r, err := pool.Add(registry.ReplicaConfig{URL: "http://127.0.0.1:1"})
			if err != nil {
				t.Fatal(err)
			}
			now := time.Now()
			o := &ordeal{poison: newPoison(), replica: r, began: now.Add(-10 * time.Second)}
			tt.told(o)
			if c, u := o.poison.count(1, now); c != tt.certain || u != tt.undecided {
				t.Errorf("count = %d, %d, want %d, %d", c, u, tt.certain, tt.undecided)
			}
		})
	}
}

// ordeal is what one request does to one replica, at times from its start.
type ordeal struct {
	poison  *poison
	replica *registry.Replica
	began   time.Time
}

func (o *ordeal) lost(at time.Duration) {
	t := o.began.Add(at)
	o.poison.lost(1, loss{o.replica, o.replica.Generation(), t, t})
}

func (o *ordeal) report(at time.Duration) {
	o.replica.Report(registry.State{At: o.began.Add(at)})
}

func (o *ordeal) convict(before time.Duration) {
	o.poison.convict(1, o.began.Add(before), o.began.Add(before))
}
