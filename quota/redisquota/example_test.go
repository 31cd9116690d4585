package redisquota_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/expediterhq/expediter/quota"
	"github.com/expediterhq/expediter/quota/redisquota"
)

// Without a server the policy answers.
func ExampleStore() {
	client := redisquota.Client(redis.UniversalOptions{Addrs: []string{"127.0.0.1:1"}})
	defer client.Close()
	store, err := redisquota.New(client, redisquota.Config{Policy: redisquota.Closed})
	if err != nil {
		panic(err)
	}
	defer store.Close()
	err = store.Reserve(context.Background(), quota.Reservation{
		ID: "7f3a", Tenant: "acme", Cost: 2800,
		Limit: quota.Limit{Concurrency: 20, Windows: []quota.Window{quota.PerMinute(60_000)}},
	})
	var e *quota.UnavailableError
	if errors.As(err, &e) {
		fmt.Println(503, e, "Retry-After:", e.RetryAfter().Seconds())
	}
	// Output: 503 quota: store unavailable Retry-After: 1
}
