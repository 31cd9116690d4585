package redisquota_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/expediterhq/expediter/internal/redistest"
	"github.com/expediterhq/expediter/quota"
	"github.com/expediterhq/expediter/quota/redisquota"
)

// logBuffer is a log that can be read while it is written.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// lines returns the lines that have all the parts.
func (l *logBuffer) lines(parts ...string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
lines:
	for line := range strings.Lines(l.b.String()) {
		for _, p := range parts {
			if !strings.Contains(line, p) {
				continue lines
			}
		}
		found = append(found, line)
	}
	return found
}

// clock is the real one, and more.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time          { return time.Now().Add(time.Duration(c.ahead.Load())) }
func (c *clock) forward(d time.Duration) { c.ahead.Add(int64(d)) }

const (
	hashKey = "expediter:quota:{tacme}:h"
	setKey  = "expediter:quota:{tacme}:z"
)

// breakKeys are the ways in which a tenant's keys can be broken.
var breakKeys = []struct {
	name  string
	words string // of Redis
	do    func(ctx context.Context, c redis.UniversalClient) error
}{
	{"hash is a string", "WRONGTYPE", func(ctx context.Context, c redis.UniversalClient) error {
		return c.Set(ctx, hashKey, "garbage", 0).Err()
	}},
	{"set is a string", "WRONGTYPE", func(ctx context.Context, c redis.UniversalClient) error {
		return c.Set(ctx, setKey, "garbage", 0).Err()
	}},
	{"sums are garbage", "data string too short", func(ctx context.Context, c redis.UniversalClient) error {
		return c.HSet(ctx, hashKey, "h", "garbage").Err()
	}},
	{"window is garbage", "data string too short", func(ctx context.Context, c redis.UniversalClient) error {
		return c.HSet(ctx, hashKey, "w:w", "garbage").Err()
	}},
}

func TestBrokenKeys(t *testing.T) {
	server := redistest.Start(t)
	for _, b := range breakKeys {
		t.Run(b.name, func(t *testing.T) {
			testBrokenKeys(t, b.words, b.do, server.Addr)
		})
	}
}

func TestBrokenKeysCluster(t *testing.T) {
	c := redistest.StartCluster(t, 3)
	testBrokenKeys(t, breakKeys[0].words, breakKeys[0].do, c.Addrs...)
}

// Keys of one tenant that Redis cannot work with are that tenant's matter: it is
// refused with Redis' own words, all others go on, and when the keys are gone it
// is served at once and its settlement arrives.
func testBrokenKeys(t *testing.T, words string, breakIt func(context.Context, redis.UniversalClient) error, addrs ...string) {
	var log logBuffer
	s := open(t, redisquota.Config{Logger: log.logger()}, addrs...)
	client := redisquota.Client(redisOptions(addrs...))
	defer client.Close()
	ctx := t.Context()
	if err := client.Del(ctx, hashKey, setKey).Err(); err != nil {
		t.Fatal(err)
	}
	running := reservation("acme", unique())
	if err := s.Reserve(ctx, running); err != nil {
		t.Fatal(err)
	}
	if err := breakIt(ctx, client); err != nil {
		t.Fatal(err)
	}
	if err := s.Settle(ctx, running, 7); err != nil {
		t.Fatalf("Settle = %v, want it kept for later", err)
	}
	// Longer than a breaker takes to close, for deliveries that could open it again.
	other := neighbour(t, client)
	for begun := time.Now(); time.Since(begun) < 500*time.Millisecond; {
		checkRefused(t, s.Reserve(ctx, reservation("acme", unique())), words)
		r := reservation(other, unique())
		if err := s.Reserve(ctx, r); err != nil {
			t.Fatalf("another tenant's Reserve = %v", err)
		}
		if err := s.Settle(ctx, r, 1); err != nil {
			t.Fatalf("another tenant's Settle = %v", err)
		}
	}
	if st := s.Stats(); st.Down || st.Pending != 1 || st.Dropped != 0 {
		t.Errorf("Stats = %+v, want one settlement pending and nothing down", st)
	}
	if _, err := s.Balance(ctx, "acme"); err == nil {
		t.Error("Balance of broken keys reported no error")
	}
	if got := log.lines("tenant=acme", hashKey, words); len(got) != 1 {
		t.Errorf("%d lines name the key and say %q, want 1: %q", len(got), words, got)
	}

	if err := client.Del(ctx, hashKey, setKey).Err(); err != nil {
		t.Fatal(err)
	}
	r := reservation("acme", unique())
	if err := s.Reserve(ctx, r); err != nil {
		t.Errorf("Reserve with the keys gone = %v", err)
	}
	if err := s.Settle(ctx, r, 2); err != nil {
		t.Errorf("Settle with the keys gone = %v", err)
	}
	atRest(t, s, "acme", 9)
}

