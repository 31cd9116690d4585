package quota

import (
	"fmt"
	"time"
)

// Check reports what makes r unfit for any store: a *LimitError with the verdict
// Bad that names the field, or nil. It does not allocate for a good r.
func (r *Reservation) Check() error {
	switch {
	case r.ID == "" || len(r.ID) > 256:
		return r.bad("id", "of %d bytes: want 1 to 256", len(r.ID))
	case len(r.Tenant) > 256:
		return r.bad("tenant", "of %d bytes: want at most 256", len(r.Tenant))
	case r.Cost < 1 || r.Cost > MaxTokens:
		return r.bad("cost", "%d: want 1 to %d tokens", r.Cost, int64(MaxTokens))
	case r.Used < 0 || r.Used > MaxTokens:
		return r.bad("used", "%d: want 0 to %d tokens", r.Used, int64(MaxTokens))
	case r.Lease < 0 || r.Lease > 24*time.Hour:
		return r.bad("lease", "%v: want 0 to 24h", r.Lease)
	case r.Limit.Concurrency < 0:
		return r.bad("concurrency", "%d: want 0 or more", r.Limit.Concurrency)
	case len(r.Limit.Windows) > MaxWindows:
		return r.bad("windows", "%d: want at most %d", len(r.Limit.Windows), MaxWindows)
	}
	for i := range r.Limit.Windows {
		w := &r.Limit.Windows[i]
		switch {
		case w.Name == "" || len(w.Name) > 128:
			return r.bad("window name", "of %d bytes: want 1 to 128", len(w.Name))
		case !(w.Rate >= 0 && w.Rate <= MaxTokens):
			return r.bad("window "+w.Name+": rate", "%v: want 0 to %d tokens per second", w.Rate, int64(MaxTokens))
		case w.Burst < 0 || w.Burst > MaxTokens:
			return r.bad("window "+w.Name+": burst", "%d: want 0 to %d tokens", w.Burst, int64(MaxTokens))
		}
		for j := range i {
			if r.Limit.Windows[j].Name == w.Name {
				return r.bad("window "+w.Name, "is there twice")
			}
		}
	}
	return nil
}

// Fits reports whether r could ever be let through: a *LimitError with the
// verdict Never that names the first window whose burst is below the cost, or
// nil.
func (r *Reservation) Fits() error {
	for i := range r.Limit.Windows {
		if w := &r.Limit.Windows[i]; r.Cost > w.Burst {
			return &LimitError{Verdict: Never, ID: r.ID, Window: w.Name, Limit: w.Burst, Cost: r.Cost}
		}
	}
	return nil
}

// CheckUsed reports whether used can be settled for r.
func (r *Reservation) CheckUsed(used int64) error {
	if used < 0 || used > MaxTokens {
		return r.bad("used", "%d: want 0 to %d tokens", used, int64(MaxTokens))
	}
	return r.Check()
}

// Term is the lease that holds: Lease, or DefaultLease if that is zero.
func (r *Reservation) Term() time.Duration {
	if r.Lease == 0 {
		return DefaultLease
	}
	return r.Lease
}

func (r *Reservation) bad(field, format string, args ...any) error {
	return &LimitError{Verdict: Bad, ID: r.ID, Cost: r.Cost, Detail: field + " " + fmt.Sprintf(format, args...)}
}
