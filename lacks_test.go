package expediter

import (
	"slices"
	"testing"
	"time"

	"github.com/expediterhq/expediter/registry"
)

// TestLacks: what a replica does not serve is remembered for a while, for that
// start of it and that adapter.
func TestLacks(t *testing.T) {
	pool, err := registry.NewPool(registry.PoolConfig{Name: "p"})
	if err != nil {
		t.Fatal(err)
	}
	var all []*registry.Replica
	for _, u := range []string{"http://a:1", "http://b:1", "http://c:1"} {
		r, err := pool.Add(registry.ReplicaConfig{URL: u})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	a, b, c := all[0], all[1], all[2]
	now := time.Now()
	var l lacks
	check := func(what string, tried []*registry.Replica, adapter string, at time.Duration, want ...*registry.Replica) {
		t.Helper()
		if got := l.without(tried, all, adapter, now.Add(at)); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", what, names(got), names(want))
		}
	}
	check("nothing known", nil, "", 0)
	check("nothing known, one tried", all[:1], "", 0, a)
	l.note(b, b.Generation(), "", now)
	l.note(c, c.Generation(), "legal", now.Add(time.Second))
	check("the base model", nil, "", time.Second, b)
	check("an adapter", nil, "legal", time.Second, c)
	check("another adapter", nil, "sql", time.Second)
	check("with those tried", all[:2], "legal", time.Second, a, b, c)
	check("tried and lacking", all[1:2], "", time.Second, b)
	if all[1] != b || all[2] != c {
		t.Error("the replicas tried were written over")
	}
	l.note(a, a.Generation()+1, "", now)
	check("another start", nil, "", time.Second, b)
	check("later", nil, "", lackTime+time.Millisecond)
	check("later, noted later", nil, "legal", lackTime+time.Millisecond, c)
	check("at last", nil, "legal", 2*lackTime)
	if l.some.Load() || len(l.until) != 0 {
		t.Errorf("%d are remembered for ever", len(l.until))
	}
}

func names(replicas []*registry.Replica) (n []string) {
	for _, r := range replicas {
		n = append(n, r.Name())
	}
	return n
}
