package expediter

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/expediterhq/expediter/internal/openai"
	"github.com/expediterhq/expediter/quota"
)

// reservationLease is how long a reservation outlives its last renewal: the
// time after which the slots of a crashed gateway are free again.
const reservationLease = 30 * time.Second

// reserve takes the most this request may cost from the tenant's quota.
func (q *request) reserve() error {
	cost := max(q.tenant.Price.Cost(q.size.input, q.size.all(q.size.output)), 1)
	r := quota.Reservation{
		ID: q.id, Tenant: q.tenant.ID, Limit: q.tenant.Limit,
		Cost: cost, Lease: reservationLease,
	}
	if err := q.g.Quota.Reserve(q.ctx, r); err != nil {
		return q.quotaError(err)
	}
	q.reservation.Store(&r)
	q.rec.Reserved = cost
	return nil
}

func (q *request) quotaError(err error) error {
	if q.r.Context().Err() != nil {
		return errClientGone
	}
	var limit *quota.LimitError
	if !errors.As(err, &limit) {
		q.g.Logger.Error("quota store failed", "request", q.id, "error", err)
		e := &openai.Error{Status: http.StatusServiceUnavailable, Code: "quota_unavailable", After: time.Second, Message: "Quota cannot be checked at the moment. Try again."}
		var wait interface{ RetryAfter() time.Duration }
		if errors.As(err, &wait) {
			e.After = max(wait.RetryAfter(), time.Second)
		}
		return e
	}
	switch {
	case !limit.CanFit():
		return &openai.Error{
			Status: http.StatusBadRequest, Code: "request_exceeds_quota", Param: q.limitParam(limit.Limit), Final: true,
			Message: fmt.Sprintf("This request may take %d tokens of your quota%s, more than your limit of %d: it can never be served. Lower max_tokens or shorten the prompt.", limit.Cost, q.breakdown(), limit.Limit),
		}
	case limit.Verdict == quota.OverConcurrency:
		return &openai.Error{
			Status: http.StatusTooManyRequests, Code: openai.CodeRateLimit, After: limit.RetryAfter(),
			Message: fmt.Sprintf("You have %d requests running, as many as your limit.", limit.Limit),
		}
	case limit.Verdict == quota.OverQuota:
		return &openai.Error{
			Status: http.StatusTooManyRequests, Type: openai.TypeRateLimit, Code: openai.CodeRateLimit, After: limit.RetryAfter(),
			Message: fmt.Sprintf("This request may take %d tokens of your quota%s, and so many are not left of %d.", limit.Cost, q.breakdown(), limit.Limit),
		}
	}
	q.g.Logger.Error("quota store refused a reservation as bad", "request", q.id, "verdict", limit.Verdict)
	return errInternal()
}

// breakdown says what the cost is made of.
func (q *request) breakdown() string {
	s, price := &q.size, ""
	if p := q.tenant.Price; p.Input > 1 || p.Output > 1 {
		price = fmt.Sprintf(", counted %d and %d times", max(p.Input, 1), max(p.Output, 1))
	}
	return fmt.Sprintf(" (a prompt of %d and up to %d of output%s)", s.input, s.all(s.output), price)
}

// limitParam names what the client can lower to stay below limit: the output,
// or the prompt if that alone is above it.
func (q *request) limitParam(limit int64) string {
	if q.size.output <= 1 || q.tenant.Price.Cost(q.size.input, q.size.sequences) > limit {
		return q.promptParam()
	}
	return q.maxParam()
}

// maxParam names the client's limit of the output, or what stands in for one.
func (q *request) maxParam() string { return cmp.Or(q.in.MaxField, "max_tokens") }
