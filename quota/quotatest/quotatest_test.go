package quotatest

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/expediterhq/expediter/quota"
)

func TestMemory(t *testing.T) {
	var ns atomic.Int64
	Suite{
		Open: func(t *testing.T) quota.Store {
			return quota.NewMemory(quota.MemoryConfig{Now: func() time.Time { return time.Unix(0, ns.Load()) }})
		},
		Advance:   func(d time.Duration) { ns.Add(int64(d)) },
		Histories: 1000,
	}.Run(t)
}
