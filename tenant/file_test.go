package tenant_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/expediterhq/expediter/quota"
	"github.com/expediterhq/expediter/tenant"
)

func TestParseFile(t *testing.T) {
	_, digest := newKey(t, nil)
	keys, err := tenant.ParseFile(fmt.Appendf(nil, `{"tenants": [{
		"id": "acme", "tier": 1, "weight": 2, "price": {"input": 1, "output": 3},
		"limit": {"concurrency": 64, "windows": [
			{"name": "minute", "tokens": 120, "per": "1m", "burst": 500},
			{"name": "day", "tokens": 86400, "per": "24h"},
			{"name": "none", "tokens": 5, "per": "1s", "burst": 0}]},
		"models": ["llama"], "ttft": "500ms", "tpot": "50ms", "isolate_prefix": true,
		"max_tokens": 4096, "default_max_tokens": 512, "allow_fields": ["priority"], "disabled": true,
		"keys": [{"digest": %q, "name": "ci", "expires": "2027-01-01T00:00:00Z"}, {"digest": "x"}]
	}, {"id": "idle"}]}`, digest))
	if err != nil {
		t.Fatal(err)
	}
	want := &tenant.Tenant{
		ID: "acme", Tier: 1, Weight: 2, Price: tenant.Price{Input: 1, Output: 3},
		Limit: quota.Limit{Concurrency: 64, Windows: []quota.Window{
			{Name: "minute", Rate: 2, Burst: 500}, {Name: "day", Rate: 1, Burst: 86400}, {Name: "none", Rate: 5}}},
		Models: []string{"llama"}, TTFT: 500 * time.Millisecond, TPOT: 50 * time.Millisecond, IsolatePrefix: true,
		MaxTokens: 4096, DefaultMaxTokens: 512, AllowFields: []string{"priority"}, Disabled: true,
	}
	if len(keys) != 2 || keys[0].Tenant != keys[1].Tenant {
		t.Fatalf("ParseFile = %v, want two keys of one tenant", keys)
	}
	if !reflect.DeepEqual(keys[0].Tenant, want) {
		t.Errorf("tenant = %+v, want %+v", keys[0].Tenant, want)
	}
	expires := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	if k := keys[0]; k.Digest != digest || k.Name != "ci" || !k.Expires.Equal(expires) {
		t.Errorf("key = %v %v, want ci until %v", k, k.Expires, expires)
	}
}

func TestParseFileRefuses(t *testing.T) {
	tests := []struct{ name, file, want string }{
		{"empty", "", "EOF"},
		{"cut", `{"tenants": [{"id": "a"`, "EOF"},
		{"unknown field", `{"tenants": [{"id": "a", "wieght": 1}]}`, "wieght"},
		{"null", "null", "missing"},
		{"empty object", "{}", "missing"},
		{"two values", `{"tenants": []} {}`, "nothing after"},
		{"bad duration", `{"tenants": [{"id": "a", "ttft": "soon"}]}`, "soon"},
		{"no per", `{"tenants": [{"id": "a", "limit": {"windows": [{"name": "m", "tokens": 1}]}}]}`, "tenants[0]: tenant: Limit.Windows[0].Per"},
		{"twice", `{"tenants": [{"id": "a"}, {"id": "a"}]}`, "tenants[1]: tenant: ID"},
		{"all at once", `{"tenants": [{"id": ""}, {"id": "a", "weight": -1}]}`, "tenants[1]: tenant: Weight"},
	}
	for _, tt := range tests {
		if _, err := tenant.ParseFile([]byte(tt.file)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want one with %q", tt.name, err, tt.want)
		}
	}
}

