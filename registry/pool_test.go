package registry_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/expediterhq/expediter/registry"
)

func TestReplicaConfigIsChecked(t *testing.T) {
	tests := []struct {
		cfg  registry.ReplicaConfig
		want string // part of the error; empty = accepted
	}{
		{registry.ReplicaConfig{Name: "a", URL: "http://10.0.0.1:8000"}, ""},
		{registry.ReplicaConfig{URL: "https://gpu-1.example:8443/base"}, ""},
		{registry.ReplicaConfig{Name: "a", URL: "http://[::1]:8000", Weight: 2}, ""},
		{registry.ReplicaConfig{Name: "a"}, "scheme http or https"},
		{registry.ReplicaConfig{Name: "a", URL: "10.0.0.1:8000"}, "got none"},
		{registry.ReplicaConfig{URL: "gpu-1:8000"}, `replica "gpu-1:8000": url: expected scheme http or https, as in http://host:port, got none`},
		{registry.ReplicaConfig{Name: "a", URL: "http://gpu 1:8000"}, "character that no host may have"},
		{registry.ReplicaConfig{Name: "a", URL: "http://gpu-1:8000\n"}, "line break"},
		{registry.ReplicaConfig{Name: "a", URL: "http://gpu-1:80a"}, "port that is not a number"},
		{registry.ReplicaConfig{Name: "a", URL: "http://gpu-1/%zz"}, "hexadecimal"},
		{registry.ReplicaConfig{Name: "a", URL: "http://[::1"}, "not an address"},
		{registry.ReplicaConfig{Name: "a", URL: "http://gpu-1:"}, "port from 1 to 65535"},
		{registry.ReplicaConfig{Name: "a", URL: "http://gpu-1:0"}, "port from 1 to 65535"},
		{registry.ReplicaConfig{Name: "a", URL: "http://gpu-1:65536"}, "port from 1 to 65535"},
		{registry.ReplicaConfig{Name: "a", URL: "http://user:secret@gpu-1:8o"}, "port that is not a number"},
		{registry.ReplicaConfig{URL: "http://user:sec/secret@gpu-1"}, "port that is not a number"},
		{registry.ReplicaConfig{Name: "a", URL: "http://gpu-1:8000/v1"}, "base address without /v1"},
		{registry.ReplicaConfig{Name: "a", URL: "http://gpu-1:8000/v1/"}, "base address without /v1"},
		{registry.ReplicaConfig{Name: "a", URL: "http://gpu-1:8000/base/v1/chat/completions"}, "base address without /v1"},
		{registry.ReplicaConfig{Name: "a", URL: "http://gpu-1:8000/v1/gpu-7"}, ""},
		{registry.ReplicaConfig{Name: "a", URL: "http://gpu-1:65535/v10"}, ""},
		{registry.ReplicaConfig{Name: "a", URL: "http://"}, "expected a host"},
		{registry.ReplicaConfig{Name: "a", URL: "file:///etc/passwd"}, "scheme http or https"},
		{registry.ReplicaConfig{Name: "a", URL: "gopher://10.0.0.1:70"}, "scheme http or https, got gopher"},
		{registry.ReplicaConfig{Name: "a", URL: "http://user:secret@10.0.0.1"}, "no credentials"},
		{registry.ReplicaConfig{Name: "a", URL: "http://:8000"}, "expected a host"},
		{registry.ReplicaConfig{Name: "a", URL: "http:10.0.0.1"}, "expected a host"},
		{registry.ReplicaConfig{Name: "a", URL: "http://10.0.0.1/?x=1"}, "no query"},
		{registry.ReplicaConfig{Name: "a", URL: "http://10.0.0.1", Weight: -1}, "weight: expected"},
	}
	for _, tt := range tests {
		p := newPool(t, 0, registry.PoolConfig{})
		_, err := p.Add(tt.cfg)
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("Add(%+v) = %v, want it accepted", tt.cfg, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("Add(%+v) = %v, want an error with %q", tt.cfg, err, tt.want)
		case err != nil && strings.Contains(err.Error(), "secret"):
			t.Errorf("the error repeats the credentials: %v", err)
		}
	}
	p := newPool(t, 1, registry.PoolConfig{})
	if _, err := p.Add(registry.ReplicaConfig{Name: "0", URL: "http://10.0.0.9"}); err == nil || !strings.Contains(err.Error(), "taken") {
		t.Errorf("Add of a taken name = %v, want an error that says so", err)
	}
}

