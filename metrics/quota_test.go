package metrics_test

import (
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/expediterhq/expediter/metrics"
)

func TestWatchQuota(t *testing.T) {
	m := metrics.New(metrics.Config{})
	state := metrics.QuotaState{Down: true, Pending: 3, Dropped: 2}
	m.WatchQuota(func() metrics.QuotaState { return state })
	scrape := func() string {
		w := httptest.NewRecorder()
		m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		b, _ := io.ReadAll(w.Body)
		return string(b)
	}
	for _, want := range []string{"expediter_quota_down 1", "expediter_quota_pending_settlements 3", "expediter_quota_dropped_settlements_total 2"} {
		if got := scrape(); !strings.Contains(got, want+"\n") {
			t.Errorf("scrape has no line %q", want)
		}
	}
	state.Down = false
	if got := scrape(); !strings.Contains(got, "expediter_quota_down 0\n") {
		t.Error("scrape does not follow the state")
	}
}
