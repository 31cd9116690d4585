package faultbench_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/expediterhq/expediter"
	"github.com/expediterhq/expediter/internal/faultbench"
	"github.com/expediterhq/expediter/internal/redistest"
	"github.com/expediterhq/expediter/quota"
	"github.com/expediterhq/expediter/quota/redisquota"
	"github.com/expediterhq/expediter/tenant"
	"github.com/expediterhq/expediter/usage"
)

// wire collects what is sent to Redis.
type wire struct {
	mu sync.Mutex
	b  bytes.Buffer
}

type wireConn struct {
	net.Conn
	w *wire
}

func (c wireConn) Write(p []byte) (int, error) {
	c.w.mu.Lock()
	c.w.b.Write(p)
	c.w.mu.Unlock()
	return c.Conn.Write(p)
}

func (w *wire) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, addr)
	return wireConn{c, w}, err
}

func (w *wire) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.String()
}

// plant puts the mark into a key of each type and checks that redistest.Dump finds it, so
// that a search that finds nothing says something.
func plant(t *testing.T, c redis.UniversalClient, mark string) {
	t.Helper()
	ctx := t.Context()
	p := c.Pipeline()
	p.Set(ctx, "planted:string", mark, 0)
	p.HSet(ctx, "planted:hash", "f", mark, mark, "v")
	p.ZAdd(ctx, "planted:zset", redis.Z{Score: 1, Member: mark})
	p.RPush(ctx, "planted:list", mark)
	p.SAdd(ctx, "planted:set", mark)
	p.XAdd(ctx, &redis.XAddArgs{Stream: "planted:stream", Values: []any{"f", mark}})
	if _, err := p.Exec(ctx); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, text := range redistest.Dump(t, c) {
		n += strings.Count(text, mark)
	}
	if n != 7 {
		t.Fatalf("%d of 7 planted marks were found", n)
	}
}

// unruly answers by what the request asks for: well, with an error that holds the
// request, or with a stream that breaks off.
func unruly(g *faultbench.Got) faultbench.Script {
	s := faultbench.Speak(g)
	switch g.Ask.MaxTokens {
	case 6:
		return faultbench.JSON(500, g.Body, 0)
	case 7:
		sc := faultbench.Stream(s.Deltas(3)...)
		sc.End = faultbench.RST
		return sc
	case 8:
		echo := faultbench.Prompt + g.Nonce + faultbench.Words
		return faultbench.Stream(s.Role(), s.Delta(1), faultbench.Piece{Data: fmt.Appendf(nil, `data: {"error":{"message":%q,"type":%q,"code":500}}`+"\n\n", echo, echo)})
	case 500:
		s.Pace = 20 * time.Millisecond
	}
	return s.Script()
}

// TestP1NoSecretInRedis: a whole gateway with its quota and its usage stream in a
// real Redis, and a usage file. Requests are served, refused, fail and are left,
// streamed and not; no key, prompt or completion, nor the digest of a key, is in
// anything Redis holds, was ever sent, or is in the file.
func TestP1NoSecretInRedis(t *testing.T) {
	server := redistest.Start(t)
	sent := new(wire)
	client := redisquota.Client(redis.UniversalOptions{Addrs: []string{server.Addr}, Dialer: sent.dial})
	store, err := redisquota.New(client, redisquota.Config{Policy: redisquota.Closed, Prefix: "q:", Timeout: 10 * time.Second, Patience: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	stream, err := usage.NewRedis(client, usage.RedisConfig{Stream: "u"})
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "usage.jsonl")
	file, err := usage.NewFile(usage.FileConfig{Path: name})
	if err != nil {
		t.Fatal(err)
	}
	h := faultbench.Open(t, faultbench.Options{
		Replicas: 2, Unseen: true, Racing: true, Respond: unruly,
		Tenant: func(tn *tenant.Tenant) {
			tn.Limit = quota.Limit{Concurrency: 3, Windows: []quota.Window{{Name: "all", Burst: 1 << 29}}}
		},
		Config: func(c *expediter.Config) {
			c.Quota = both{store, c.Quota}
			c.Usage = usage.NewMulti(c.Usage, stream, file)
		},
	})
	useInEveryWay(t, h)
	h.Check()
	for _, close := range []func(context.Context) error{stream.Close, file.Close, func(context.Context) error { return store.Close() }} {
		if err := close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	lines, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(lines, []byte("\n")); n != len(h.Records()) {
		t.Errorf("the file holds %d records of %d", n, len(h.Records()))
	}
	checkSecretsOfRedis(t, h, client, map[string]string{"usage file": string(lines), "what Redis was sent": sent.String()})
	plant(t, client, h.Key)
	if err := client.Close(); err != nil {
		t.Error(err)
	}
}

// useInEveryWay has requests end in all ways.
func useInEveryWay(t *testing.T, h *faultbench.House) {
	t.Helper()
	secretive := http.Header{"X-Api-Key": {h.Key}, "Traceparent": {h.Key}, "X-Request-Id": {h.Key}, "User-Agent": {faultbench.Prompt}}
	for _, tokens := range []int{5, 6, 7, 8, 1 << 30} { // the last is refused for ever
		for _, streamed := range []bool{true, false} {
			h.Do(t.Context(), faultbench.Request{Stream: streamed, MaxTokens: tokens, Header: secretive, Fields: `,"user":"` + faultbench.Prompt + `"`})
		}
	}
	var held []*faultbench.Leaver
	for range 3 {
		l := h.Ask(faultbench.Request{Stream: true, MaxTokens: 500})
		if err := l.Deltas(1); err != nil {
			t.Error(err)
		}
		held = append(held, l)
	}
	for _, streamed := range []bool{true, false} {
		if a := h.Do(t.Context(), faultbench.Request{Stream: streamed, MaxTokens: 5}); a.Status != 429 {
			t.Errorf("a fourth request of three that may run: status %d: %s", a.Status, a.Body)
		}
	}
	for i, l := range held {
		l.Leave(i%2 == 0)
	}
	h.Check()
	ended := make(map[expediter.Status]bool)
	for _, r := range h.Records() {
		ended[r.Status] = true
	}
	for _, s := range []expediter.Status{expediter.StatusOK, expediter.StatusRefused, expediter.StatusFailed, expediter.StatusTruncated, expediter.StatusCancelled} {
		if !ended[s] {
			t.Errorf("no request ended as %s", s)
		}
	}
}

// checkSecretsOfRedis searches what Redis holds, and further texts.
func checkSecretsOfRedis(t *testing.T, h *faultbench.House, client redis.UniversalClient, texts map[string]string) {
	t.Helper()
	held := redistest.Dump(t, client)
	for _, key := range []string{"q:{t" + h.Tenant.ID + "}:h", "q:{t" + h.Tenant.ID + "}:z", "u"} {
		if !strings.Contains(held[key], h.Records()[0].ID) {
			t.Errorf("key %q, of %d, holds nothing of the first request", key, len(held))
		}
	}
	for key, text := range held {
		texts["key "+key] = text
	}
	digest := tenant.Digest(h.Key, nil)
	for where, text := range texts {
		h.NoSecrets(where, text)
		if strings.Contains(text, digest) {
			t.Errorf("%s holds the digest of the key", where)
		}
	}
}