// TestOneAddressIsOneReplica: however it is spelled, and whatever its name.
func TestOneAddressIsOneReplica(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		same bool
	}{
		{"http://h:1", "http://h:1/", true},
		{"http://h:1", "http://h:1//", true},
		{"http://h:1/base", "http://h:1/base/", true},
		{"http://h:1", "HTTP://H:1", true},
		{"http://h", "http://h:80/", true},
		{"https://h:443", "https://h", true},
		{"http://h:443", "https://h", false},
		{"http://h:1", "http://h:2", false},
		{"http://h:1", "http://h:1/base", false},
		{"http://h:1/base", "http://h:1/Base", false},
	} {
		p := newPool(t, 0, registry.PoolConfig{})
		a, err := p.Add(registry.ReplicaConfig{URL: tt.a})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"", "b"} {
			b, err := p.Add(registry.ReplicaConfig{Name: name, URL: tt.b})
			if got := err != nil; got != tt.same {
				t.Errorf("%s and %s named %q: %v, want an error: %v", tt.a, tt.b, name, err, tt.same)
			}
			if want := fmt.Sprintf("url: is taken by replica %q", a.Name()); err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("error = %v, want %s", err, want)
			}
			if err == nil {
				p.Remove(b)
			}
		}
	}
	r := newPool(t, 0, registry.PoolConfig{})
	a, err := r.Add(registry.ReplicaConfig{URL: "http://H:1/base/"})
	if err != nil || a.URL() != "http://h:1/base" || a.Name() != a.URL() || a.Target().String() != a.URL() {
		t.Errorf("%q at %q, %v, want both http://h:1/base", a.Name(), a.URL(), err)
	}
}

func TestHeadroom(t *testing.T) {
	for _, tt := range []struct {
		given, want float64
		bad         bool
	}{{0, 0.15, false}, {0.5, 0.5, false}, {registry.NoHeadroom, 0, false}, {-0.01, 0, true}, {-2, 0, true}, {1, 0, true}, {math.NaN(), 0, true}} {
		p, err := registry.NewPool(registry.PoolConfig{Name: "p", Headroom: tt.given})
		if (err != nil) != tt.bad {
			t.Errorf("Headroom %v: %v, want an error: %v", tt.given, err, tt.bad)
		} else if err == nil && p.Config().Headroom != tt.want {
			t.Errorf("Headroom %v became %v, want %v", tt.given, p.Config().Headroom, tt.want)
		}
	}
}

func TestNegativeDurationsAreRefused(t *testing.T) {
	for name, cfg := range map[string]registry.PoolConfig{
		"stale after:":  {StaleAfter: -1},
		"step time:":    {StepTime: -1},
		"adapter load:": {AdapterLoad: -1},
		"pause:":        {Eject: registry.EjectConfig{Pause: -1}},
		"max pause:":    {Eject: registry.EjectConfig{Pause: -1, MaxPause: -1}},
		"dwell:":        {Eject: registry.EjectConfig{Dwell: -1}},
		"frozen:":       {Eject: registry.EjectConfig{Frozen: -1}},
	} {
		cfg.Name = "p"
		if _, err := registry.NewPool(cfg); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s NewPool = %v, want an error that names it", name, err)
		}
	}
	_, err := registry.NewDNS(newPool(t, 0, registry.PoolConfig{}), registry.DNSConfig{Host: "h", Port: 1, Interval: -1, Timeout: -1, Misses: -1})
	for _, name := range []string{"interval:", "timeout:", "misses:"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("NewDNS = %v, want an error that names %s", err, name)
		}
	}
	if _, err := registry.OpenFile(registry.FileConfig{Interval: -1}); err == nil || !strings.Contains(err.Error(), "interval:") {
		t.Errorf("OpenFile = %v, want an error that names the interval", err)
	}
}

