package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/expediterhq/expediter"
	"github.com/expediterhq/expediter/registry"
	"github.com/expediterhq/expediter/vllm"
)

// reach asks every replica for its health. A pool of which none answers is an
// error, since a gateway that can serve nothing is better noticed at its
// start; single ones that do not answer are logged. Lost says for each pool
// why no replica could be looked up, if so.
func reach(ctx context.Context, pools []*registry.Pool, lost []error, c *expediter.Config, logger *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for i, pool := range pools {
		client := vllm.NewClient(c.Pools[i].Transport, c.Pools[i].APIKey)
		replicas := pool.Replicas()
		errs := make([]error, len(replicas))
		var wg sync.WaitGroup
		for j, r := range replicas {
			wg.Go(func() { errs[j] = vllm.Health(ctx, client, r.URL()) })
		}
		wg.Wait()
		client.CloseIdleConnections()
		var absent []string
		for j, err := range errs {
			if err != nil {
				absent = append(absent, replicas[j].URL())
				logger.Warn("a replica does not answer", "pool", pool.Name(), "replica", replicas[j].Name(), "error", err)
			}
		}
		if len(absent) < len(replicas) {
			continue
		}
		why := strings.Join(absent, ", ")
		if lost[i] != nil {
			why = strings.TrimPrefix(why+"; "+strings.TrimPrefix(lost[i].Error(), "registry: dns: "), "; ")
		}
		return fmt.Errorf("no replica of pool %q answers (%s); -without-replicas starts anyway", pool.Name(), why)
	}
	return nil
}
