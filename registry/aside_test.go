package registry_test

import (
	"testing"
	"time"

	"github.com/expediterhq/expediter/registry"
)

// TestSetAside: it takes room from others, and is nothing that the engine does.
func TestSetAside(t *testing.T) {
	r := newReplica(t, registry.PoolConfig{KVTokens: 1000})
	running := lease(t, r, registry.Claim{KV: 300}, 0)
	giveBack := r.SetAside(900) // there need be no room
	if got, want := r.Load(), (registry.Load{Requests: 1, Prefilling: 1, KV: 300}); got != want {
		t.Errorf("Load = %+v, want %+v", got, want)
	}
	if got, want := r.Estimate(at(0)), (registry.Load{Requests: 1, Prefilling: 1, KV: 1200}); got != want {
		t.Errorf("Estimate = %+v, want %+v", got, want)
	}
	var v registry.View
	if r.View(&v, at(0)); v.Load.KV != 1200 {
		t.Errorf("View: KV = %d, want 1200", v.Load.KV)
	}
	if _, ok := r.LeaseAt(registry.Claim{KV: 1}, at(0)); ok {
		t.Error("a claim was granted into room that is set aside")
	}
	running.Release()
	if _, ok := r.LeaseAt(registry.Claim{KV: 1001}, at(0)); ok {
		t.Error("a claim above the whole capacity was granted")
	}
	alone := lease(t, r, registry.Claim{KV: 1000}, 0) // whoever waits for the room cannot wait for more
	alone.Release()
	giveBack()
	giveBack()
	lease(t, r, registry.Claim{KV: 850}, 0)
	if got := r.Estimate(at(0)).KV; got != 850 {
		t.Errorf("Estimate: KV = %d after it was given back, want 850", got)
	}
}

// TestSetAsideDoesNotHideOthers: what the engine holds is compared with what is in
// flight there.
func TestSetAsideDoesNotHideOthers(t *testing.T) {
	r := newReplica(t, registry.PoolConfig{})
	defer r.SetAside(7000)()
	r.Report(registry.State{At: at(0), Running: 1, KVTokens: 8000, KVUsage: 0.5})
	if others, _ := r.Others(at(0)); others.KV != 4000 || others.Requests != 1 {
		t.Errorf("Others = %+v, want one request with 4000 KV tokens", others)
	}
}

// TestSetAsideIsNoWorkAndNoTrial: an idle replica is not frozen for it, and an
// ejected one may be tried.
func TestSetAsideIsNoWorkAndNoTrial(t *testing.T) {
	p := newPool(t, 4, registry.PoolConfig{})
	idle, out := p.Replicas()[0], p.Replicas()[1]
	defer idle.SetAside(100)()
	for i := range 60 {
		idle.Report(registry.State{At: at(time.Duration(i) * sec), Steps: 7})
	}
	wantRoutable(t, idle, 60*sec, true)
	fail(out, 3, 0)
	defer out.SetAside(100)()
	if l := lease(t, out, registry.Claim{}, 10*sec); !l.Trial() {
		t.Error("the first request after the pause is no trial")
	}
}
