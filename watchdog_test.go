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
				time.Sleep(300 * time.Millisecond)
			}
		}, 2*1500*time.Millisecond + time.Second},
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

// TestWatchdogLooksWhileMoreIsExpected: a look that is under way when something
// else is expected, or nothing any more, ends nothing and sets no timer.
func TestWatchdogLooksWhileMoreIsExpected(t *testing.T) {
	const never = time.Hour
	for _, tt := range []struct {
		name  string
		limit time.Duration // for the first token
		lost  bool
		act   func(d *watchdog)
		want  time.Duration // from then on
	}{
		{"the first token", time.Hour, false, func(d *watchdog) { d.expect(30*time.Second, errSilence) }, 30 * time.Second},
		{"the first token, at the limit", time.Second, false, func(d *watchdog) { d.expect(30*time.Second, errSilence) }, 30 * time.Second},
		{"the first token, of one that is given up", time.Hour, true, func(d *watchdog) { d.expect(30*time.Second, errSilence) }, 30 * time.Second},
		{"the first token and the last", time.Hour, false, func(d *watchdog) {
			d.expect(30*time.Second, errSilence)
			d.expect(drainTime, errSilence)
		}, drainTime},
		{"the end", time.Hour, false, (*watchdog).stop, never},
		{"the end, at the limit", time.Second, false, (*watchdog).stop, never},
		{"the end, of one that is given up", time.Hour, true, (*watchdog).stop, never},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				looking, answer := make(chan struct{}), make(chan struct{})
				d := watch(cancel, func() bool {
					looking <- struct{}{}
					<-answer
					return tt.lost
				})
				defer d.stop()
				d.expect(tt.limit, errNoFirstToken)
				<-looking
				began := time.Now()
				tt.act(d)
				close(answer)
				late := time.NewTimer(never)
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
