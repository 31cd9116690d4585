package redistest

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
)

// Dump reads every key of a Redis, and returns by key all that is in it as text,
// whatever its type, with the key itself.
func Dump(t testing.TB, c redis.UniversalClient) map[string]string {
	t.Helper()
	ctx := t.Context()
	all := make(map[string]string)
	keys := c.Scan(ctx, 0, "*", 100).Iterator()
	for keys.Next(ctx) {
		key := keys.Val()
		var v any
		var err error
		switch kind := c.Type(ctx, key).Val(); kind {
		case "string":
			v, err = c.Get(ctx, key).Result()
		case "hash":
			v, err = c.HGetAll(ctx, key).Result()
		case "zset":
			v, err = c.ZRangeWithScores(ctx, key, 0, -1).Result()
		case "list":
			v, err = c.LRange(ctx, key, 0, -1).Result()
		case "set":
			v, err = c.SMembers(ctx, key).Result()
		case "stream":
			v, err = c.XRange(ctx, key, "-", "+").Result()
		default:
			t.Errorf("redistest: key %q is a %s, which nobody looks into", key, kind)
		}
		if err != nil {
			t.Errorf("redistest: %q: %v", key, err)
		}
		all[key] = fmt.Sprintf("%s %v", key, v)
	}
	if err := keys.Err(); err != nil {
		t.Fatalf("redistest: %v", err)
	}
	return all
}
