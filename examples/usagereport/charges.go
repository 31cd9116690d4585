package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/expediterhq/expediter/quota/redisquota"
)

// charge is what a tenant's records say was charged beside what the quota
// store charged.
type charge struct {
	Tenant     string `json:"tenant"`
	Recorded   int64  `json:"recorded"` // priced tokens, by the records
	Charged    int64  `json:"charged"`  // priced tokens, by the store
	Difference int64  `json:"difference"`
	Running    int    `json:"running"` // reservations held: requests not settled yet
}

// redisOptions turns a URL, one address or several ones of a cluster into options.
func redisOptions(at string) (redis.UniversalOptions, error) {
	if !strings.Contains(at, "://") {
		return redis.UniversalOptions{Addrs: strings.Split(at, ",")}, nil
	}
	o, err := redis.ParseURL(at)
	if err != nil {
		return redis.UniversalOptions{}, errors.New("-redis: not a URL of the form rediss://user:password@host:port/db")
	}
	return redis.UniversalOptions{
		Addrs: []string{o.Addr}, Username: o.Username, Password: o.Password, DB: o.DB, TLSConfig: o.TLSConfig}, nil
}

func dial(at string) (redis.UniversalClient, error) {
	o, err := redisOptions(at)
	if err != nil {
		return nil, err
	}
	return redisquota.Client(o), nil
}

// compare asks the store for the charges of every tenant in the report, and of
// those it knows that have no records.
func (r *result) compare(ctx context.Context, at, prefix string) error {
	client, err := dial(at)
	if err != nil {
		return err
	}
	defer client.Close()
	// The policy concerns reservations, and none is made here.
	store, err := redisquota.New(client, redisquota.Config{Policy: redisquota.Closed, Prefix: prefix, Timeout: 5 * time.Second})
	if err != nil {
		return err
	}
	defer store.Close()
	tenants, err := store.Tenants(ctx)
	if err != nil {
		return err
	}
	recorded := make(map[string]int64)
	for _, row := range r.Rows {
		tenants = append(tenants, row.Tenant)
		recorded[row.Tenant] += row.Charged
	}
	slices.Sort(tenants)
	for _, t := range slices.Compact(tenants) {
		b, err := store.Balance(ctx, t)
		if err != nil {
			return err
		}
		r.Charges = append(r.Charges, charge{
			Tenant: t, Recorded: recorded[t], Charged: b.Charged, Difference: b.Charged - recorded[t], Running: b.Running})
	}
	return nil
}

// differs reports whether some tenant's charges differ from its records.
func (r *result) differs() bool {
	for _, b := range r.Charges {
		if b.Difference != 0 {
			return true
		}
	}
	return false
}
