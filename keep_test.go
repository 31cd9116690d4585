package expediter_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/expediterhq/expediter/sim"
)

// TestRoomForMoreThanTheHeadroomLeaves: a request that fits the whole cache only
// gets the replica that room is set aside on as soon as that is idle, however many
// small ones keep coming, and nobody takes that replica for frozen.
func TestRoomForMoreThanTheHeadroomLeaves(t *testing.T) {
	small := func(c *sim.Config) { c.Speed, c.KVTokens = 5, 8000 }
	for _, n := range []int{1, 2} {
		t.Run(fmt.Sprintf("%d replicas", n), func(t *testing.T) {
			inMemory(t, option{replicas: n, sim: small}, func(t *testing.T, h *house) {
				time.Sleep(3 * time.Second)
				var all sync.WaitGroup
				stop := make(chan struct{})
				for i := range 8 * n { // so many at a time
					all.Go(func() {
						for time.Sleep(time.Duration(i) * 50 * time.Millisecond); ; time.Sleep(time.Millisecond) {
							select {
							case <-stop:
								return
							default:
								h.chat(chatBody(false, 200, "small"))
							}
						}
					})
				}
				time.Sleep(5 * time.Second)
				large, began := strings.Repeat("abc ", 6950), time.Now()
				if status, body := h.chat(chatBody(true, 16, large)); status != 200 {
					t.Errorf("status %d after %v: %.150s", status, time.Since(began), body)
				}
				if d := time.Since(began); d > 10*time.Second {
					t.Errorf("answered after %v, want it once the small ones that ran have ended", d)
				}
				close(stop)
				all.Wait()
				if log := h.logs.String(); strings.Contains(log, "replica ejected") {
					t.Errorf("a replica was ejected; log:\n%s", log)
				}
			})
		})
	}
}
