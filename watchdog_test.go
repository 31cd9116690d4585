package expediter

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestWatchdog: it ends an attempt a second after the last progress, and time in
// which the replica is not waited for does not count.
func TestWatchdog(t *testing.T) {
	const never = time.Hour
	for _, tt := range []struct {
		name string
		act  func(d *watchdog)
		want time.Duration // from the start
	}{
		{"nothing comes", func(*watchdog) {}, time.Second},
		{"something comes", func(d *watchdog) {
			time.Sleep(900 * time.Millisecond)
			d.progress(time.Now())
		}, 1900 * time.Millisecond},
		{"away for longer than the limit", func(d *watchdog) {
			d.leave()
			time.Sleep(5500 * time.Millisecond)
			d.back()
		}, 6500 * time.Millisecond},
		{"away for as long as the limit", func(d *watchdog) {
			d.leave()
			time.Sleep(time.Second)
			synctest.Wait()
			d.back()
		}, 2 * time.Second},
		{"away twice", func(d *watchdog) {
			for range 2 {
				d.leave()
				time.Sleep(1500 * time.Millisecond)
				d.back()
				time.Sleep(800 * time.Millisecond)
			}
		}, 1500*time.Millisecond + 800*time.Millisecond + 1500*time.Millisecond + time.Second},
		{"away for ever", func(d *watchdog) { d.leave() }, never},
		{"stopped", func(d *watchdog) { d.stop() }, never},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				d := watch(cancel, nil)
				defer d.stop()
				d.expect(time.Second, errSilence)
				tt.act(d)
				late := time.NewTimer(never - time.Since(began))
				defer late.Stop()
				select {
				case <-ctx.Done():
					if got := context.Cause(ctx); got != errSilence {
						t.Errorf("Cause = %v, want %v", got, errSilence)
					}
				case <-late.C:
				}
				if got := time.Since(began); got != tt.want {
					t.Errorf("ended after %v, want %v", got, tt.want)
				}
			})
		})
	}
}
