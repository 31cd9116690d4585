package admission_test

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/expediterhq/expediter/admission"
)

func BenchmarkAdmitNobodyWaits(b *testing.B) {
	c, err := admission.NewController(admission.Config{})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := c.Admit(context.Background(), admission.Work{Tenant: "t", Tokens: 1}, func() (bool, error) { return true, nil }); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkLine is one arrival and one start with many waiting.
func BenchmarkLine(b *testing.B) {
	for _, waiting := range []int{100, 10_000} {
		for _, tenants := range []int{1, 100} {
			b.Run(fmt.Sprintf("waiting=%d/tenants=%d", waiting, tenants), func(b *testing.B) {
				l, err := admission.NewLine(admission.Config{MaxWaiting: waiting + 1})
				if err != nil {
					b.Fatal(err)
				}
				names := make([]string, tenants)
				for i := range names {
					names[i] = fmt.Sprint(i)
				}
				push := func(i int) {
					if _, _, err := l.Push(admission.Work{Tenant: names[i%tenants], Tokens: 1000, Input: 1000}, start); err != nil {
						b.Fatal(err)
					}
				}
				for i := range waiting {
					push(i)
				}
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					push(i)
					i++
					l.Opened()
					l.Start(l.Next(start), start)
				}
			})
		}
	}
}

// BenchmarkAdmitWaiting is the whole way of a request through a pool that is
// always full: wait, start, release.
func BenchmarkAdmitWaiting(b *testing.B) {
	c, err := admission.NewController(admission.Config{})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	var free atomic.Int64
	free.Store(64)
	take := func() (bool, error) {
		for {
			n := free.Load()
			if n == 0 {
				return false, nil
			}
			if free.CompareAndSwap(n, n-1) {
				return true, nil
			}
		}
	}
	b.ReportAllocs()
	b.SetParallelism(200)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := c.Admit(context.Background(), admission.Work{Tenant: "t", Tokens: 1000, Input: 1000}, take); err != nil {
				b.Fatal(err)
			}
			runtime.Gosched()
			free.Add(1)
			c.Freed()
		}
	})
}
