package metrics_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/expediterhq/expediter"
	"github.com/expediterhq/expediter/metrics"
)

// lines scrapes and reports which lines are missing.
func lines(t *testing.T, m *metrics.Metrics, want ...string) {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, line := range want {
		if !strings.Contains(w.Body.String(), line+"\n") {
			t.Errorf("scrape has no line %q", line)
		}
	}
}

func TestWatchKeys(t *testing.T) {
	m := metrics.New(metrics.Config{})
	state := metrics.KeyState{Keys: 5, Tenants: 3, Refused: 7, Limited: 2}
	m.WatchKeys(func() metrics.KeyState { return state })
	lines(t, m, "expediter_keys 5", "expediter_tenants 3", "expediter_authentications_refused_total 7", "expediter_authentications_limited_total 2")
	state.Refused++
	lines(t, m, "expediter_authentications_refused_total 8")
}

func TestWatchPrefixes(t *testing.T) {
	m := metrics.New(metrics.Config{})
	sizes := map[string]expediter.PrefixSize{"a": {Blocks: 4, Bytes: 100}, "\xff": {Blocks: 1, Bytes: 1}, "\xfe": {Blocks: 2, Bytes: 2}}
	m.WatchPrefixes(func() map[string]expediter.PrefixSize { return sizes })
	lines(t, m, `expediter_prefix_blocks{pool="a"} 4`, `expediter_prefix_bytes{pool="a"} 100`)
	delete(sizes, "a")
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if strings.Contains(w.Body.String(), `{pool="a"}`) || w.Code != 200 {
		t.Errorf("status %d, and a pool that is gone has series", w.Code)
	}
}
