package router_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/expediterhq/expediter/registry"
	"github.com/expediterhq/expediter/router"
)

// standing is the load of one replica: requests, each with so much prefill
// pending, and what it last reported.
type standing struct {
	requests, prefill int
	report            *registry.State
}

func poolWith(t testing.TB, loads ...standing) *registry.Pool {
	t.Helper()
	p := newPool(t, len(loads), registry.PoolConfig{})
	for i, r := range p.Replicas() {
		for range loads[i].requests {
			if _, ok := r.LeaseAt(registry.Claim{Prefill: loads[i].prefill, KV: 100, Context: 100}, t0); !ok {
				t.Fatal("lease refused")
			}
		}
		if s := loads[i].report; s != nil {
			s.At = t0
			r.Report(*s)
		}
	}
	return p
}

func reported(waiting int, kv float64) *registry.State {
	return &registry.State{Waiting: waiting, KVUsage: kv}
}

func TestPublishedRules(t *testing.T) {
	tests := []struct {
		name   string
		scorer router.Scorer
		loads  []standing
		cached []int // of 1,000 prompt tokens
		want   int   // slot
	}{
		{"least request", router.LeastRequest{}, []standing{{3, 0, nil}, {1, 9000, nil}, {2, 0, nil}}, nil, 1},

		{"blend follows the prefix", router.Blend{Prefix: 3, Queue: 2, KV: 2},
			[]standing{{0, 0, reported(0, 0)}, {0, 0, reported(2, 0)}}, []int{0, 900}, 1},
		{"blend gives way to queue and KV", router.Blend{Prefix: 3, Queue: 2, KV: 2},
			[]standing{{0, 0, reported(0, 0.1)}, {0, 0, reported(2, 0.2)}}, []int{0, 900}, 0},
		{"blend sees only the order of queues", router.Blend{Prefix: 3, Queue: 2, KV: 2},
			[]standing{{0, 0, reported(1000, 0.5)}, {0, 0, reported(1, 0.5)}}, []int{900, 0}, 0},

		{"sticky stays with the holder", router.Sticky{},
			[]standing{{9, 5000, nil}, {0, 0, nil}}, []int{800, 799}, 0},
		{"sticky takes the least pending holder", router.Sticky{},
			[]standing{{2, 1000, nil}, {1, 1500, nil}, {0, 0, nil}}, []int{900, 900, 0}, 1},
		{"sticky without a holder takes the least pending", router.Sticky{},
			[]standing{{2, 1000, nil}, {1, 1500, nil}, {9, 100, nil}}, []int{500, 0, 0}, 2},
		{"sticky lets go when saturated", router.Sticky{Peak: 1000, Wait: 1},
			[]standing{{2, 1000, nil}, {1, 900, nil}}, []int{1000, 0}, 1},
		{"sticky holds on just below saturation", router.Sticky{Peak: 1000, Wait: 1},
			[]standing{{2, 950, nil}, {1, 900, nil}}, []int{1000, 0}, 0},
		{"sticky, decode bound", router.Sticky{DecodeBound: true},
			[]standing{{3, 0, nil}, {2, 5000, nil}}, nil, 1},

		{"lmetric multiplies", router.LMetric{}, // (1000+1000)*3 against (400+1000)*5
			[]standing{{2, 500, nil}, {4, 100, nil}}, nil, 0},
		{"lmetric counts what is cached", router.LMetric{}, // 2000*3 against (400+100)*5
			[]standing{{2, 500, nil}, {4, 100, nil}}, []int{0, 900}, 1},
		{"lmetric, own tokens", router.LMetric{Own: true}, // 1000*3 against 1000*2
			[]standing{{2, 0, nil}, {1, 90_000, nil}}, nil, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := poolWith(t, tt.loads...)
			rt := router.New(router.Config{Scorers: []router.Scorer{tt.scorer}, Tie: -1})
			d, err := rt.Pick(&router.Request{Prompt: 1000, Cached: tt.cached, Now: t0}, p.Replicas())
			if err != nil || d.Replica.Slot() != tt.want {
				t.Errorf("Pick = %v, %v, want r%d", name(d.Replica), err, tt.want)
			}
		})
	}
}

