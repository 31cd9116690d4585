package expediter_test

import (
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/expediterhq/expediter/registry"
)

// TestOneRequestForATrial: while the failure of a trial is not counted yet, no
// other request is let through to the replica.
func TestOneRequestForATrial(t *testing.T) {
	var answered atomic.Int32
	inMemory(t, option{replicas: 2, config: firstFirst, front: func(i int, next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if i == 0 && r.Method == http.MethodPost {
				io.Copy(io.Discard, r.Body)
				answered.Add(1)
				http.Error(w, "no", http.StatusInternalServerError)
				return
			}
			next.ServeHTTP(w, r)
		})
	}}, func(t *testing.T, h *house) {
		time.Sleep(3 * time.Second) // all have reported
		bad := h.pool.Replicas()[0]
		for n := 0; ; n++ {
			if _, out := bad.Ejected(); out {
				break
			}
			if status, body := h.chat(chatBody(false, 3, fmt.Sprint(n))); status != 200 {
				t.Fatalf("status %d, body %s", status, body)
			}
		}
		time.Sleep(11 * time.Second) // the pause is over
		before, open := answered.Load(), 0
		defer h.pool.OnChange(func() {
			if answered.Load() > before && bad.Routable(time.Now()) {
				open++
			}
		})()
		if status, body := h.chat(chatBody(false, 3, "trial")); status != 200 {
			t.Fatalf("status %d, body %s", status, body)
		}
		if n := answered.Load() - before; n != 1 || open != 0 {
			t.Errorf("%d trials, and %d times another was let through to a replica that had failed one; want 1 and 0", n, open)
		}
		if why, out := bad.Ejected(); !out || why != registry.ByFailures {
			t.Errorf("ejected %t by %q, want by failures", out, why)
		}
	})
}
