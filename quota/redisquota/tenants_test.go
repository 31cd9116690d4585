package redisquota_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/expediterhq/expediter/internal/redistest"
	"github.com/expediterhq/expediter/quota/redisquota"
)

// Every tenant is found, whatever its id, and nothing else is: not those of
// another prefix, nor keys of others.
func TestTenants(t *testing.T) {
	cluster := redistest.StartCluster(t, 3)
	for name, addrs := range map[string][]string{"single": {redistest.Start(t).Addr}, "cluster": cluster.Addrs} {
		t.Run(name, func(t *testing.T) {
			s := open(t, redisquota.Config{Prefix: "q[1]*:"}, addrs...)
			others := open(t, redisquota.Config{Prefix: "q1x:"}, addrs...)
			ctx := context.Background()
			if got, err := s.Tenants(ctx); err != nil || len(got) != 0 {
				t.Errorf("Tenants of nothing = %q, %v", got, err)
			}
			want := []string{"", "a", "{a}", "a}:h", "{}", "with space", "日本", "\x00\xff", "%41", strings.Repeat("{", 200)}
			for i := range 2000 {
				want = append(want, fmt.Sprint("many", i))
			}
			for _, id := range want {
				if err := s.Settle(ctx, reservation(id, "1"), 1); err != nil {
					t.Fatal(err)
				}
			}
			if err := others.Settle(ctx, reservation("other", "1"), 1); err != nil {
				t.Fatal(err)
			}
			slices.Sort(want)
			if got, err := s.Tenants(ctx); err != nil || !slices.Equal(got, want) {
				t.Errorf("Tenants = %d of %d tenants, %v: %.200q", len(got), len(want), err, got)
			}
		})
	}
	cluster.Nodes[1].Kill()
	s := open(t, redisquota.Config{}, cluster.Addrs...)
	if got, err := s.Tenants(context.Background()); err == nil {
		t.Errorf("Tenants with a master gone = %q, and no error", got)
	}
}
