package main

import (
	"context"
	"errors"
	"fmt"
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

// dial returns a client, and the addresses it speaks to, for errors.
func dial(at string) (client redis.UniversalClient, addrs string, err error) {
	o, err := redisOptions(at)
	if err != nil {
		return nil, "", err
	}
	for _, addr := range o.Addrs {
		if strings.Contains(addr, "@") { // it would be printed
			return nil, "", errors.New("-redis: a user and password are only taken in a URL of the form rediss://user:password@host:port/db")
		}
	}
	return redisquota.Client(o), strings.Join(o.Addrs, ","), nil
}

// compare asks the store for the charges of every tenant in the report, and of
// those it knows that have no records.
func (r *result) compare(ctx context.Context, at, prefix string) error {
	client, addrs, err := dial(at)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := r.charges(ctx, client, prefix); err != nil {
		return fmt.Errorf("-redis %s: %w", addrs, err)
	}
	return nil
}

func (r *result) charges(ctx context.Context, client redis.UniversalClient, prefix string) error {
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