// neighbour is a tenant whose calls travel with those of acme: in a cluster, one of
// the same 32nd part of the slots.
func neighbour(t *testing.T, c redis.UniversalClient) string {
	t.Helper()
	if _, ok := c.(*redis.ClusterClient); !ok {
		return "two"
	}
	slot := func(tenant string) int64 {
		n, err := c.ClusterKeySlot(t.Context(), "{t"+tenant+"}").Result()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for {
		if other := unique(); slot(other)/512 == slot("acme")/512 {
			return other
		}
	}
}

func checkRefused(t *testing.T, err error, words string) {
	t.Helper()
	var e *redisquota.KeyError
	if !errors.Is(err, quota.ErrUnavailable) || !errors.As(err, &e) {
		t.Fatalf("Reserve = %v, want unavailable for a KeyError", err)
	}
	if e.Tenant != "acme" || !strings.Contains(e.Error(), hashKey) || !strings.Contains(e.Error(), setKey) || !strings.Contains(e.Error(), words) {
		t.Fatalf("KeyError of %q says %q, want acme, its keys and %q", e.Tenant, e, words)
	}
	if strings.Contains(err.Error(), "acme") {
		t.Fatalf("the caller is told %q", err)
	}
}

// Under the policies that serve without Redis, they do so for this tenant alone.
func TestBrokenKeysPolicies(t *testing.T) {
	server := redistest.Start(t)
	server.Do("SET", hashKey, "garbage")
	for _, tt := range []struct {
		name string
		cfg  redisquota.Config
		want int // of ten reservations of 100 under a limit of 1000
	}{
		{"open", redisquota.Config{Policy: redisquota.Open}, 10},
		{"local share", redisquota.Config{Policy: redisquota.LocalShare, Share: 0.5}, 5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var log logBuffer
			tt.cfg.Logger = log.logger()
			s := open(t, tt.cfg, server.Addr)
			got := 0
			for range 10 {
				r := quota.Reservation{ID: unique(), Tenant: "acme", Limit: only(0, 1000, 0), Cost: 100}
				switch err := s.Reserve(t.Context(), r); {
				case err == nil:
					got++
				case verdictOf(err) != quota.OverQuota:
					t.Errorf("Reserve = %v", err)
				}
			}
			if got != tt.want {
				t.Errorf("%d granted without redis, want %d", got, tt.want)
			}
			if st := s.Stats(); st.Down || st.Pending != 0 {
				t.Errorf("Stats = %+v, want nothing down or pending", st)
			}
			if n := len(log.lines(hashKey, "WRONGTYPE")); n != 1 {
				t.Errorf("%d lines tell of it, want 1", n)
			}
		})
	}
}

