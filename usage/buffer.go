package usage

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/expediterhq/expediter"
)

// If a far side fails, it is tried again after minPause, then after twice as
// long each time, up to maxPause.
const (
	minPause = 50 * time.Millisecond
	maxPause = time.Second
)

// defaultBuffer is how many records a sink holds by default.
const defaultBuffer = 65536

// orDefault returns n, or defaultBuffer where n is not above zero.
func orDefault(n int) int {
	if n <= 0 {
		return defaultBuffer
	}
	return n
}

// carrier is the far side of a buffer.
type carrier interface {
	// carry delivers records of batch, which it may rearrange, and returns how
	// many of those in front are done with; lost of them were given up. With
	// an error, the rest is offered again after a pause. It returns soon
	// after ctx ends.
	carry(ctx context.Context, batch []*expediter.Record) (done, lost int, err error)

	// idle is called at intervals while there is nothing to carry.
	idle(ctx context.Context)

	// end is called last.
	end(ctx context.Context)
}

// bufferConfig sets up a buffer.
type bufferConfig struct {
	limit  int           // records held, those being carried included
	batch  int           // records per carry, at most
	every  time.Duration // between calls of idle
	report func(error)   // told of the first of a row of errors; may be nil
}

// buffer is a bounded queue with one goroutine that empties it into a
// carrier. It is what all sinks have in common.
type buffer struct {
	bufferConfig
	carrier carrier

	written, dropped atomic.Uint64

	mu     sync.Mutex
	queue  []*expediter.Record
	held   int // queued or being carried
	closed bool

	wake   chan struct{} // capacity 1
	finish chan struct{} // closed by close: deliver what waits and end
	stop   context.Context
	cut    context.CancelFunc // ends stop: give up what is left
	done   chan struct{}      // closed when the goroutine is gone
}

// newBuffer starts the goroutine; close ends it.
func newBuffer(c carrier, cfg bufferConfig) *buffer {
	if cfg.report == nil {
		cfg.report = func(error) {}
	}
	b := &buffer{
		bufferConfig: cfg, carrier: c,
		wake: make(chan struct{}, 1), done: make(chan struct{}), finish: make(chan struct{}),
	}
	b.stop, b.cut = context.WithCancel(context.Background())
	go b.run()
	return b
}

// push takes r, or drops it when there is no room. It never blocks.
func (b *buffer) push(r *expediter.Record) {
	b.mu.Lock()
	full := b.closed || b.held >= b.limit
	if !full {
		b.queue = append(b.queue, r)
		b.held++
	}
	b.mu.Unlock()
	if full {
		b.dropped.Add(1)
		return
	}
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// take moves up to b.batch records from the queue to the end of dst.
func (b *buffer) take(dst []*expediter.Record) []*expediter.Record {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(b.batch-len(dst), len(b.queue))
	dst = append(dst, b.queue[:n]...)
	clear(b.queue[:n])
	b.queue = b.queue[n:]
	if len(b.queue) == 0 {
		b.queue = nil // a burst's array is not kept
	}
	return dst
}

func (b *buffer) release(n int) {
	b.mu.Lock()
	b.held -= n
	b.mu.Unlock()
}

func (b *buffer) waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held
}

func (b *buffer) run() {
	defer close(b.done)
	defer b.carrier.end(b.stop)
	tick := time.NewTicker(b.every)
	defer tick.Stop()
	var batch []*expediter.Record
	var pause time.Duration
	for {
		batch = b.take(batch)
		if len(batch) == 0 {
			if !b.rest(tick.C) {
				return
			}
			continue
		}
		if b.stop.Err() != nil {
			b.drop(len(batch))
			return
		}
		var err error
		if batch, err = b.carry(batch); err == nil {
			pause = 0
			continue
		}
		if pause == 0 {
			b.report(err)
		}
		pause = min(max(2*pause, minPause), maxPause)
		select {
		case <-time.After(pause):
		case <-b.stop.Done():
		}
	}
}

// rest waits for something to do. It returns false when there will be no
// more: everything taken before close is then delivered.
func (b *buffer) rest(tick <-chan time.Time) bool {
	select {
	case <-b.wake:
	case <-tick:
		b.carrier.idle(b.stop)
	case <-b.finish:
		return b.queued() > 0
	}
	return true
}

func (b *buffer) queued() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.queue)
}

// carry offers batch to the carrier once and returns what is left of it.
func (b *buffer) carry(batch []*expediter.Record) ([]*expediter.Record, error) {
	done, lost, err := b.carrier.carry(b.stop, batch)
	b.written.Add(uint64(done - lost))
	b.dropped.Add(uint64(lost))
	b.release(done)
	n := copy(batch, batch[done:])
	clear(batch[n:])
	return batch[:n], err
}

// drop gives up n records in hand and all that are queued.
func (b *buffer) drop(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n += len(b.queue)
	b.queue = nil
	b.held -= n
	b.dropped.Add(uint64(n))
}

// close refuses further records, waits until the goroutine has delivered the
// rest and is gone, or until ctx ends: then what is left is dropped. It
// returns an error if records were lost meanwhile.
func (b *buffer) close(ctx context.Context) error {
	before := b.dropped.Load()
	b.mu.Lock()
	if !b.closed {
		b.closed = true
		close(b.finish)
	}
	b.mu.Unlock()
	defer b.cut()
	select {
	case <-b.done:
	case <-ctx.Done():
		b.cut()
		select {
		case <-b.done:
		case <-time.After(maxPause): // the far side does not heed its context
			b.drop(0)
		}
	}
	if lost := int(b.dropped.Load()-before) + b.waiting(); lost > 0 {
		return errors.Join(fmt.Errorf("usage: %d records lost at close", lost), context.Cause(ctx))
	}
	return nil
}
