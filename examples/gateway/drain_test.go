package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/expediterhq/expediter/registry"
)

// TestDrainByReload: a replica that the file drains gets no requests, is the
// same replica all the time, and comes back when the file says so.
func TestDrainByReload(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gateway.yaml")
	read := func(second string) []*registry.Pool {
		t.Helper()
		file := strings.Replace(sound, "http://10.0.0.2:8000", second, 1)
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		_, p, err := load(path, "")
		if err != nil {
			t.Fatal(err)
		}
		return p.pools
	}
	pools := read("{url: http://10.0.0.2:8000, drain: true}")
	reg, err := registry.NewStatic(pools...)
	if err != nil {
		t.Fatal(err)
	}
	before := reg.Pools()[0].Replicas()
	for i, tc := range []struct {
		second string
		drains bool
	}{
		{"{url: http://10.0.0.2:8000, drain: true}", true},
		{"http://10.0.0.2:8000", false},
		{"{url: http://10.0.0.2:8000, drain: true, weight: 2}", true},
		{"{url: http://10.0.0.2:8000, drain: false}", false},
	} {
		pools := read(tc.second)
		as := drains(pools)
		if err := reg.Replace(pools...); err != nil {
			t.Fatal(err)
		}
		drain(reg.Pools(), as)
		now := reg.Pools()[0].Replicas()
		if now[0] != before[0] || now[1] != before[1] {
			t.Fatalf("reload %d: other replicas", i)
		}
		if now[1].Draining() != tc.drains || now[1].Routable(time.Now()) == tc.drains || now[0].Draining() {
			t.Errorf("reload %d: draining %t and %t, want false and %t", i, now[0].Draining(), now[1].Draining(), tc.drains)
		}
	}
}
