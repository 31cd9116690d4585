package tenant

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/expediterhq/expediter/quota"
)

const (
	maxIDLen = 128
	maxPrice = 1_000_000
)

// Tenant is one customer and what it may do. Only ID must be set. A Tenant in
// use is shared by all requests and must not be changed; Keys.Replace swaps
// in others.
type Tenant struct {
	// ID is the opaque name by which logs, metrics, records and the quota
	// store know the tenant: 1 to 128 of the characters a-z A-Z 0-9 - _ . : @ /
	ID string

	// Tier is the tenant's class in the line; 0 is served first.
	Tier int

	// Weight is its share among the tenants of its tier. If zero, 1.
	Weight float64

	// Limit is what it may spend, in priced tokens, and how many requests it
	// may have open. The zero Limit limits nothing.
	Limit quota.Limit

	// Price turns tokens into priced tokens.
	Price Price

	// Models are the names it may ask for, those of adapters included. If
	// empty, all.
	Models []string

	// TTFT and TPOT are what was promised: time to first token, and time per
	// output token after it. If zero, nothing was.
	TTFT, TPOT time.Duration

	// IsolatePrefix keeps its prompts out of the prefix cache of others, so
	// that response times tell nobody what it asked.
	IsolatePrefix bool

	// MaxTokens caps the output of one choice, in tokens. If zero, only the
	// pool's own cap applies.
	MaxTokens int

	// DefaultMaxTokens is the output limit of a request that names none. If
	// zero, the pool's default.
	DefaultMaxTokens int

	// AllowFields names the body fields steering the engine (such as
	// priority or cache_salt) that are passed through. If empty, none.
	AllowFields []string

	// Disabled refuses all keys of the tenant.
	Disabled bool
}

// Price is how many priced tokens one token counts. Whole numbers keep sums
// exact; to price output at 1.5 times input, take 2 and 3 and scale the
// limits.
type Price struct {
	Input  int64 // If zero, 1
	Output int64 // If zero, 1
}

// Cost returns the priced tokens of input and output tokens. A sum that does
// not fit is math.MaxInt64, which no quota.Store grants; counts below zero
// count as zero.
func (p Price) Cost(input, output int) int64 {
	in, ok1 := times(input, p.Input)
	out, ok2 := times(output, p.Output)
	if !ok1 || !ok2 || in > math.MaxInt64-out {
		return math.MaxInt64
	}
	return in + out
}

func times(n int, price int64) (int64, bool) {
	if price == 0 {
		price = 1
	}
	hi, lo := bits.Mul64(uint64(max(n, 0)), uint64(max(price, 0)))
	return int64(lo), hi == 0 && lo <= math.MaxInt64
}

// May reports whether the tenant may ask for model. Names are compared
// exactly.
func (t *Tenant) May(model string) bool {
	return len(t.Models) == 0 || slices.Contains(t.Models, model)
}

// A FieldError says what is wrong with one field.
type FieldError struct {
	Field string // such as "Weight" or "Limit.Windows[0].Rate"
	Want  string // what was expected
}

// Error names the field and what was expected.
func (e *FieldError) Error() string { return "tenant: " + e.Field + ": " + e.Want }

// Validate returns all that is wrong with t, one *FieldError each, joined; or
// nil.
func (t *Tenant) Validate() error {
	var errs []error
	check := func(ok bool, field, want string, args ...any) {
		if !ok {
			errs = append(errs, &FieldError{Field: field, Want: fmt.Sprintf(want, args...)})
		}
	}
	check(validID(t.ID), "ID", "want 1 to %d of the characters a-z A-Z 0-9 - _ . : @ /", maxIDLen)
	check(t.Tier >= 0, "Tier", "is %d, want at least 0", t.Tier)
	check(t.Weight >= 0 && t.Weight <= math.MaxFloat64, "Weight", "is %v, want a positive number, or 0 for 1", t.Weight)
	check(t.Price.Input >= 0 && t.Price.Input <= maxPrice, "Price.Input", "is %d, want 0 to %d", t.Price.Input, maxPrice)
	check(t.Price.Output >= 0 && t.Price.Output <= maxPrice, "Price.Output", "is %d, want 0 to %d", t.Price.Output, maxPrice)
	check(t.TTFT >= 0, "TTFT", "is %v, want at least 0", t.TTFT)
	check(t.TPOT >= 0, "TPOT", "is %v, want at least 0", t.TPOT)
	check(t.MaxTokens >= 0, "MaxTokens", "is %d, want at least 0", t.MaxTokens)
	check(t.DefaultMaxTokens >= 0, "DefaultMaxTokens", "is %d, want at least 0", t.DefaultMaxTokens)
	check(t.MaxTokens <= 0 || t.DefaultMaxTokens <= t.MaxTokens, "DefaultMaxTokens",
		"is %d, want at most MaxTokens, which is %d", t.DefaultMaxTokens, t.MaxTokens)
	check(!slices.Contains(t.Models, ""), "Models", "want no empty name")
	check(!slices.Contains(t.AllowFields, ""), "AllowFields", "want no empty name")
	check(t.Limit.Concurrency >= 0, "Limit.Concurrency", "is %d, want at least 0", t.Limit.Concurrency)
	errs = append(errs, checkWindows(t.Limit.Windows)...)
	return errors.Join(errs...)
}

// checkWindows returns all that would make a quota.Store refuse every
// request under these windows.
func checkWindows(windows []quota.Window) (errs []error) {
	check := func(ok bool, field, want string, args ...any) {
		if !ok {
			errs = append(errs, &FieldError{Field: "Limit.Windows" + field, Want: fmt.Sprintf(want, args...)})
		}
	}
	check(len(windows) <= quota.MaxWindows, "", "has %d, want at most %d", len(windows), quota.MaxWindows)
	names := make(map[string]bool)
	for i, w := range windows {
		at := fmt.Sprintf("[%d].", i)
		check(w.Name != "" && len(w.Name) <= 128 && !names[w.Name], at+"Name",
			"is %.128q, want 1 to 128 bytes that no other window has", w.Name)
		check(w.Rate >= 0 && w.Rate <= math.MaxFloat64, at+"Rate", "is %v, want tokens per second, at least 0", w.Rate)
		check(w.Burst >= 0 && w.Burst <= quota.MaxTokens, at+"Burst", "is %d, want 0 to %d", w.Burst, int64(quota.MaxTokens))
		names[w.Name] = true
	}
	return errs
}

func validID(id string) bool {
	if id == "" || len(id) > maxIDLen {
		return false
	}
	for i := range len(id) {
		switch c := id[i]; {
		case isBase62(c), c == '-', c == '_', c == '.', c == ':', c == '@', c == '/':
		default:
			return false
		}
	}
	return true
}
