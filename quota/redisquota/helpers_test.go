package redisquota_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/expediterhq/expediter/quota"
)

// infoNumber reads one number from the answer to INFO.
func infoNumber(t testing.TB, info, name string) int {
	t.Helper()
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), name+":"); ok {
			n, err := strconv.Atoi(v)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("INFO has no %s", name)
	return 0
}

func redisOptions(addrs ...string) redis.UniversalOptions {
	return redis.UniversalOptions{Addrs: addrs}
}

var serial atomic.Int64

func unique() string { return fmt.Sprint("u", serial.Add(1)) }

func reservation(tenant, id string) quota.Reservation {
	return quota.Reservation{ID: id, Tenant: tenant, Limit: only(0, 1e9, 0), Cost: 10}
}
