package quota

import (
	"context"
	"time"
)

// Remember is how long a store knows the id of a settled reservation, and
// RememberExpired how long it knows one that ran out without being settled.
const (
	Remember        = 2 * time.Minute
	RememberExpired = time.Hour
)

// DefaultLease is the lease of a Reservation that names none.
const DefaultLease = 30 * time.Second

// MaxTokens is the largest amount of priced tokens in one cost or burst: the
// largest integer up to which a double is exact.
const MaxTokens = 1 << 53

// MaxWindows is the most windows one Limit may have.
const MaxWindows = 16

// Window is one token bucket of a tenant. Its state is found by tenant and
// Name, so two windows of one tenant with the same Name share one bucket.
type Window struct {
	Name  string  // unique inside a Limit, 1 to 128 bytes
	Rate  float64 // priced tokens regained per second; 0 = never
	Burst int64   // the most that can be spent at once, in priced tokens; 0 lets nothing through
}

// PerMinute is the window named "minute" that allows n tokens at once and n
// more each minute.
func PerMinute(n int64) Window { return Window{Name: "minute", Rate: float64(n) / 60, Burst: n} }

// PerDay is the window named "day" that allows n tokens at once and n more each
// 24 hours.
func PerDay(n int64) Window { return Window{Name: "day", Rate: float64(n) / 86400, Burst: n} }

// Limit is what a tenant is allowed. It travels with each Reservation, so that
// a change needs no call to the store.
type Limit struct {
	Concurrency int      // most reservations held at once; 0 = no cap
	Windows     []Window // all of them must have room; none = no limit in tokens
}

// Reservation is one request's claim on its tenant's Limit. The same value is
// given to Reserve, Renew and Settle.
type Reservation struct {
	ID     string // unique per request, 1 to 256 bytes
	Tenant string // opaque; never a key
	Limit  Limit
	Cost   int64 // the most the request may cost, in priced tokens: 1 to MaxTokens
	// Used is what the request is known to have cost so far, in priced tokens.
	// If the holder dies, Cost-Used is given back. Renew may raise it.
	Used int64
	// Lease is how long the reservation is held without a Renew.
	// If zero, DefaultLease. At most 24 hours.
	Lease time.Duration
}

// Store decides about reservations. Its methods are safe for concurrent use.
// Implementations are checked by package quotatest.
type Store interface {
	// Reserve takes r.Cost from every window and one slot, or nothing at all.
	// It returns nil, a *LimitError that says why not, an *UnavailableError when
	// the store cannot be asked and its policy is to refuse, or the context's
	// error. After the last two the store gives back by itself what it may have
	// taken: the caller owes no Settle, and the id may not be used again.
	Reserve(ctx context.Context, r Reservation) error

	// Settle ends the reservation: used stays charged, the rest of r.Cost and
	// the slot go back. Only the first Settle of an id counts; later ones return
	// nil. It must not be given a context that ends with the request.
	Settle(ctx context.Context, r Reservation, used int64) error

	// Renew extends each reservation by its Lease from now on and notes its
	// Used. Called every third of a lease or so, it outlives a lost call. Settled
	// ones are skipped. The error joins those of the reservations that could not be
	// renewed; the others were.
	Renew(ctx context.Context, rs []Reservation) error
}

// Balance is what a store holds about a tenant at one moment.
type Balance struct {
	Running  int   // reservations held
	Reserved int64 // priced tokens they hold
	Charged  int64 // sum of all settlements, and of what expired reservations had Used
	Windows  []Level
}

// Level is the state of one window.
type Level struct {
	Name  string
	Spent float64 // priced tokens spent and not yet regained, reserved ones included; never negative
}

// Auditor is implemented by stores that can tell a tenant's balance. Charged
// counts from when the store first heard of the tenant, or last forgot it.
type Auditor interface {
	Balance(ctx context.Context, tenant string) (Balance, error)
}