// A settlement that Redis refuses for ten minutes is given up, and the log says
// what is not charged.
func TestBrokenKeysGiveUp(t *testing.T) {
	server := redistest.Start(t)
	var log logBuffer
	var c clock
	s := open(t, redisquota.Config{Logger: log.logger(), Now: c.now}, server.Addr)
	running := []quota.Reservation{reservation("acme", unique()), reservation("acme", unique())}
	for _, r := range running {
		if err := s.Reserve(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	server.Do("SET", hashKey, "garbage")
	for _, r := range running {
		if err := s.Settle(t.Context(), r, 8); err != nil {
			t.Fatal(err)
		}
	}
	redistest.Until(t, "refused", 10*time.Second, func() bool { return len(log.lines(hashKey, "WRONGTYPE")) > 0 })
	c.forward(9 * time.Minute)
	<-time.After(300 * time.Millisecond)
	if st := s.Stats(); st.Pending != 2 || st.Dropped != 0 {
		t.Errorf("after nine minutes %+v, want both pending", st)
	}
	c.forward(2 * time.Minute)
	redistest.Until(t, "given up", 10*time.Second, func() bool { st := s.Stats(); return st.Pending == 0 && st.Dropped == 2 })
	if err := s.Close(); err != nil {
		t.Errorf("Close = %v", err)
	}
	if got := log.lines("given up", "tenant=acme", "not_charged_tokens=16", "settlements=2", hashKey); len(got) != 1 {
		t.Errorf("%d lines tell of the loss, want 1: %q", len(got), log.lines("given up"))
	}
}

// What a user may not do concerns everybody, and yet the write that closes the
// breaker would go through: it stays closed, and what waits is kept.
func TestNoRightToAScript(t *testing.T) {
	server := redistest.Start(t)
	server.Do("ACL", "SETUSER", "gateway", "on", ">secret", "~expediter:quota:*", "+@all", "-hmget")
	o := redisOptions(server.Addr)
	o.Username, o.Password = "gateway", "secret"
	s := openClient(t, redisquota.Config{}, o)
	r := reservation("acme", unique())
	if err := s.Settle(t.Context(), r, 5); err != nil {
		t.Fatal(err)
	}
	for begun := time.Now(); time.Since(begun) < 300*time.Millisecond; {
		err := s.Reserve(t.Context(), reservation("acme", unique()))
		var e *redisquota.KeyError
		if !errors.Is(err, quota.ErrUnavailable) || errors.As(err, &e) {
			t.Fatalf("Reserve = %v, want unavailable, and not for its keys", err)
		}
		if st := s.Stats(); st.Down {
			t.Fatalf("Stats = %+v, want not down", st)
		}
	}
	server.Do("ACL", "SETUSER", "gateway", "+hmget")
	redistest.Until(t, "delivered", 40*time.Second, func() bool { return s.Stats().Pending == 0 })
	atRest(t, s, "acme", 5)
}

// Under a policy that grants without Redis nobody hears of such an error but the log.
func TestNoRightIsTold(t *testing.T) {
	server := redistest.Start(t)
	server.Do("ACL", "SETUSER", "gateway", "on", ">secret", "~expediter:quota:*", "+@all", "-hmget")
	o := redisOptions(server.Addr)
	o.Username, o.Password = "gateway", "secret"
	var log logBuffer
	var c clock
	s := openClient(t, redisquota.Config{Policy: redisquota.Open, Logger: log.logger(), Now: c.now}, o)
	for _, tt := range []struct {
		after time.Duration
		lines int
	}{{0, 1}, {0, 1}, {11 * time.Second, 2}} {
		c.forward(tt.after)
		if err := s.Reserve(t.Context(), reservation("acme", unique())); err != nil {
			t.Fatal(err)
		}
		if got := log.lines("the policy answers for those calls", "run th"); len(got) != tt.lines || s.Stats().Down {
			t.Errorf("%d lines tell of it, want %d: %q; stats %+v", len(got), tt.lines, got, s.Stats())
		}
	}
}

// A server that takes no writes is away for all, and back when it does.
func TestNoWritesIsAnOutage(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, redisquota.Config{}, server.Addr)
	r := reservation("acme", unique())
	if err := s.Reserve(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	server.Do("CONFIG", "SET", "min-replicas-to-write", "1")
	if err := s.Settle(t.Context(), r, 5); err != nil {
		t.Fatal(err)
	}
	redistest.Until(t, "down", 10*time.Second, func() bool { return s.Stats().Down })
	if st := s.Stats(); !strings.Contains(st.Cause.Error(), "NOREPLICAS") {
		t.Errorf("Stats = %+v, want NOREPLICAS", st)
	}
	server.Do("CONFIG", "SET", "min-replicas-to-write", "0")
	redistest.Until(t, "back", 10*time.Second, func() bool { return !s.Stats().Down })
	atRest(t, s, "acme", 5)
}
