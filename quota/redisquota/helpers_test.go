package redisquota_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
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
