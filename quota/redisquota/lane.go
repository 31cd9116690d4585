package redisquota

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	clusterLanes = 32
	batchSize    = 128
	queueSize    = 4096
	probeEvery   = 100 * time.Millisecond

	// grace is how long a call waits for a Redis that is silent already.
	grace = 5 * time.Millisecond
)

var (
	errDown   = errors.New("redisquota: redis is away")
	errBusy   = errors.New("redisquota: too many calls are waiting for redis")
	errLate   = errors.New("redisquota: redis did not answer in time")
	errSilent = errors.New("redisquota: redis is silent for longer than usual")
	errClosed = errors.New("redisquota: store is closed")
)

// lane carries the calls of one range of slots: a queue that workers empty in
// batches, and a breaker.
type lane struct {
	s     *Store
	queue chan *op
	down  atomic.Bool               // the breaker is open
	why   atomic.Pointer[awayError] // while it is
	pulse *pulse
	probe string // a key of this range
}

func (s *Store) startLanes(n, workers int) {
	s.lanes = make([]*lane, n)
	for i := range s.lanes {
		l := &lane{s: s, queue: make(chan *op, queueSize), pulse: newPulse(s.cfg.Patience, s.cfg.Timeout), probe: s.probeKey(i, n)}
		s.lanes[i] = l
		for range workers {
			s.wg.Go(l.work)
		}
	}
}

// probeKey finds a key whose slot is in lane i of n.
func (s *Store) probeKey(i, n int) string {
	for k := 0; ; k++ {
		if tag := "p" + strconv.Itoa(k); int(slot([]byte(tag)))*n/slots == i {
			return s.cfg.Prefix + "{" + tag + "}:probe"
		}
	}
}

func (s *Store) lane(o *op) *lane { return s.lanes[int(o.slot)*len(s.lanes)/slots] }

// send puts o on its way, to be waited for no longer than within. When it returns
// an error, o was not sent and never will be.
func (s *Store) send(o *op, within time.Duration) error {
	l := s.lane(o)
	if l.down.Load() {
		return l.why.Load()
	}
	o.until = time.Now().Add(within)
	select {
	case l.queue <- o:
		return nil
	default:
		return errBusy
	}
}

// wait returns the answer to o. It ends with the time o was given, with ctx, with
// the store, or when quiet is closed.
func (s *Store) wait(ctx context.Context, o *op, quiet <-chan struct{}) reply {
	if o.timer == nil {
		o.timer = time.NewTimer(time.Until(o.until))
	} else {
		o.timer.Reset(time.Until(o.until))
	}
	var err error
	select {
	case r := <-o.done:
		o.timer.Stop()
		s.ops.Put(o) // nobody else has it
		return r
	case <-o.timer.C:
		err = errLate
	case <-quiet:
		err = errSilent
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-s.ctx.Done():
		err = errClosed
	}
	o.timer.Stop()
	return reply{err: err, sent: !o.stage.CompareAndSwap(queued, left)}
}

// work sends what waits in the queue, as much as there is at a time.
func (l *lane) work() {
	batch := make([]*op, 0, batchSize)
	for {
		select {
		case o := <-l.queue:
			batch = append(batch[:0], o)
		case <-l.s.ctx.Done():
			return
		}
	more:
		for len(batch) < batchSize {
			select {
			case o := <-l.queue:
				batch = append(batch, o)
			default:
				break more
			}
		}
		l.run(batch)
		clear(batch)
	}
}

// run sends a batch, what got no answer a second time, and moves the breaker.
func (l *lane) run(batch []*op) {
	live := batch[:0]
	for _, o := range batch {
		switch {
		case l.down.Load():
			o.done <- reply{err: l.why.Load()}
		case !time.Now().Before(o.until):
			o.done <- reply{err: errLate}
		case o.stage.CompareAndSwap(queued, taken):
			live = append(live, o)
		}
	}
	if len(live) == 0 {
		return
	}
	l.begin()
	defer l.end()
	all, begun := voters(live), time.Now()
	failed := l.attempt(live, l.pulse.attempt())
	if len(failed) > 0 && l.s.ctx.Err() == nil {
		for _, o := range failed {
			o.unsure = true
		}
		begun = time.Now()
		failed = l.attempt(failed, l.s.cfg.Timeout) // which may begin with a dial
	}
	if len(failed) > 0 {
		l.s.relearn()
	}
	if 2*voters(failed) > all && !l.pulse.outdated(begun) {
		if err := l.outage(failed); err != nil {
			l.fail(err)
		}
	}
	if !l.down.Load() {
		l.s.tellAnswered(failed)
	}
	for _, o := range failed {
		o.done <- reply{err: o.err, sent: true}
	}
}

