package router_test

import (
	"math"
	"testing"
	"time"

	"github.com/expediterhq/expediter/registry"
	"github.com/expediterhq/expediter/router"
)

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(1, math.Abs(b)) }

func TestMarginalCostTerms(t *testing.T) {
	// 10,000 tokens/s: a token costs 100 µs, a sequence 50 µs per step. The
	// pool's average request has 500 uncached tokens.
	p := newPool(t, 1, registry.PoolConfig{KVTokens: 20_000, Headroom: 0.5})
	r := p.Replicas()[0]
	for range 4 {
		l, ok := r.LeaseAt(registry.Claim{Prefill: 500, KV: 2000, Context: 2500}, t0)
		if !ok {
			t.Fatal("lease refused")
		}
		_ = l
	}
	tests := []struct {
		name string
		m    router.MarginalCost
		req  router.Request
		want router.Terms
	}{
		{
			name: "default weights", req: router.Request{Prompt: 1000, Output: 200, Cached: []int{200}},
			want: router.Terms{
				Wait:  (2000 + 800) * 1e-4,
				Crowd: 0.05 * 4 * 2000 * 1e-4,
				Stall: 0.2 * 4 * (800 + 500) * 1e-4,
				Decode: 0.025*200*(50e-6*4+1e-7*10_000) +
					0.025*200*4*(50e-6+1e-7*1100),
			},
		},
		{
			name: "beyond the headroom", req: router.Request{Prompt: 2500, Output: 100},
			want: router.Terms{
				Wait:     4500 * 1e-4,
				Crowd:    0.05 * 4 * 2000 * 1e-4,
				Stall:    0.2 * 4 * (2500 + 500) * 1e-4,
				Decode:   0.025 * 100 * (50e-6*4 + 1e-7*10_000 + 4*(50e-6+1e-7*2550)),
				Overflow: (1 + 0.2*4) * 600 * 1e-4,
			},
		},
		{
			name: "three choices", req: router.Request{Prompt: 1000, Output: 200, Sequences: 3},
			want: router.Terms{
				Wait:   3000 * 1e-4,
				Crowd:  0.05 * 4 * 2000 * 1e-4,
				Stall:  0.2 * 4 * (1000 + 500) * 1e-4,
				Decode: 0.025 * 200 * (50e-6*4 + 1e-7*10_000 + 4*(50e-6*3+1e-7*1300)),
			},
		},
		{
			name: "own weights", m: router.MarginalCost{Stall: -1, Decode: -1, Crowd: -1}, req: router.Request{Prompt: 1000, Output: 200},
			want: router.Terms{Wait: 3000 * 1e-4},
		},
		{
			name: "nothing to do", req: router.Request{},
			want: router.Terms{Wait: 2000 * 1e-4, Crowd: 0.05 * 4 * 2000 * 1e-4, Stall: 0.2 * 4 * 500 * 1e-4},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.req.Now = t0
			got := tt.m.Terms(&tt.req, 0, r)
			if !near(got.Wait, tt.want.Wait) || !near(got.Crowd, tt.want.Crowd) || !near(got.Stall, tt.want.Stall) ||
				!near(got.Decode, tt.want.Decode) || !near(got.Overflow, tt.want.Overflow) {
				t.Errorf("Terms = %+v, want %+v", got, tt.want)
			}
			cost := []float64{3}
			tt.m.Score(cost, &tt.req, p.Replicas())
			if !near(cost[0], 3+tt.want.Sum()) {
				t.Errorf("Score added %v, want %v", cost[0]-3, tt.want.Sum())
			}
		})
	}
}

func TestMarginalCostWeighsCacheAgainstLoad(t *testing.T) {
	tests := []struct {
		name   string
		loads  []standing
		cached []int
		want   int
	}{
		{"equal load: the holder", []standing{{3, 100, nil}, {3, 100, nil}}, []int{0, 900}, 1},
		{"a short line is worth a long hit", []standing{{0, 0, nil}, {2, 200, nil}}, []int{0, 900}, 1},
		{"a long line is not", []standing{{0, 0, nil}, {10, 900, nil}}, []int{0, 900}, 0},
		{"cold: the least pending", []standing{{5, 900, nil}, {5, 100, nil}}, nil, 1},
		{"equal pending: the smaller batch", []standing{{30, 0, nil}, {10, 0, nil}}, nil, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := poolWith(t, tt.loads...)
			d, err := router.New(router.Config{}).Pick(
				&router.Request{Prompt: 1000, Output: 200, Cached: tt.cached, Now: t0}, p.Replicas())
			if err != nil || d.Replica.Slot() != tt.want {
				t.Errorf("Pick = %v, %v, want r%d", name(d.Replica), err, tt.want)
			}
		})
	}
}

