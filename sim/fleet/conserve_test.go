package fleet

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/expediterhq/expediter/admission"
	"github.com/expediterhq/expediter/quota"
	"github.com/expediterhq/expediter/registry"
	"github.com/expediterhq/expediter/router"
	"github.com/expediterhq/expediter/sim"
)

// seeds is how many random fleets are tried: under the race detector, which
// has no second goroutine to find here, a quarter.
func seeds(n uint64) uint64 {
	if Raced {
		return n / 4
	}
	return n
}

// small is a replica that a handful of requests fill.
func small(rnd *rand.Rand) sim.Profile {
	return sim.Profile{
		Name: "small", Base: 5 * time.Millisecond, Slope: 50 * time.Microsecond, KVToken: 1000, Pair: 100, BlockSize: 16,
		KVTokens: 2000 + rnd.IntN(6000), MaxBatchedTokens: 256 + rnd.IntN(512), MaxSeqs: 4 + rnd.IntN(28),
		AdapterCopy: time.Millisecond, AdapterDisk: 20 * time.Millisecond,
	}
}

// troubled is a fleet with everything that can go wrong, drawn by seed.
func troubled(seed uint64) (Config, *Trace) {
	rnd := rand.New(rand.NewPCG(seed, 7))
	names := router.Names()
	rule := names[rnd.IntN(len(names))]
	cfg := Config{
		Gateways: 1 + rnd.IntN(3), Direct: rnd.IntN(3) == 0, Seed: seed,
		Router: func(seed uint64) *router.Router {
			rt, err := router.ByName(rule, seed)
			if err != nil {
				panic(err)
			}
			return rt
		},
		Scrape:    []time.Duration{-1, 100 * time.Millisecond, time.Second}[rnd.IntN(3)],
		MetricAge: time.Duration(rnd.IntN(2)) * 300 * time.Millisecond,
		Delay:     time.Duration(rnd.IntN(3)) * 2 * time.Millisecond,
		MaxWait:   time.Duration(1+rnd.IntN(5)) * time.Second, FirstToken: 3 * time.Second, Silence: 2 * time.Second,
		SLO:  SLO{TTFT: time.Second, TPOT: 50 * time.Millisecond},
		Line: admission.Config{MaxWaiting: 20 + rnd.IntN(50)},
	}
	cfg.Tenant = func(name string) Tenant {
		if name != "tenant-0" {
			return Tenant{Tier: len(name) % 2}
		}
		return Tenant{Weight: 2, Limit: quota.Limit{Concurrency: 5, Windows: []quota.Window{{Name: "w", Rate: 2000, Burst: 4000}}}}
	}
	for range 2 + rnd.IntN(5) {
		cfg.Replicas = append(cfg.Replicas, Replica{Profile: small(rnd), Engine: sim.EngineConfig{MaxLoRAs: 1 + rnd.IntN(3)}})
	}
	late := &cfg.Replicas[len(cfg.Replicas)-1]
	late.Join, late.Leave = time.Duration(rnd.IntN(5))*time.Second, 15*time.Second
	for range rnd.IntN(12) {
		cfg.Changes = append(cfg.Changes, Change{
			At: time.Duration(rnd.IntN(20000)) * time.Millisecond, Replica: rnd.IntN(len(cfg.Replicas)), Do: Event(rnd.IntN(6)), Slow: 0.5 + 3*rnd.Float64(),
		})
	}
	wl := Workload{
		Rate: 5 + 40*rnd.Float64(), Duration: 20 * time.Second, Burst: rnd.Float64(), Period: 5 * time.Second,
		Groups: 1 + rnd.IntN(6), Zipf: 1, Shared: 16 * rnd.IntN(30), Prompt: 100, Output: 40, Spread: 1, Most: 1500,
		Tenants: 4, Adapters: rnd.IntN(2) * 4,
	}
	trace := wl.Trace(seed)
	for i := range trace.Requests {
		if i > 0 && rnd.IntN(5) == 0 {
			r := &trace.Requests[i]
			r.After, r.At = 1+rnd.IntN(i), time.Duration(rnd.IntN(2000))*time.Millisecond
		}
	}
	return cfg, trace
}

