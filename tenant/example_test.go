package tenant_test

import (
	"fmt"
	"net/http"

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