func TestPoolConfigErrorsNameEveryMistake(t *testing.T) {
	_, err := registry.NewPool(registry.PoolConfig{
		Headroom: -0.1, KVTokens: -1, BlockSize: -1, StaleAfter: -1, PrefillRate: 1, StepTime: time.Hour, MaxLoRA: -1, AdapterLoad: -1,
		Eject: registry.EjectConfig{Failures: -1, Misses: -1, Pause: 2, MaxPause: 1, Dwell: -1, Frozen: -1},
	})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, field := range []string{"name:", "headroom:", "kv tokens:", "block size:", "stale after:", "prefill rate:", "step time:",
		"max lora:", "adapter load:", "failures:", "misses:", "max pause:", "dwell:", "frozen:"} {
		if !strings.Contains(err.Error(), field) {
			t.Errorf("the error does not name %q: %v", field, err)
		}
	}
}

func TestSlotsAreReusedUnderANewGeneration(t *testing.T) {
	p := newPool(t, 3, registry.PoolConfig{})
	old := p.Replicas()[1]
	snapshot := p.Replicas()
	p.Remove(old)
	p.Remove(old)
	if len(snapshot) != 3 || snapshot[1] != old || len(p.Replicas()) != 2 || p.Slots() != 3 {
		t.Errorf("snapshot has %d, pool has %d members and %d slots; want 3, 2, 3", len(snapshot), len(p.Replicas()), p.Slots())
	}
	r, err := p.Add(registry.ReplicaConfig{Name: "1", URL: "http://10.0.0.2:8000"})
	if err != nil {
		t.Fatal(err)
	}
	if r.Slot() != 1 || r.Generation() == old.Generation() {
		t.Errorf("slot %d, generation %d after %d; want slot 1 and another generation", r.Slot(), r.Generation(), old.Generation())
	}
	p.Remove(p.Replicas()[2])
	p.Remove(p.Replicas()[1])
	if p.Slots() != 1 {
		t.Errorf("Slots = %d with one member in slot 0, want 1", p.Slots())
	}
}

func TestLeaseOutlivesMembership(t *testing.T) {
	p := newPool(t, 2, registry.PoolConfig{})
	r := p.Replicas()[0]
	l := lease(t, r, registry.Claim{KV: 10}, 0)
	p.Remove(r)
	if r.Routable(t0) || r.Load().KV != 10 || p.Load().KV != 0 {
		t.Errorf("after Remove: routable %v, its load %+v, the pool's %+v, want false, 10 KV and none", r.Routable(t0), r.Load(), p.Load())
	}
	l.Release()
	if r.Load() != (registry.Load{}) {
		t.Errorf("Load after Release = %+v, want none", r.Load())
	}
}

func TestOnChange(t *testing.T) {
	p := newPool(t, 1, registry.PoolConfig{})
	n := 0
	stop := p.OnChange(func() {
		n++
		p.OnChange(func() {})() // no lock is held
	})
	r := p.Replicas()[0]
	var l registry.Lease
	steps := []struct {
		name string
		do   func()
		want int
	}{
		{"lease", func() { l = lease(t, r, registry.Claim{KV: 1}, 0) }, 0},
		{"first token", func() { l.FirstToken() }, 1},
		{"first token again", func() { l.FirstToken() }, 0},
		{"release", func() { l.Release() }, 1},
		{"release again", func() { l.Release() }, 0},
		{"report", func() { r.Report(registry.State{At: t0}) }, 1},
		{"add", func() { _, _ = p.Add(registry.ReplicaConfig{URL: "http://10.0.0.7"}) }, 1},
		{"remove", func() { p.Remove(p.Replicas()[1]) }, 1},
		{"restart", func() { r.Restarted() }, 1},
		{"drain", func() { r.Drain() }, 1},
		{"resume", func() { r.Resume() }, 1},
	}
	for _, s := range steps {
		n = 0
		s.do()
		if n != s.want {
			t.Errorf("%s: %d calls, want %d", s.name, n, s.want)
		}
	}
	other := 0
	p.OnChange(func() { other++ })
	stop()
	stop()
	n = 0
	if r.Drain(); n != 0 || other != 1 {
		t.Errorf("after stop: %d calls, and %d of another; want 0 and 1", n, other)
	}
}