func TestRoundRobinTakesTurns(t *testing.T) {
	p := newPool(t, 3, registry.PoolConfig{KVTokens: 1000})
	rt, err := router.ByName("roundrobin", 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []int
	for range 7 {
		d, err := rt.Pick(&router.Request{Prompt: 10, Now: t0}, p.Replicas())
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, d.Replica.Slot())
	}
	if want := []int{0, 1, 2, 0, 1, 2, 0}; !slices.Equal(got, want) {
		t.Errorf("order = %v, want %v", got, want)
	}
	p.Replicas()[1].LeaseAt(registry.Claim{KV: 800}, t0)
	d, err := rt.Pick(&router.Request{Prompt: 100, Now: t0}, p.Replicas())
	if err != nil || d.Replica.Slot() != 2 {
		t.Errorf("with no room on the one in turn: %v, %v, want the next", name(d.Replica), err)
	}
}

func TestPowerOfTwoChoices(t *testing.T) {
	p := poolWith(t, standing{requests: 5}, standing{requests: 1}, standing{requests: 9}, standing{requests: 3})
	rank := []int{1, 3, 0, 2} // how many have more requests
	run := func(seed uint64) (order []int, count [4]int) {
		rt, err := router.ByName("p2c", seed)
		if err != nil {
			t.Fatal(err)
		}
		for range 6000 {
			d, err := rt.Pick(&router.Request{Now: t0}, p.Replicas())
			if err != nil {
				t.Fatal(err)
			}
			order = append(order, d.Replica.Slot())
			count[d.Replica.Slot()]++
			d.Lease.Release()
		}
		return order, count
	}
	order, count := run(1)
	// Of the six pairs, each equally likely, a replica wins one for every
	// other that has more requests.
	for slot, n := range count {
		if want := 1000 * rank[slot]; n < want*9/10 || n > want*11/10 {
			t.Errorf("slot %d was chosen %d times of 6000, want %d ± 10 %%", slot, n, want)
		}
	}
	if again, _ := run(1); !slices.Equal(order, again) {
		t.Error("the same seed gave other draws")
	}
	if other, _ := run(2); slices.Equal(order, other) {
		t.Error("another seed gave the same draws")
	}
	one := newPool(t, 1, registry.PoolConfig{})
	rt, _ := router.ByName("p2c", 1)
	if d, err := rt.Pick(&router.Request{Now: t0}, one.Replicas()); err != nil || d.Replica.Slot() != 0 {
		t.Errorf("one replica: Pick = %v, %v, want that one", name(d.Replica), err)
	}
}

