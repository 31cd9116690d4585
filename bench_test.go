package expediter_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/expediterhq/expediter"
	"github.com/expediterhq/expediter/quota"
	"github.com/expediterhq/expediter/registry"
	"github.com/expediterhq/expediter/tenant"
	"github.com/expediterhq/expediter/tokenize"
	"github.com/expediterhq/expediter/tokenize/demo"
)

// discard is a ResponseWriter to nowhere that can flush.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
func (d *discard) WriteHeader(int)             {}
func (d *discard) Flush()                      {}

// canned answers every request with the same stream, one event per read.
type canned struct{ events [][]byte }

func (c canned) RoundTrip(r *http.Request) (*http.Response, error) {
	io.Copy(io.Discard, r.Body)
	r.Body.Close()
	return &http.Response{
		StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream; charset=utf-8"}},
		Body: &cannedBody{left: c.events},
	}, nil
}

type cannedBody struct{ left [][]byte }

func (b *cannedBody) Read(p []byte) (int, error) {
	if len(b.left) == 0 {
		return 0, io.EOF
	}
	n := copy(p, b.left[0])
	b.left = b.left[1:]
	return n, nil
}

func (b *cannedBody) Close() error { return nil }

func cannedStream(n int) canned {
	var c canned
	add := func(s string) { c.events = append(c.events, []byte("data: "+s+"\n\n")) }
	add(roleChunk)
	for i := range n {
		add(runningUsage(i + 1))
	}
	add(finishChunk)
	add(usageChunk)
	add("[DONE]")
	return c
}

// benchHandler is a gateway with everything on, without sockets.
func benchHandler(b *testing.B, events int) (h *expediter.Handler, key string) {
	b.Helper()
	model, err := tokenize.Load(demo.Files)
	must(b, err)
	pool, err := registry.NewPool(registry.PoolConfig{Name: "small", KVTokens: 1 << 30})
	must(b, err)
	for i := range 64 {
		_, err := pool.Add(registry.ReplicaConfig{URL: fmt.Sprintf("http://10.0.0.%d:8000", i)})
		must(b, err)
	}
	reg, err := registry.NewStatic(pool)
	must(b, err)
	key, digest, err := tenant.NewKey()
	must(b, err)
	limit := quota.Limit{Concurrency: 100_000, Windows: []quota.Window{quota.PerMinute(1 << 50)}}
	keys, err := tenant.NewKeys([]tenant.Key{{Digest: digest, Tenant: &tenant.Tenant{ID: "acme", Limit: limit}}}, tenant.Config{})
	must(b, err)
	h, err = expediter.New(expediter.Config{
		Registry:     reg,
		Pools:        []expediter.Pool{{Name: "small", Served: servedModel, Tokenizer: model, Transport: cannedStream(events)}},
		Models:       []expediter.Model{{Name: "gpt-fast", Pool: "small"}},
		Authenticate: keys.Authenticate,
		Quota:        quota.NewMemory(quota.MemoryConfig{}),
		Scrape:       -1, Parity: -1,
		Logger: slog.New(slog.DiscardHandler),
	})
	must(b, err)
	b.Cleanup(func() { h.Close() })
	return h, key
}

// benchmarkStream measures the whole pipeline but for the sockets: a chat of
// 1,800 prompt tokens, each different from the last at its beginning.
func benchmarkStream(b *testing.B, events int) {
	h, key := benchHandler(b, events)
	text := strings.Repeat("the line cook looks at what is on each burner and how long every dish will take ", 100)
	bodies := make([]string, 64)
	for i := range bodies {
		bodies[i] = strings.Replace(chatBody(true, events+10, fmt.Sprint(i, " ", text)), "\\n", " ", -1)
	}
	header := http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + key}}
	u := &url.URL{Path: "/v1/chat/completions"}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		body := bodies[i%len(bodies)]
		i++
		r := (&http.Request{
			Method: "POST", URL: u, Header: header, RemoteAddr: "127.0.0.1:9",
			Body: io.NopCloser(bytes.NewReader([]byte(body))), ContentLength: int64(len(body)),
		}).WithContext(context.Background())
		h.ServeHTTP(&discard{header: make(http.Header, 8)}, r)
	}
}

// BenchmarkStream50Events and BenchmarkStream250Events: their difference over
// 200 is what the gateway itself adds to one event.
func BenchmarkStream50Events(b *testing.B)  { benchmarkStream(b, 50) }
func BenchmarkStream250Events(b *testing.B) { benchmarkStream(b, 250) }