func TestReplaceKeepsWhatIsUnchanged(t *testing.T) {
	build := func(name string, headroom float64, urls ...string) *registry.Pool {
		p, err := registry.NewPool(registry.PoolConfig{Name: name, Headroom: headroom, KVTokens: 1000})
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range urls {
			if _, err := p.Add(registry.ReplicaConfig{URL: u, Zone: name + u}); err != nil {
				t.Fatal(err)
			}
		}
		return p
	}
	s, err := registry.NewStatic(build("big", 0, "http://a", "http://b"), build("old", 0, "http://x"))
	if err != nil {
		t.Fatal(err)
	}
	big, _ := s.Pool("big")
	b := big.Replicas()[1]
	l := lease(t, b, registry.Claim{KV: 600}, 0)
	changes := 0
	big.OnChange(func() { changes++ })

	if err := s.Replace(build("big", 0.5, "http://c", "http://b"), build("new", 0)); err != nil {
		t.Fatal(err)
	}
	if now, ok := s.Pool("big"); !ok || now != big || changes == 0 {
		t.Errorf("the pool of the same name is another, or OnChange was not called (%d)", changes)
	}
	if _, ok := s.Pool("old"); ok {
		t.Error("a pool that was left out is still there")
	}
	if ps := s.Pools(); len(ps) != 2 || ps[0].Name() != "big" || ps[1].Name() != "new" {
		t.Errorf("Pools = %v, want big and new", ps)
	}
	rs := big.Replicas()
	if len(rs) != 2 || rs[0].Name() != "http://c" || rs[1] != b || b.Load().KV != 600 || b.Slot() != 1 {
		t.Errorf("members = %v, kept one has load %+v in slot %d, want the new one, and the kept one with 600 KV in slot 1", rs, b.Load(), b.Slot())
	}
	if rs[0].Slot() == b.Slot() || rs[0].Pool() != big {
		t.Errorf("the newcomer is in slot %d of %p, want another slot of %p", rs[0].Slot(), rs[0].Pool(), big)
	}
	moved := build("big", 0.5, "http://c")
	if _, err := moved.Add(registry.ReplicaConfig{URL: "http://b", Zone: "elsewhere", Weight: 2}); err != nil {
		t.Fatal(err)
	}
	if err := s.Replace(moved, build("new", 0)); err != nil {
		t.Fatal(err)
	}
	if big.Replicas()[1] != b || b.Zone() != "elsewhere" || b.Weight() != 2 || b.Load().KV != 600 {
		t.Errorf("zone %q, weight %v, load %+v after a change of zone and weight only", b.Zone(), b.Weight(), b.Load())
	}
	if _, ok := b.LeaseAt(registry.Claim{KV: 1}, t0); ok {
		t.Error("600 of 500 held and one more granted: the new headroom is not in force")
	}
	l.Release()

	before := big.Replicas()
	if err := s.Replace(build("big", 0), build("big", 0)); err == nil {
		t.Error("two pools of one name were accepted")
	}
	if got := big.Replicas(); len(got) != len(before) || got[0] != before[0] {
		t.Error("an invalid Replace changed something")
	}
	if err := s.Replace(nil); err == nil {
		t.Error("a nil pool was accepted")
	}
}

func TestAdapterResidency(t *testing.T) {
	r := newReplica(t, registry.PoolConfig{MaxLoRA: 2})
	use := func(name string) registry.Lease { return lease(t, r, registry.Claim{Adapter: name}, 0) }
	check := func(when string, want ...string) {
		t.Helper()
		for _, name := range []string{"a", "b", "c", "d"} {
			in := false
			for _, w := range want {
				in = in || w == name
			}
			if got := r.Holds(name); got != in {
				t.Errorf("%s: Holds(%s) = %v, want %v", when, name, got, in)
			}
		}
		if held, _, _ := r.Adapters(); held != len(want) {
			t.Errorf("%s: holds %d, want %d", when, held, len(want))
		}
	}
	a, b := use("a"), use("b")
	check("two slots, two adapters", "a", "b")
	a.Release()
	b.Release()
	a = use("a")
	c := use("c")
	check("the least recently used went", "a", "c")
	use("b")
	check("both are pinned by requests: it is deferred, then loaded", "a", "b", "c")
	if held, pinned, slots := r.Adapters(); held != 3 || pinned != 3 || slots != 2 {
		t.Errorf("Adapters = %d, %d, %d, want 3 held, 3 pinned, 2 slots", held, pinned, slots)
	}
	a.Release()
	c.Release()
	r.Report(registry.State{At: t0, MaxLoRA: 3, Adapters: []string{"d"}})
	check("somebody else's request showed one", "b", "c", "d")
	if _, _, slots := r.Adapters(); slots != 3 {
		t.Errorf("slots = %d, want the reported 3", slots)
	}
	r.Restarted()
	check("after a restart")
}