func FuzzParseFile(f *testing.F) {
	f.Add([]byte(`{"tenants": [{"id": "a", "keys": [{"digest": "00"}], "limit": {"windows": [{"name": "m", "tokens": 1, "per": "1m"}]}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		keys, err := tenant.ParseFile(data)
		if err != nil {
			return
		}
		for _, k := range keys {
			if err := k.Tenant.Validate(); err != nil {
				t.Errorf("ParseFile accepted a tenant that is wrong: %v", err)
			}
		}
	})
}

// file writes the file of one tenant with the given digests.
func file(t *testing.T, path string, digests ...string) {
	t.Helper()
	var b bytes.Buffer
	b.WriteString(`{"tenants": [{"id": "acme", "keys": [`)
	for i, d := range digests {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"digest": %q}`, d)
	}
	b.WriteString(`]}]}`)
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

// watched is a file of tenants that is watched, and two keys of which it may hold
// the digests.
type watched struct {
	t                *testing.T
	path             string
	a, b             string
	aDigest, bDigest string
	keys             *tenant.Keys

	mu      sync.Mutex
	reports []string
}

// watch begins to watch a file that holds a, every 4 s, until end is called.
func watch(t *testing.T) (w *watched, end func()) {
	w = &watched{t: t, path: filepath.Join(t.TempDir(), "tenants.json")}
	w.a, w.aDigest = newKey(t, nil)
	w.b, w.bDigest = newKey(t, nil)
	file(t, w.path, w.aDigest)
	var err error
	w.keys, err = tenant.Load(w.path, tenant.Config{Failures: tenant.LimiterConfig{Burst: 1000}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		done <- w.keys.Watch(ctx, tenant.WatchConfig{Path: w.path, Interval: 4 * time.Second, Report: func(err error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.reports = append(w.reports, fmt.Sprint(err))
		}})
	}()
	return w, func() {
		cancel()
		if err := <-done; err != context.Canceled {
			t.Errorf("Watch = %v, want context.Canceled", err)
		}
	}
}

// after reads 5 s later which of the two keys pass, and what was reported.
func (w *watched) after(step string, wantA, wantB bool, wantReport string) {
	w.t.Helper()
	time.Sleep(5 * time.Second)
	synctest.Wait()
	_, errA := w.keys.Authenticate(request("192.0.2.1:1", "Bearer "+w.a))
	_, errB := w.keys.Authenticate(request("192.0.2.1:1", "Bearer "+w.b))
	if (errA == nil) != wantA || (errB == nil) != wantB {
		w.t.Errorf("%s: a %v, b %v, want a valid %v, b valid %v", step, errA, errB, wantA, wantB)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if got := strings.Join(w.reports, "; "); !strings.Contains(got, wantReport) || (wantReport == "") != (got == "") {
		w.t.Errorf("%s: reported %q, want %q", step, got, wantReport)
	}
	w.reports = nil
}

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, end := watch(t)
		w.after("first content", true, false, "<nil>")
		w.after("no change", true, false, "")
		file(t, w.path, w.aDigest, w.bDigest)
		w.after("b added", true, true, "<nil>")
		stat, _ := os.Stat(w.path)
		file(t, w.path, w.bDigest, w.bDigest[:63]+"x") // same size
		os.Chtimes(w.path, stat.ModTime(), stat.ModTime())
		w.after("wrong digest, same size and time", true, true, "Keys[1]")
		os.WriteFile(w.path, []byte(`{"tenants": [{"id":`), 0o600)
		w.after("half written", true, true, "EOF")
		w.after("still half written", true, true, "")
		os.Remove(w.path)
		w.after("missing", true, true, "no such file")
		w.after("still missing", true, true, "")
		file(t, w.path, w.aDigest, w.bDigest)
		w.after("back as it was", true, true, "<nil>")
		os.Remove(w.path)
		w.after("missing again", true, true, "no such file")
		file(t, w.path, w.aDigest, w.bDigest)
		w.after("the same content again", true, true, "<nil>")
		file(t, w.path+".new", w.bDigest)
		os.Rename(w.path+".new", w.path)
		w.after("a revoked", false, true, "<nil>")
		end()
	})
}

func TestWatchRefusesLongIntervals(t *testing.T) {
	k := newKeys(t, tenant.Config{})
	for _, d := range []time.Duration{-1, 4*time.Second + 1} {
		if err := k.Watch(t.Context(), tenant.WatchConfig{Interval: d}); err == nil || !strings.Contains(err.Error(), "Interval") {
			t.Errorf("Watch with Interval %v = %v, want an error about it", d, err)
		}
	}
}

func TestLoadMissing(t *testing.T) {
	if _, err := tenant.Load(filepath.Join(t.TempDir(), "none"), tenant.Config{}); err == nil || !strings.HasPrefix(err.Error(), "tenant: ") {
		t.Errorf("Load = %v, want an error of package tenant", err)
	}
}
