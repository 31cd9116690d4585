package expediter_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/expediterhq/expediter"
)

// TestSlowAnswerIsNoFreeze: an engine that has answered has nothing to do while the
// answer, which is long, is on its way.
func TestSlowAnswerIsNoFreeze(t *testing.T) {
	slow := func(i int, next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if i == 1 || r.Method != http.MethodPost {
				next.ServeHTTP(w, r)
				return
			}
			whole := httptest.NewRecorder()
			next.ServeHTTP(whole, r)
			w.Header().Set("Content-Type", "application/json")
			for part := whole.Body.Len()/4 + 1; whole.Body.Len() > 0; time.Sleep(4 * time.Second) {
				w.Write(whole.Body.Next(part))
				w.(http.Flusher).Flush()
			}
		})
	}
	inMemory(t, option{replicas: 2, front: slow, config: func(c *expediter.Config) {
		firstFirst(c)
		c.Timeouts.Answer = time.Minute
	}}, func(t *testing.T, h *house) {
		h.warm()
		time.Sleep(5 * time.Second)
		if status, body := h.chat(chatBody(false, 20, "a")); status != 200 {
			t.Fatalf("status %d, body %s", status, body)
		}
		if r := h.records.wait(t, 1)[0]; r.Attempts != 1 || r.Replica != "r0" {
			t.Errorf("record = %+v, want one attempt on r0", r)
		}
		if why, out := h.pool.Replicas()[0].Ejected(); out {
			t.Errorf("ejected (%s) while its answer was read", why)
		}
	})
}
