package usage_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/expediterhq/expediter"
	"github.com/expediterhq/expediter/internal/redistest"
	"github.com/expediterhq/expediter/usage"
)

func newClient(t *testing.T, addr string) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: addr, ReadTimeout: 500 * time.Millisecond, MaxRetries: -1})
	t.Cleanup(func() { c.Close() })
	return c
}

func newRedis(t *testing.T, c redis.UniversalClient, cfg usage.RedisConfig) *usage.Redis {
	t.Helper()
	s, err := usage.NewRedis(c, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// stream returns the ids that ScanStream finds, and what it says.
func stream(t *testing.T, c redis.UniversalClient, key string) ([]string, usage.StreamScanned) {
	t.Helper()
	var got []string
	s, err := usage.ScanStream(t.Context(), c, key, func(r expediter.Record) error {
		want := full()
		want.ID = r.ID
		if r != want {
			t.Errorf("record %+v, want %+v", r, want)
		}
		got = append(got, r.ID)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got, s
}

func numbers(n int) []string {
	var s []string
	for i := range n {
		s = append(s, fmt.Sprint(i))
	}
	return s
}

func TestRedis(t *testing.T) {
	server := redistest.Start(t)
	c := newClient(t, server.Addr)
	s := newRedis(t, c, usage.RedisConfig{})
	give(s, 0, 3000)
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := countsOf(s), (counts{3000, 0, 0}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	got, sc := stream(t, c, "")
	if !slices.Equal(got, numbers(3000)) || sc != (usage.StreamScanned{Records: 3000}) {
		t.Errorf("%+v: %.100q, want 0 to 2999 in order", sc, got)
	}
	if ttl := c.TTL(t.Context(), usage.DefaultStream).Val(); ttl < 29*24*time.Hour || ttl > 30*24*time.Hour {
		t.Errorf("the stream lives for %v, want 30 days", ttl)
	}
	e := c.XRangeN(t.Context(), usage.DefaultStream, "-", "+", 1).Val()[0]
	if len(e.Values) != 2 || e.Values["id"] != "0" || !strings.HasPrefix(e.Values["record"].(string), `{"id":"0",`) {
		t.Errorf("entry %v, want the fields id and record", e.Values)
	}
}

// Replies lost after delivery make copies, which ScanStream leaves out.
func TestRedisDeliversAtLeastOnce(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr)
	c := newClient(t, proxy.Addr)
	s := newRedis(t, c, usage.RedisConfig{})
	for i := range 4 {
		if err := c.Ping(t.Context()).Err(); err != nil { // the greeting's replies are not the ones to drop
			t.Fatal(err)
		}
		proxy.DropReplies(1)
		give(s, 500*i, 500*i+500)
		redistest.Until(t, "all are written", 20*time.Second, func() bool { return s.Waiting() == 0 })
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	got, sc := stream(t, newClient(t, server.Addr), "")
	if !slices.Equal(got, numbers(2000)) {
		t.Errorf("%+v: %.100q, want 0 to 1999 in order", sc, got)
	}
	if sc.Copies == 0 { // some of the replies dropped may be a greeting's
		t.Error("no copies: no reply to a delivery was dropped, and the test shows nothing")
	}
}

// everyOther fails every other command of the first pipeline before it is
// sent, as a cluster may when it moves slots.
type everyOther struct{ done bool }

func (h *everyOther) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (h *everyOther) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (h *everyOther) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if h.done || cmds[0].Name() != "xadd" {
			return next(ctx, cmds)
		}
		h.done = true
		var pass []redis.Cmder
		for i, c := range cmds {
			if i%2 == 1 {
				c.SetErr(errors.New("TRYAGAIN"))
			} else {
				pass = append(pass, c)
			}
		}
		return errors.Join(next(ctx, pass), errors.New("TRYAGAIN"))
	}
}

// Of a batch that got through in part, only the rest is sent again.
func TestRedisSendsOnlyWhatFailedAgain(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr)
	c := newClient(t, proxy.Addr)
	c.AddHook(&everyOther{})
	s := newRedis(t, c, usage.RedisConfig{})
	give(s, 0, 100)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	got, sc := stream(t, newClient(t, server.Addr), "")
	slices.SortFunc(got, func(a, b string) int { return cmp.Or(len(a)-len(b), cmp.Compare(a, b)) })
	if sc != (usage.StreamScanned{Records: 100}) || !slices.Equal(got, numbers(100)) {
		t.Errorf("%+v: %q, want all 100 without copies", sc, got)
	}
}

// The server is killed and comes back: nothing that was taken is lost.
func TestRedisOutage(t *testing.T) {
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	reports := make(chan error, 100)
	s := newRedis(t, newClient(t, server.Addr), usage.RedisConfig{Buffer: 1000, Report: func(err error) { reports <- err }})
	give(s, 0, 500)
	redistest.Until(t, "500 are written", 20*time.Second, func() bool { return s.Written() == 500 })
	server.Kill()
	give(s, 500, 1600)
	if got, want := countsOf(s), (counts{500, 100, 1000}); got != want {
		t.Errorf("while Redis is gone: %+v, want %+v", got, want)
	}
	redistest.Until(t, "the outage is reported", 20*time.Second, func() bool { return len(reports) > 0 })
	server.Restart()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if got, _ := stream(t, newClient(t, server.Addr), ""); !slices.Equal(got, numbers(1500)) {
		t.Errorf("%d records, want 0 to 1499 in order", len(got))
	}
}

// A Redis that takes everything and answers nothing holds up neither Write
// nor, past its context, Close.
func TestRedisThatIsSilent(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr)
	proxy.Silence(true)
	s := newRedis(t, newClient(t, proxy.Addr), usage.RedisConfig{Buffer: 100})
	give(s, 0, 1000)
	if got, want := countsOf(s), (counts{0, 900, 100}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Close(ctx); err == nil || !strings.Contains(err.Error(), "100 records lost") {
		t.Errorf("Close = %v, want 100 lost", err)
	}
	redistest.Until(t, "all is dropped", 20*time.Second, func() bool { return countsOf(s) == counts{0, 1000, 0} })
}

// An error reply, here for a key of the wrong kind, is tried again like an
// outage.
func TestRedisThatRefuses(t *testing.T) {
	server := redistest.Start(t)
	c := newClient(t, server.Addr)
	c.Set(t.Context(), "mine", "a string", 0)
	reports := make(chan error, 100)
	s := newRedis(t, c, usage.RedisConfig{Stream: "mine", Report: func(err error) { reports <- err }})
	give(s, 0, 10)
	if err := <-reports; !strings.HasPrefix(err.Error(), "usage: redis: WRONGTYPE") {
		t.Errorf("report %v, want WRONGTYPE", err)
	}
	c.Del(t.Context(), "mine")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if got, _ := stream(t, c, "mine"); !slices.Equal(got, numbers(10)) {
		t.Errorf("records %q, want 0 to 9", got)
	}
}

func TestRedisStreamIsBounded(t *testing.T) {
	server := redistest.Start(t)
	c := newClient(t, server.Addr)
	s := newRedis(t, c, usage.RedisConfig{Stream: "short", MaxLen: 100})
	give(s, 0, 5000)
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	// Redis trims by whole nodes, of 100 entries unless configured otherwise.
	if n := c.XLen(t.Context(), "short").Val(); n < 100 || n > 300 {
		t.Errorf("the stream holds %d entries, want about 100", n)
	}
	got, _ := stream(t, c, "short")
	if got[len(got)-1] != "4999" {
		t.Errorf("the last entry is %s, want 4999", got[len(got)-1])
	}
}

func TestScanStreamCountsWhatIsNoRecord(t *testing.T) {
	server := redistest.Start(t)
	c := newClient(t, server.Addr)
	for _, values := range [][]any{{"id", "x"}, {"record", "{"}, {"record", `{"id":"a"}`}, {"record", `{"id":"a"}`}} {
		c.XAdd(t.Context(), &redis.XAddArgs{Stream: "s", Values: values})
	}
	s, err := usage.ScanStream(t.Context(), c, "s", func(expediter.Record) error { return nil })
	if want := (usage.StreamScanned{Records: 1, Copies: 1, Bad: 2}); s != want || err != nil {
		t.Errorf("ScanStream = %+v, %v, want %+v", s, err, want)
	}
}

func TestRedisCluster(t *testing.T) {
	cluster := redistest.StartCluster(t, 3)
	c := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: cluster.Addrs})
	defer c.Close()
	for _, key := range []string{"a", "b", "c", "d"} { // of several nodes
		s := newRedis(t, c, usage.RedisConfig{Stream: key})
		give(s, 0, 600)
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got, sc := stream(t, c, key); !slices.Equal(got, numbers(600)) {
			t.Errorf("stream %s: %+v, want 0 to 599 in order", key, sc)
		}
	}
}

func TestNewRedisRefuses(t *testing.T) {
	_, err := usage.NewRedis(nil, usage.RedisConfig{MaxLen: -1, Keep: -1, Timeout: -1})
	if err == nil {
		t.Fatal("NewRedis accepted it all")
	}
	for _, want := range []string{"MaxLen", "Keep", "Timeout", "client"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error lacks %s: %v", want, err)
		}
	}
}
