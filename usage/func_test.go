package usage_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/expediterhq/expediter"
	"github.com/expediterhq/expediter/usage"
)

// counts is what the three counters of a sink say.
type counts struct {
	written, dropped uint64
	waiting          int
}

type counter interface {
	Written() uint64
	Dropped() uint64
	Waiting() int
}

func countsOf(c counter) counts { return counts{c.Written(), c.Dropped(), c.Waiting()} }

func TestQ8FuncThatBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		f := usage.NewFunc(func(_ context.Context, r *expediter.Record) error {
			if r.ID == "0" {
				time.Sleep(30 * time.Second)
			}
			got = append(got, r.ID)
			return nil
		}, usage.FuncConfig{Buffer: 10})
		start := time.Now()
		for i := range 100 {
			f.Write(&expediter.Record{ID: fmt.Sprint(i)})
			synctest.Wait()
		}
		if d := time.Since(start); d != 0 {
			t.Errorf("100 writes took %v beside a function that blocks, want 0", d)
		}
		if got, want := countsOf(f), (counts{0, 90, 10}); got != want {
			t.Errorf("while it blocks: %+v, want %+v", got, want)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 31*time.Second)
		defer cancel()
		if err := f.Close(ctx); err != nil {
			t.Errorf("Close = %v", err)
		}
		if d := time.Since(start); d != 30*time.Second {
			t.Errorf("Close returned after %v, want 30 s: as soon as the function was through", d)
		}
		if want := "0 1 2 3 4 5 6 7 8 9"; strings.Join(got, " ") != want {
			t.Errorf("delivered %v, want %v", got, want)
		}
		if got, want := countsOf(f), (counts{10, 90, 0}); got != want {
			t.Errorf("at the end: %+v, want %+v", got, want)
		}
		f.Write(&expediter.Record{})
		if got, want := countsOf(f), (counts{10, 91, 0}); got != want {
			t.Errorf("after a write past Close: %+v, want %+v", got, want)
		}
	})
}

func TestQ8FuncThatFailsAndPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var reports []string
		f := usage.NewFunc(func(_ context.Context, r *expediter.Record) error {
			switch r.Attempts % 3 {
			case 1:
				return errors.New("no")
			case 2:
				panic("oh")
			}
			return nil
		}, usage.FuncConfig{Report: func(err error) {
			mu.Lock()
			defer mu.Unlock()
			reports = append(reports, err.Error())
		}})
		for i := range 9 {
			f.Write(&expediter.Record{Attempts: i})
		}
		synctest.Wait()
		if got, want := countsOf(f), (counts{3, 6, 0}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		mu.Lock()
		if want := "no|usage: function panicked: oh"; strings.Join(reports[:2], "|") != want || len(reports) != 6 {
			t.Errorf("reports %q, want six beginning with %q", reports, want)
		}
		mu.Unlock()
		if err := f.Close(t.Context()); err != nil {
			t.Errorf("Close = %v", err)
		}
	})
}

// A function that heeds its context is cut off when Close's context ends; one
// that does not is left behind a second later. Both losses are counted.
func TestFuncCloseGivesUp(t *testing.T) {
	for _, heeds := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			f := usage.NewFunc(func(ctx context.Context, r *expediter.Record) error {
				if heeds {
					<-ctx.Done()
					return ctx.Err()
				}
				time.Sleep(time.Minute)
				return nil
			}, usage.FuncConfig{})
			for range 5 {
				f.Write(&expediter.Record{})
			}
			start := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			err := f.Close(ctx)
			if err == nil || !strings.Contains(err.Error(), "5 records lost") || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("heeds %v: Close = %v, want 5 lost at the deadline", heeds, err)
			}
			want := 3 * time.Second
			if !heeds {
				want += time.Second
			}
			if d := time.Since(start); d != want {
				t.Errorf("heeds %v: Close took %v, want %v", heeds, d, want)
			}
			time.Sleep(time.Hour) // the function that was left behind comes back
			synctest.Wait()
			end := counts{0, 5, 0}
			if !heeds {
				end = counts{1, 4, 0}
			}
			if got := countsOf(f); got != end {
				t.Errorf("heeds %v: at last %+v, want %+v", heeds, got, end)
			}
		})
	}
}

// Whatever happens in whatever order, every record is accounted for once.
func TestEveryRecordIsAccountedFor(t *testing.T) {
	var given sync.WaitGroup
	n := 0
	f := usage.NewFunc(func(_ context.Context, r *expediter.Record) error {
		if n++; n%7 == 0 {
			return errors.New("no")
		}
		return nil
	}, usage.FuncConfig{Buffer: 100})
	for range 8 {
		given.Go(func() {
			for range 1000 {
				f.Write(&expediter.Record{})
			}
		})
	}
	given.Wait()
	if err := f.Close(t.Context()); err != nil && !strings.Contains(err.Error(), "records lost") {
		t.Errorf("Close = %v", err)
	}
	if c := countsOf(f); c.waiting != 0 || c.written+c.dropped != 8000 {
		t.Errorf("%+v, want 8000 written or dropped", c)
	}
	if err := f.Close(t.Context()); err != nil {
		t.Errorf("second Close = %v", err)
	}
}

// What was taken before Close is delivered, however close upon it Close comes.
func TestQ8CloseDeliversWhatWasTaken(t *testing.T) {
	for i := range 2_000 {
		f := usage.NewFunc(func(context.Context, *expediter.Record) error { return nil }, usage.FuncConfig{})
		for range i % 50 {
			runtime.Gosched()
		}
		f.Write(&expediter.Record{})
		if err := f.Close(t.Context()); err != nil || f.Written() != 1 {
			t.Fatalf("round %d: Close = %v after %d deliveries, want 1", i, err, f.Written())
		}
	}
}

type sinkFunc func(*expediter.Record)

func (f sinkFunc) Write(r *expediter.Record) { f(r) }

func TestMulti(t *testing.T) {
	var first, last *expediter.Record
	var closed int
	m := usage.NewMulti(
		sinkFunc(func(r *expediter.Record) { first = r; r.Tenant = "changed" }),
		sinkFunc(func(*expediter.Record) { panic("oh") }),
		usage.NewFunc(func(context.Context, *expediter.Record) error { closed++; return nil }, usage.FuncConfig{}),
		sinkFunc(func(r *expediter.Record) { last = r }),
	)
	func() {
		defer func() {
			if p := recover(); p != "oh" {
				t.Errorf("Write panicked with %v, want what the second sink did", p)
			}
		}()
		m.Write(&expediter.Record{ID: "a", Tenant: "acme"})
	}()
	if first == nil || last == nil || first == last || last.Tenant != "acme" || last.ID != "a" {
		t.Errorf("first %v, last %v, want a copy each", first, last)
	}
	if err := m.Close(t.Context()); err != nil || closed != 1 {
		t.Errorf("Close = %v after %d deliveries, want 1", err, closed)
	}
}

type badCloser struct{ sinkFunc }

func (badCloser) Close(context.Context) error { panic("oh") }

func TestMultiClosesTheOthersOfOneThatPanics(t *testing.T) {
	f := usage.NewFunc(func(ctx context.Context, _ *expediter.Record) error { <-ctx.Done(); return ctx.Err() }, usage.FuncConfig{})
	f.Write(&expediter.Record{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := usage.NewMulti(badCloser{}, f).Close(ctx)
	if err == nil || !strings.Contains(err.Error(), "close panicked") || !strings.Contains(err.Error(), "1 records lost") {
		t.Errorf("Close = %v, want both errors", err)
	}
}
