package redisquota

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Tenants returns the ids of all tenants that Redis holds anything of, sorted. It
// walks over all keys of the database with SCAN, on every master of a cluster,
// which takes a while and stops nobody: those who come or go meanwhile may be
// missing or there. An ACL user needs the command SCAN for it.
func (s *Store) Tenants(ctx context.Context) ([]string, error) {
	var mu sync.Mutex
	var ids []string
	scan := func(ctx context.Context, c redis.Cmdable) error {
		keys := c.Scan(ctx, 0, globEscape(s.cfg.Prefix)+"{t*}:h", 1000).Iterator()
		for keys.Next(ctx) {
			id, ok := s.tenantOf(keys.Val())
			if !ok {
				continue
			}
			mu.Lock()
			ids = append(ids, id)
			mu.Unlock()
		}
		return keys.Err()
	}
	var err error
	if cluster, ok := s.client.(*redis.ClusterClient); ok {
		err = cluster.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error { return scan(ctx, c) })
	} else {
		err = scan(ctx, s.client)
	}
	if err != nil {
		return nil, fmt.Errorf("redisquota: tenants: %w", err)
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil // SCAN may return a key twice
}

// tenantOf undoes appendKey.
func (s *Store) tenantOf(key string) (id string, ok bool) {
	id, ok = strings.CutPrefix(key, s.cfg.Prefix+"{t")
	if !ok {
		return "", false
	}
	if id, ok = strings.CutSuffix(id, "}:h"); !ok {
		return "", false
	}
	id, err := url.PathUnescape(id)
	return id, err == nil
}

// globEscape makes a pattern that matches s alone.
func globEscape(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(s)
}