func TestParts(t *testing.T) {
	p, err := registry.NewPool(registry.PoolConfig{Name: "p", MaxLoRA: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, z := range []string{"a", "b", ""} {
		if _, err := p.Add(registry.ReplicaConfig{URL: "http://" + z + "0", Zone: z}); err != nil {
			t.Fatal(err)
		}
	}
	rs := p.Replicas()
	idle, _ := rs[0].LeaseAt(registry.Claim{Adapter: "x"}, t0)
	idle.Release()
	rs[1].LeaseAt(registry.Claim{Adapter: "y", Sequences: 3}, t0)
	rs[2].Failed(t0)
	rs[2].Failed(t0)
	tests := []struct {
		name   string
		scorer router.Scorer
		req    router.Request
		want   [3]float64
	}{
		// r0 holds x, r1 holds y with three requests, r2 nothing.
		{"adapter: resident, pinned, free", router.AdapterLoad{}, router.Request{Adapter: "x", Output: 100},
			[3]float64{0, 0.3*(1+0.2*3)*2 + 50*0.03, 0.3}},
		{"adapter: slot can be freed", router.AdapterLoad{Cost: 2 * time.Second, Stall: -1}, router.Request{Adapter: "y"}, [3]float64{4, 0, 2}},
		{"no adapter", router.AdapterLoad{}, router.Request{}, [3]float64{}},
		{"zone", router.Zone{Local: "a"}, router.Request{}, [3]float64{0, 0.002, 0}},
		{"zone: own figure", router.Zone{Local: "b", Cost: time.Second}, router.Request{}, [3]float64{1, 0, 0}},
		{"zone: nowhere", router.Zone{}, router.Request{}, [3]float64{}},
		{"suspicion", router.Suspicion{}, router.Request{}, [3]float64{0, 0, 2}},
		{"suspicion: own figure", router.Suspicion{Cost: time.Minute}, router.Request{}, [3]float64{0, 0, 120}},
		{"suspicion: just before it is tried again", router.Suspicion{}, router.Request{Now: t0.Add(10*time.Second - 1)}, [3]float64{0, 0, 2}},
		{"suspicion: tried again", router.Suspicion{}, router.Request{Now: t0.Add(10 * time.Second)}, [3]float64{}},
	}
	for _, tt := range tests {
		if tt.req.Now.IsZero() {
			tt.req.Now = t0
		}
		cost := make([]float64, 3)
		tt.scorer.Score(cost, &tt.req, rs)
		if !near(cost[0], tt.want[0]) || !near(cost[1], tt.want[1]) || !near(cost[2], tt.want[2]) {
			t.Errorf("%s: costs = %v, want %v", tt.name, cost, tt.want)
		}
	}
}

// A replica that fails at once always has the least in flight. It must not
// draw the traffic of a pool that may not eject it.
func TestFailingFastDoesNotAttract(t *testing.T) {
	p := newPool(t, 3, registry.PoolConfig{})
	rs := p.Replicas()
	rt := router.New(router.Config{})
	failed := 0
	for i := range 300 {
		d, err := rt.Pick(&router.Request{Key: uint64(i) * 7, Prompt: 500, Output: 50, Now: t0}, rs)
		if err != nil {
			t.Fatal(err)
		}
		if d.Replica == rs[2] {
			d.Lease.FirstTokenAt(t0)
			d.Lease.Succeeded(t0)
			continue // stays in flight
		}
		failed++
		d.Lease.Release()
		d.Replica.Failed(t0)
	}
	if failed > 20 {
		t.Errorf("%d of 300 requests went to the two that fail, want few", failed)
	}
}

func TestRequestCachedOn(t *testing.T) {
	p := newPool(t, 3, registry.PoolConfig{})
	rs := p.Replicas()
	tests := []struct {
		prompt, cached, block, want int
	}{
		{1000, 600, 16, 592},
		{1000, 640, 16, 640},
		{640, 640, 16, 624}, // the last token is always computed
		{640, 640, 0, 639},
		{1000, 900, 100, 900},
		{1000, 999, 100, 900},
		{0, 50, 16, 0},
		{10, -5, 16, 0},
	}
	for _, tt := range tests {
		q := router.Request{Prompt: tt.prompt, Cached: []int{0, tt.cached}, BlockSize: tt.block}
		if got := q.CachedOn(rs[1]); got != tt.want || q.Uncached(rs[1]) != tt.prompt-tt.want {
			t.Errorf("%+v: CachedOn = %d, Uncached = %d, want %d, %d", tt, got, q.Uncached(rs[1]), tt.want, tt.prompt-tt.want)
		}
		if got := q.CachedOn(rs[2]); got != 0 {
			t.Errorf("a slot beyond Cached: CachedOn = %d, want 0", got)
		}
	}
	q := router.Request{Prompt: 1000, Output: 50, Sequences: 3, Cached: []int{160}, BlockSize: 16, Adapter: "x"}
	if got, want := q.Claim(rs[0]), (registry.Claim{Prefill: 840, KV: 990, Context: 1075, Sequences: 3, Adapter: "x"}); got != want {
		t.Errorf("Claim = %+v, want %+v", got, want)
	}
}