// Whatever fails, every request ends in exactly one way and nothing is kept:
// no lease, no place in a line, no reservation, no block.
func TestConservation(t *testing.T) {
	seen := Report{}
	for seed := range seeds(40) {
		cfg, trace := troubled(seed)
		w, err := newWorld(cfg.withDefaults(), trace)
		if err != nil {
			t.Fatal(err)
		}
		w.run()
		r := w.report()
		if r.Requests != len(trace.Requests) || r.Finished+r.Shed+r.Failed+r.Truncated != r.Requests {
			t.Errorf("seed %d: %d requests: %d finished, %d shed, %d failed, %d truncated", seed, r.Requests, r.Finished, r.Shed, r.Failed, r.Truncated)
		}
		if r.RuledOut != 0 {
			t.Errorf("seed %d: %d requests ruled out, by rules that never say Never", seed, r.RuledOut)
		}
		checkRest(t, seed, w, r)
		seen.Finished += r.Finished
		seen.Expired += r.Expired
		seen.OverQuota += r.OverQuota
		seen.Full += r.Full
		seen.Failed += r.Failed
		seen.Truncated += r.Truncated
		seen.Retried += r.Retried
		seen.Preemptions += r.Preemptions
		seen.Loads += r.Loads
	}
	for name, n := range map[string]int{
		"finished": seen.Finished, "expired": seen.Expired, "over quota": seen.OverQuota, "full": seen.Full, "failed": seen.Failed,
		"truncated": seen.Truncated, "retried": seen.Retried, "preempted": seen.Preemptions, "adapter loads": seen.Loads,
	} {
		if n == 0 && !Raced {
			t.Errorf("no run had any request %s: the test does not cover it", name)
		}
	}
	t.Logf("covered: %d finished, %d expired, %d over quota, %d full, %d failed, %d truncated, %d retried, %d preemptions",
		seen.Finished, seen.Expired, seen.OverQuota, seen.Full, seen.Failed, seen.Truncated, seen.Retried, seen.Preemptions)
}

func checkRest(t *testing.T, seed uint64, w *world, r *Report) {
	t.Helper()
	for _, g := range w.gateways {
		if g.line.Len() != 0 {
			t.Errorf("seed %d: %d left in a line", seed, g.line.Len())
		}
		if l := g.pool.Load(); l != (registry.Load{}) {
			t.Errorf("seed %d: books say %+v", seed, l)
		}
	}
	for _, n := range w.nodes {
		st := n.eng.Stats()
		if n.hung {
			continue
		}
		if st.Free != st.Usable || st.Running+st.Waiting != 0 || len(n.on) != 0 || n.inFlight != 0 {
			t.Errorf("seed %d: replica %d at rest: %+v, %d flights", seed, n.id, st, len(n.on))
		}
	}
	// What was answered was computed or found, whatever else was lost on the way.
	if e := r.Engines; e.Prefill+e.Cached < e.Prompt || int(e.Prompt) < r.InputTokens || int(e.Generated) < r.OutputTokens {
		t.Errorf("seed %d: %d tokens in, %d out of what finished; engines %+v", seed, r.InputTokens, r.OutputTokens, e)
	}
	if e := r.Engines; e.Preemptions == 0 && e.Abort == 0 && r.Retried == 0 && r.Truncated == 0 && r.Failed == 0 {
		if e.Prefill+e.Cached != e.Prompt || int(e.Prompt) != r.InputTokens || int(e.Generated) != r.OutputTokens {
			t.Errorf("seed %d: %d tokens in, %d out; engines %+v", seed, r.InputTokens, r.OutputTokens, e)
		}
	}
	sum := TenantReport{}
	for _, tn := range r.Tenants {
		sum.Requests += tn.Requests
		sum.Finished += tn.Finished
		sum.Shed += tn.Shed
		sum.Failed += tn.Failed
		b, err := w.quota.Balance(context.Background(), tn.Name)
		if err != nil || b.Running != 0 || b.Reserved != 0 {
			t.Errorf("seed %d: quota of %s: %+v, %v", seed, tn.Name, b, err)
		}
	}
	if sum.Requests != r.Requests || sum.Finished != r.Finished || sum.Shed != r.Shed || sum.Failed != r.Failed+r.Truncated {
		t.Errorf("seed %d: tenants sum up to %+v", seed, sum)
	}
}

// The same Config and Trace give the same Report, to the bit.
func TestDeterminism(t *testing.T) {
	for seed := range seeds(8) {
		var reports []*Report
		for range 2 {
			cfg, trace := troubled(seed)
			r, err := Run(cfg, trace)
			if err != nil {
				t.Fatal(err)
			}
			reports = append(reports, r)
		}
		if !reflect.DeepEqual(reports[0], reports[1]) {
			t.Errorf("seed %d: two runs differ:\n%v\n%v", seed, reports[0], reports[1])
		}
	}
}

func FuzzConservation(f *testing.F) {
	for seed := range uint64(3) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		cfg, trace := troubled(seed)
		w, err := newWorld(cfg.withDefaults(), trace)
		if err != nil {
			t.Fatal(err)
		}
		w.run()
		r := w.report()
		if r.Finished+r.Shed+r.Failed+r.Truncated != r.Requests || r.Requests != len(trace.Requests) {
			t.Errorf("%+v", r)
		}
		checkRest(t, seed, w, r)
	})
}

// The calendar is a priority queue that keeps the order of equal times.
func TestCalendar(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	var c calendar
	last := event{}
	for range 20000 {
		if rnd.IntN(3) > 0 || len(c.heap) == 0 {
			c.push(event{at: max(last.at, 0) + int64(rnd.IntN(50))})
			continue
		}
		e := c.pop()
		if e.at < last.at || e.at == last.at && e.seq < last.seq {
			t.Fatalf("%v comes after %v", fmt.Sprint(e.at, e.seq), fmt.Sprint(last.at, last.seq))
		}
		last = e
	}
}