// voters counts the ops whose failure speaks against Redis.
func voters(ops []*op) (n int) {
	for _, o := range ops {
		if !o.mute {
			n++
		}
	}
	return n
}

// outage returns why Redis is to be given up, or nil: an error that it answered
// with can be about one slot, or one command of one script, and opens the breaker
// only if Redis does not take the write that would close it again.
func (l *lane) outage(failed []*op) error {
	for _, o := range failed {
		if !answered(o.err) {
			return o.err
		}
	}
	if l.write(l.s.cfg.Timeout) == nil {
		return nil
	}
	return failed[0].err
}

// attempt sends the ops in one pipeline, those whose script is unknown to the
// server a second time with the script, answers them, and returns those that
// failed for a reason that is not their own.
func (l *lane) attempt(ops []*op, within time.Duration) (failed []*op) {
	ctx, cancel := context.WithTimeout(l.s.ctx, within)
	defer cancel()
	begun := time.Now()
	var unknown []*op
	cmds := l.pipeline(ctx, ops, false)
	if slices.ContainsFunc(cmds, spoke) {
		l.pulse.answered(time.Since(begun))
	}
	for i, c := range cmds {
		if e := c.Err(); e != nil && strings.HasPrefix(e.Error(), "NOSCRIPT") {
			unknown = append(unknown, ops[i])
		} else if !l.answer(ops[i], c) {
			failed = append(failed, ops[i])
		}
	}
	if len(unknown) == 0 {
		return failed
	}
	for i, c := range l.pipeline(ctx, unknown, true) {
		if !l.answer(unknown[i], c) {
			failed = append(failed, unknown[i])
		}
	}
	return failed
}

// answer hands o what Redis said to c, unless it is no answer to o: then it keeps
// the reason and returns false. A script that is refused has not done its work.
func (l *lane) answer(o *op, c *redis.Cmd) bool {
	switch err := c.Err(); {
	case err == nil:
		o.done <- reply{val: c.Val(), sent: true}
	case refusal(err):
		o.done <- reply{err: l.s.refuse(o, err), sent: o.unsure}
	default:
		o.err = err
		return false
	}
	return true
}

// spoke reports whether Redis said anything to c, be it an error.
func spoke(c *redis.Cmd) bool {
	return c.Err() == nil || answered(c.Err())
}

func (l *lane) pipeline(ctx context.Context, ops []*op, full bool) []*redis.Cmd {
	pipe := l.s.client.Pipeline()
	cmds := make([]*redis.Cmd, len(ops))
	for i, o := range ops {
		args := o.args
		if full {
			args = append([]any{"eval", o.script.src}, args[2:]...)
		}
		cmds[i] = redis.NewCmd(ctx, args...)
		cmds[i].SetFirstKeyPos(3)
		// It is queued; the error of a pipeline that is being put together is nil.
		_ = pipe.Process(ctx, cmds[i])
	}
	if _, err := pipe.Exec(ctx); err != nil {
		for _, c := range cmds {
			if c.Err() == nil && c.Val() == nil {
				// Not wrapped: what Redis said, it said to another.
				c.SetErr(fmt.Errorf("redisquota: no answer: %v", err))
			}
		}
	}
	return cmds
}

// awayError is errDown with the reason why Redis was given up.
type awayError struct{ cause error }

func (e *awayError) Error() string   { return errDown.Error() + ": " + e.cause.Error() }
func (e *awayError) Unwrap() []error { return []error{errDown, e.cause} }

// fail opens the breaker and starts the probe that will close it.
func (l *lane) fail(cause error) {
	if l.s.ctx.Err() != nil {
		return
	}
	l.why.Store(&awayError{cause}) // before the breaker opens: who sees it open tells why
	if l.down.CompareAndSwap(false, true) {
		l.s.wg.Go(l.heal)
	}
}

// heal asks Redis for a write until it does one.
func (l *lane) heal() {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-l.s.ctx.Done():
			return
		}
		err := l.write(max(2*l.s.cfg.Timeout, probeEvery))
		if err == nil {
			l.pulse.heal()
			l.down.Store(false)
			l.s.backlog.wake()
			return
		}
		l.s.relearn()
		l.why.Store(&awayError{err})
	}
}

// relearn has a cluster's client ask which node has which slots. It does so by itself
// where a node answers that a slot has moved, which one that is dead does not,
// and else once a minute. Calls that come while it asks are one.
func (s *Store) relearn() {
	if c, ok := s.client.(*redis.ClusterClient); ok && s.ctx.Err() == nil {
		c.ReloadState(s.ctx)
	}
}

// write asks Redis for a write to this range that concerns no tenant.
func (l *lane) write(within time.Duration) error {
	ctx, cancel := context.WithTimeout(l.s.ctx, within)
	defer cancel()
	return l.s.client.Set(ctx, l.probe, 1, time.Second).Err()
}
