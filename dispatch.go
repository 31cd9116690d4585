package expediter

import (
	"cmp"
	"errors"
	"time"

	"github.com/expediterhq/expediter/admission"
	"github.com/expediterhq/expediter/internal/openai"
	"github.com/expediterhq/expediter/registry"
	"github.com/expediterhq/expediter/router"
)

// dispatch waits in line until a replica can start the request, chooses it
// and takes a lease on it.
func (q *request) dispatch() error {
	began := time.Now()
	if q.poisonous() {
		return errPoison()
	}
	wait := q.pool.MaxWait
	if o := cmp.Or(q.tenant.TTFT, q.pool.TTFT); o > 0 {
		wait = min(wait, o)
	}
	deadline := q.arrived.Add(wait + time.Since(began)) // the line is not to blame for a verdict's time
	if q.rec.Attempts > 0 {                             // late is better than never, after a replica's fault
		deadline = time.Now().Add(wait)
	}
	w := admission.Work{
		ID: q.id, Tenant: q.tenant.ID, Tier: q.tenant.Tier, Weight: q.tenant.Weight,
		Tokens:   q.size.input + q.size.all(q.size.expected),
		Input:    q.size.input,
		Output:   q.size.all(q.size.expected),
		Arrived:  q.arrived,
		Deadline: deadline,
		Retry:    q.rec.Attempts > 0,
		Keep:     q.keep,
	}
	err := q.pool.Admitter.Admit(q.ctx, w, q.pick)
	q.kept.release()
	q.kept = kept{}
	q.rec.QueueWait += time.Since(began)
	if err == nil {
		q.rec.Attempts++
		return nil
	}
	return q.admissionError(err)
}

// pick is the start function of the line: it reports whether a replica has
// room, and holds the lease on it if so.
func (q *request) pick() (bool, error) {
	p := q.pool
	if !q.keptReady() {
		return false, nil
	}
	p.slots.forgetChanged(p.Prefix, p.replicas)
	replicas := p.replicas.Replicas()
	q.overlap()
	now := time.Now()
	q.route = router.Request{
		Adapter: q.model.Adapter, Prompt: q.size.input, Output: q.size.expected,
		Sequences: q.size.sequences, Media: q.in.Multimodal, Cached: q.held,
		Tried:     p.lacks.without(q.tried, replicas, q.model.Adapter, now),
		BlockSize: p.replicas.BlockSize(), Now: now,
	}
	if len(q.blocks) > 0 {
		q.route.Key, q.route.Blocks = q.blocks[0], q.blocks
	} else {
		q.route.Key = q.size.print
	}
	d, err := p.Router.Pick(&q.route, replicas)
	if (errors.Is(err, router.ErrNoReplica) || errors.Is(err, router.ErrTooLarge)) && len(q.route.Tried) > len(q.tried) {
		q.route.Tried = q.tried // none is left that can serve it: one of those may by now
		d, err = p.Router.Pick(&q.route, replicas)
	}
	if errors.Is(err, router.ErrNoReplica) && q.onceMore(replicas) {
		d, err = p.Router.Pick(&q.route, replicas)
	}
	switch {
	case err == nil:
	case errors.Is(err, router.ErrNoRoom):
		q.keepOn()
		return false, nil
	default:
		return false, err
	}
	q.replica, q.lease = d.Replica, d.Lease
	q.claimed = q.size.all(q.size.expected)
	q.rec.Replica, q.rec.Generation, q.rec.Predicted = d.Replica.Name(), d.Replica.Generation(), d.Cached
	p.slots.add(p.Prefix, d.Replica, q.rec.Generation, q.blocks)
	return true, nil
}

// onceMore allows again what was tried, but for the last, where all others that
// could be tried are out of rotation: they may take long to come back, while a
// failure may have been a passing one.
func (q *request) onceMore(replicas []*registry.Replica) bool {
	if len(q.tried) < 2 || len(q.tried) >= len(replicas) {
		return false
	}
	q.tried = q.tried[len(q.tried)-1:]
	q.route.Tried = q.tried
	return true
}

// overlap fills q.held with the prompt tokens that each slot holds already.
// The last token of a prompt is always computed, and all of it where its log
// probabilities are asked for.
func (q *request) overlap() {
	n := q.pool.replicas.Slots()
	if cap(q.held) < n {
		q.held = make([]int, n)
	}
	q.held = q.held[:n]
	clear(q.held)
	if f, ok := q.in.Field("prompt_logprobs"); len(q.blocks) == 0 || ok && string(f.Value) != "null" {
		return
	}
	q.pool.Prefix.Overlap(q.held, q.blocks)
	size := q.pool.replicas.BlockSize()
	for i, blocks := range q.held {
		q.held[i] = min(blocks*size, max(q.size.longest-1, 0)/size*size)
	}
}

// admissionError turns what kept the request from starting into what the
// client gets.
func (q *request) admissionError(err error) error {
	var full *admission.Error
	switch {
	case q.r.Context().Err() != nil:
		return errClientGone
	case q.ctx.Err() != nil:
		return errShutdown()
	case errors.As(err, &full) && full.Reason == admission.Closing:
		return errShutdown()
	case errors.Is(err, router.ErrTooLarge):
		return errContext(q.promptParam(), q.size.longest, q.size.output, largestCache(q.pool.replicas.Replicas()))
	case errors.As(err, &full):
		return &openai.Error{Status: 429, Code: "overloaded", After: full.RetryAfter(), Message: "All replicas of this model are busy and the request could not start in time."}
	case errors.Is(err, router.ErrNoReplica):
		if q.failed != nil && q.failed.answer != nil {
			return q.failed.answer
		}
		return errNoReplica()
	}
	q.g.Logger.Error("admission failed", "request", q.id, "error", err)
	return errInternal()
}

// largestCache returns the tokens of the largest KV cache reported, or 0.
func largestCache(replicas []*registry.Replica) int {
	most := 0
	for _, r := range replicas {
		if s := r.State(); s != nil {
			most = max(most, s.KVTokens)
		}
	}
	return most
}
