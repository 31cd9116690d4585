package tenant_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"github.com/expediterhq/expediter/tenant"
)

func ExampleKeys() {
	key, digest, err := tenant.NewKey() // key goes to the customer, digest is kept
	if err != nil {
		panic(err)
	}
	keys, err := tenant.NewKeys([]tenant.Key{
		{Digest: digest, Tenant: &tenant.Tenant{ID: "acme", Models: []string{"llama"}}},
	}, tenant.Config{})
	if err != nil {
		panic(err)
	}

	r, _ := http.NewRequest("POST", "/v1/chat/completions", nil)
	_, err = keys.Authenticate(r)
	fmt.Println(err)

	r.Header.Set("Authorization", "Bearer "+key)
	t, err := keys.Authenticate(r)
	fmt.Println(t.ID, t.May("llama"), t.May("other"), err)
	// Output:
	// tenant: no valid API key
	// acme true false <nil>
}

// A team with a key store of its own keeps a flood of bad keys away from it.
func ExampleLimiter() {
	limiter, err := tenant.NewLimiter(tenant.LimiterConfig{PerMinute: 60, Burst: 2})
	if err != nil {
		panic(err)
	}
	addr, now := netip.MustParseAddr("192.0.2.1"), time.Now()
	for range 3 {
		if wait := limiter.Limited(addr, now); wait > 0 {
			fmt.Println("not looked up, retry after", (&tenant.TooManyError{After: wait}).RetryAfter())
			continue
		}
		fmt.Println("looked up and not found")
		limiter.Failed(addr, now)
	}
	// Output:
	// looked up and not found
	// looked up and not found
	// not looked up, retry after 1s
}