func TestBoundedHash(t *testing.T) {
	p := newPool(t, 8, registry.PoolConfig{})
	rt, err := router.ByName("chwbl", 0)
	if err != nil {
		t.Fatal(err)
	}
	pick := func(key uint64) router.Decision {
		t.Helper()
		d, err := rt.Pick(&router.Request{Key: key, Now: t0}, p.Replicas())
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	home := map[uint64]int{}
	count := make([]int, 8)
	for key := range uint64(4000) {
		d := pick(key)
		home[key] = d.Replica.Slot()
		count[d.Replica.Slot()]++
		d.Lease.Release()
	}
	if slices.Min(count) < 400 || slices.Max(count) > 600 {
		t.Errorf("homes of 4000 keys spread as %v, want about 500 each", count)
	}
	// One hot key alone: no replica goes above 125 % of the mean, rounded up.
	for i := range 400 {
		pick(42)
		total, most := p.Load().Requests, 0
		for _, r := range p.Replicas() {
			most = max(most, r.Load().Requests)
		}
		if limit := (total*125 + 799) / 800; most > limit {
			t.Fatalf("after %d requests one replica has %d, want at most %d", i+1, most, limit)
		}
	}
	// A replica that leaves takes only its own keys along.
	q := newPool(t, 8, registry.PoolConfig{})
	gone := q.Replicas()[3]
	q.Remove(gone)
	for key := range uint64(4000) {
		d, err := rt.Pick(&router.Request{Key: key, Now: t0}, q.Replicas())
		if err != nil {
			t.Fatal(err)
		}
		if home[key] != 3 && d.Replica.Slot() != home[key] {
			t.Fatalf("key %d moved from %d to %d though neither left", key, home[key], d.Replica.Slot())
		}
		d.Lease.Release()
	}
}

// Requests that share as much as is hashed meet on one replica, whatever they
// go on with; those that part before do not.
func TestBoundedHashDepth(t *testing.T) {
	p := newPool(t, 8, registry.PoolConfig{})
	chain := func(shared, own uint64, n int) (blocks []uint64) { // 16 tokens each, parting behind shared
		for i := range uint64(n) {
			h := 1000 + i
			if i >= shared {
				h += own << 32
			}
			blocks = append(blocks, h)
		}
		return blocks
	}
	homes := func(depth int, shared uint64, n int) int {
		rt := router.New(router.Config{Scorers: []router.Scorer{router.BoundedHash{Depth: depth}}, Tie: -1})
		seen := map[*registry.Replica]bool{}
		for own := range uint64(50) {
			d, err := rt.Pick(&router.Request{Key: 1000, Blocks: chain(shared, own+1, n), BlockSize: 16, Now: t0}, p.Replicas())
			if err != nil {
				t.Fatal(err)
			}
			seen[d.Replica] = true
			d.Lease.Release()
		}
		return len(seen)
	}
	for _, tt := range []struct {
		depth  int
		shared uint64
		blocks int
		one    bool
	}{
		{0, 64, 100, true}, {0, 63, 100, false}, // 1,024 tokens
		{32, 2, 100, true}, {32, 1, 100, false},
		{33, 2, 100, true},  // a depth falls on a block's end
		{5, 1, 100, true},   // and is at least one block
		{0, 10, 10, true},   // a short prompt is hashed whole
		{0, 10, 11, false},  //
		{320, 20, 20, true}, // as deep as the prompt is long
	} {
		if n := homes(tt.depth, tt.shared, tt.blocks); (n == 1) != tt.one {
			t.Errorf("depth %d, %d of %d blocks shared: %d homes", tt.depth, tt.shared, tt.blocks, n)
		}
	}
}

// Without Peak, the limit is what the holder has been seen to prefill.
func TestStickyKnowsTheHolder(t *testing.T) {
	for _, tt := range []struct {
		rate float64 // tokens/s
		want int
	}{{10_000, 0}, {100, 1}} {
		p := newPool(t, 2, registry.PoolConfig{PrefillRate: tt.rate})
		if _, ok := p.Replicas()[0].LeaseAt(registry.Claim{Prefill: 2000, KV: 100, Context: 100}, t0); !ok {
			t.Fatal("lease refused")
		}
		rt := router.New(router.Config{Scorers: []router.Scorer{router.Sticky{}}, Tie: -1}) // lets go at 14 s of prefill
		d, err := rt.Pick(&router.Request{Prompt: 1000, Cached: []int{900, 0}, Now: t0}, p.Replicas())
		if err != nil || d.Replica.Slot() != tt.want {
			t.Errorf("at %v tokens/s: Pick = %v, %v, want r%d", tt.rate, name(d.Replica), err, tt.want)
		}
	}
}

func TestByName(t *testing.T) {
	p := newPool(t, 3, registry.PoolConfig{})
	for _, n := range router.Names() {
		rt, err := router.ByName(n, 7)
		if err != nil {
			t.Errorf("ByName(%q) = %v, want a Router", n, err)
			continue
		}
		if _, err := rt.Pick(&router.Request{Prompt: 10, Now: t0}, p.Replicas()); err != nil {
			t.Errorf("%s: Pick = %v, want a replica", n, err)
		}
	}
	if _, err := router.ByName("best", 0); err == nil || !strings.Contains(err.Error(), "chwbl") {
		t.Errorf("ByName of an unknown rule = %v, want an error that lists the known ones", err)
	}
}

// Equal costs are decided by what tells conversations apart, so that a block
// that all prompts share does not send them all to one replica.
func TestTiesFollowThePrompt(t *testing.T) {
	p := newPool(t, 8, registry.PoolConfig{})
	rt := router.New(router.Config{Scorers: []router.Scorer{}})
	blocks := make([]uint64, 100)
	for i := range blocks {
		blocks[i] = uint64(i + 1)
	}
	home := func(shared int, own uint64) string {
		mine := slices.Clone(blocks)
		for i := shared; i < len(mine); i++ {
			mine[i] += own << 32
		}
		d, err := rt.Pick(&router.Request{Key: 1, Blocks: mine, BlockSize: 16, Now: t0}, p.Replicas())
		if err != nil {
			t.Fatal(err)
		}
		return d.Replica.Name()
	}
	first, system := map[string]bool{}, map[string]bool{}
	for own := range uint64(100) {
		first[home(1, own+1)] = true
		system[home(64, own+1)] = true
	}
	if len(first) != 8 || len(system) != 1 {
		t.Errorf("prompts with one block in common went to %d of 8 replicas, with 64 to %d, want 8 and 1", len(first), len(system))
	}
}