func TestEpochGrowsWithEveryChange(t *testing.T) {
	p := newPool(t, 2, registry.PoolConfig{})
	r := p.Replicas()[0]
	r.Report(registry.State{At: t0, Steps: 10})
	steps := []struct {
		name  string
		do    func()
		grows bool
	}{
		{"add", func() { _, _ = p.Add(registry.ReplicaConfig{Name: "x", URL: "http://10.0.0.9"}) }, true},
		{"add refused", func() { _, _ = p.Add(registry.ReplicaConfig{Name: "x", URL: "http://10.0.0.9"}) }, false},
		{"remove", func() { p.Remove(p.Replicas()[2]) }, true},
		{"restart told", func() { r.Restarted() }, true},
		{"report", func() { r.Report(registry.State{At: t0, Steps: 20}) }, false},
		{"restart seen", func() { r.Report(registry.State{At: at(sec), Steps: 1}) }, true},
		{"lease", func() { l := lease(t, r, registry.Claim{KV: 1}, sec); l.Release() }, false},
		{"ejection", func() { fail(r, 3, sec) }, false},
	}
	for _, s := range steps {
		before := p.Epoch()
		s.do()
		if got := p.Epoch() > before; got != s.grows {
			t.Errorf("%s: the epoch grew: %v, want %v", s.name, got, s.grows)
		}
	}
}

func TestTarget(t *testing.T) {
	p := newPool(t, 0, registry.PoolConfig{})
	r, err := p.Add(registry.ReplicaConfig{URL: "https://gpu:8443/base"})
	if err != nil {
		t.Fatal(err)
	}
	if u := r.Target(); u.Scheme != "https" || u.Host != "gpu:8443" || u.Path != "/base" || u.String() != r.URL() {
		t.Errorf("Target = %+v, want %s", u, r.URL())
	}
}

func TestAdapterLoadIsLearned(t *testing.T) {
	p := newPool(t, 1, registry.PoolConfig{MaxLoRA: 2, PrefillRate: 10_000})
	r := p.Replicas()[0]
	if got := p.AdapterLoad(); got != 300*time.Millisecond {
		t.Fatalf("AdapterLoad = %v at first, want the configured 300ms", got)
	}
	rate := r.PrefillRate()
	now := time.Duration(0)
	for i := range 60 { // three adapters in two slots: each has to be loaded
		l := lease(t, r, registry.Claim{Prefill: 1000, Adapter: []string{"a", "b", "c"}[i%3]}, now)
		now += 100*time.Millisecond + 2*time.Second
		l.FirstTokenAt(at(now))
		l.Release()
	}
	if got := p.AdapterLoad(); got < 1800*time.Millisecond || got > 2200*time.Millisecond {
		t.Errorf("AdapterLoad = %v, want about 2s", got)
	}
	if got := r.PrefillRate(); got != rate {
		t.Errorf("PrefillRate went from %v to %v by loads of adapters", rate, got)
	}
	for range 20 { // it is there: nothing is learned of loading
		l := lease(t, r, registry.Claim{Prefill: 1000, Adapter: "c"}, now)
		now += 100 * time.Millisecond
		l.FirstTokenAt(at(now))
		l.Release()
	}
	if got := p.AdapterLoad(); got < 1800*time.Millisecond {
		t.Errorf("AdapterLoad = %v after requests that loaded none", got)
	}
}
