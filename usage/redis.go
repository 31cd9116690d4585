package usage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/expediterhq/expediter"
)

// redisBatch is how many records one round trip carries, at most.
const redisBatch = 256

// DefaultStream is the key of the stream if none is named.
const DefaultStream = "expediter:usage"

// RedisConfig says where records go. The zero RedisConfig is ready to use.
type RedisConfig struct {
	// Stream is the key. If empty, DefaultStream.
	Stream string

	// MaxLen is about how many entries the stream holds before the oldest
	// are removed. If zero, 1,000,000.
	MaxLen int64

	// Keep is how long the stream outlives its last entry. If zero, 30 days.
	Keep time.Duration

	// Timeout bounds one round trip. If zero, 5 s.
	Timeout time.Duration

	// Buffer is how many records wait in memory, at most. If zero, 65,536.
	Buffer int

	// Report is told when Redis begins to fail. If nil, nobody is.
	Report func(error)
}

// Redis is a sink that appends records to a Redis stream. Each entry has two
// fields: "id", the record's id, and "record", its JSON form.
//
// Delivery is at least once: an entry whose acknowledgement was lost is sent
// again, so readers tell copies by the field id, as ScanStream does. While
// Redis is gone, records wait in memory and sending is tried again within a
// second; when Buffer records wait, further ones are dropped and counted. A
// kill of the process loses those that wait; a fail-over of Redis loses what
// it had acknowledged and not yet replicated.
type Redis struct {
	client redis.UniversalClient
	cfg    RedisConfig
	buffer *buffer
	buf    []byte // belongs to the buffer's goroutine
}

// NewRedis returns a sink on client, which stays the caller's to close, after
// the sink. It does not wait for Redis to be there.
func NewRedis(client redis.UniversalClient, cfg RedisConfig) (*Redis, error) {
	var errs []error
	for _, f := range []struct {
		name string
		v    int64
	}{{"MaxLen", cfg.MaxLen}, {"Keep", int64(cfg.Keep)}, {"Timeout", int64(cfg.Timeout)}} {
		if f.v < 0 {
			errs = append(errs, fmt.Errorf("usage: RedisConfig.%s: is %d, want at least 0", f.name, f.v))
		}
	}
	if client == nil {
		errs = append(errs, errors.New("usage: NewRedis: client must be set"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if cfg.Stream == "" {
		cfg.Stream = DefaultStream
	}
	if cfg.MaxLen == 0 {
		cfg.MaxLen = 1_000_000
	}
	if cfg.Keep == 0 {
		cfg.Keep = 30 * 24 * time.Hour
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 5 * time.Second
	}
	s := &Redis{client: client, cfg: cfg}
	s.buffer = newBuffer(s, bufferConfig{
		limit: orDefault(cfg.Buffer), batch: redisBatch, every: time.Hour, report: cfg.Report})
	return s, nil
}

// Write takes r, or counts it as dropped. It never blocks.
func (s *Redis) Write(r *expediter.Record) { s.buffer.push(r) }

// Written is how many records Redis has acknowledged.
func (s *Redis) Written() uint64 { return s.buffer.written.Load() }

// Dropped is how many records were lost.
func (s *Redis) Dropped() uint64 { return s.buffer.dropped.Load() }

// Waiting is how many records are held in memory.
func (s *Redis) Waiting() int { return s.buffer.waiting() }

// Close stops taking records, sends those that wait, and returns an error if
// some were lost because ctx ended first.
func (s *Redis) Close(ctx context.Context) error { return s.buffer.close(ctx) }

// carry sends batch in one round trip. Records that were not acknowledged end
// up at the end of batch, in order; what is before them is done with.
func (s *Redis) carry(ctx context.Context, batch []*expediter.Record) (done, lost int, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	pipe := s.client.Pipeline()
	adds := make([]*redis.StringCmd, len(batch))
	s.buf = s.buf[:0]
	for i, r := range batch {
		start := len(s.buf)
		s.buf = AppendJSON(s.buf, r)
		adds[i] = pipe.XAdd(ctx, &redis.XAddArgs{
			Stream: s.cfg.Stream, MaxLen: s.cfg.MaxLen, Approx: true,
			Values: []any{"id", r.ID, "record", s.buf[start:]},
		})
	}
	pipe.PExpire(ctx, s.cfg.Stream, s.cfg.Keep)
	// The errors of single commands tell more than that of the whole.
	_, err = pipe.Exec(ctx)
	var left []*expediter.Record
	for i, r := range batch {
		if adds[i].Err() != nil || adds[i].Val() == "" {
			left = append(left, r)
			continue
		}
		done++
	}
	copy(batch[done:], left)
	if len(left) == 0 {
		return done, 0, nil
	}
	return done, 0, fmt.Errorf("usage: redis: %w", err)
}

func (s *Redis) idle(context.Context) {}
func (s *Redis) end(context.Context)  {}
