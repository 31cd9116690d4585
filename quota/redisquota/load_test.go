package redisquota_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/expediterhq/expediter/quota"
	"github.com/expediterhq/expediter/quota/redisquota"
)

// load reserves and settles about 1,000 times a second through several gateways
// until it is stopped, and keeps the books.
type load struct {
	t     *testing.T
	name  string // begins its ids
	limit quota.Limit
	stop  chan struct{}
	wg    sync.WaitGroup

	mu          sync.Mutex
	granted     int
	refused     int
	unavailable int
	used        int64
	took        []time.Duration // of each Reserve since mark
}

const (
	loadCost = 20
	loadUsed = 10
)

func startLoad(t *testing.T, limit quota.Limit, stores ...*redisquota.Store) *load {
	l := &load{t: t, name: unique(), limit: limit, stop: make(chan struct{})}
	for w := range 20 {
		l.wg.Go(func() { l.work(w, stores[w%len(stores)]) })
	}
	return l
}

func (l *load) work(w int, s *redisquota.Store) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-l.stop:
			return
		case <-tick.C:
		}
		r := quota.Reservation{ID: fmt.Sprint(l.name, "-", w, "-", i), Tenant: "t", Limit: l.limit, Cost: loadCost}
		start := time.Now()
		err := s.Reserve(context.Background(), r)
		l.note(time.Since(start), err)
		if err != nil {
			continue
		}
		if err := s.Settle(context.Background(), r, loadUsed); err != nil {
			l.t.Errorf("Settle = %v", err)
		}
	}
}

func (l *load) note(d time.Duration, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.took = append(l.took, d)
	var limit *quota.LimitError
	switch {
	case err == nil:
		l.granted++
		l.used += loadUsed
	case errors.Is(err, quota.ErrUnavailable):
		l.unavailable++
	case errors.As(err, &limit) && (limit.Verdict == quota.OverQuota || limit.Verdict == quota.OverConcurrency):
		l.refused++
	default:
		l.t.Errorf("Reserve = %v", err)
	}
}

// mark returns what happened since the last mark.
func (l *load) mark() (granted, refused, unavailable int, took []time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	granted, refused, unavailable, took = l.granted, l.refused, l.unavailable, l.took
	l.granted, l.refused, l.unavailable, l.took = 0, 0, 0, nil
	slices.Sort(took)
	return granted, refused, unavailable, took
}

func (l *load) grants() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.granted
}

func (l *load) end() {
	close(l.stop)
	l.wg.Wait()
}

// quantile of sorted durations.
func quantile(ds []time.Duration, q float64) time.Duration {
	if len(ds) == 0 {
		return 0
	}
	return ds[min(int(q*float64(len(ds))), len(ds)-1)]
}
