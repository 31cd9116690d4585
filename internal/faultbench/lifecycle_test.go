package faultbench_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/expediterhq/expediter"
	"github.com/expediterhq/expediter/admission"
	"github.com/expediterhq/expediter/internal/faultbench"
	"github.com/expediterhq/expediter/prefix"
	"github.com/expediterhq/expediter/quota"
	"github.com/expediterhq/expediter/registry"
	"github.com/expediterhq/expediter/router"
	"github.com/expediterhq/expediter/tenant"
)

// TestQ1Drain: readiness goes first, streams that fit into the grace are
// complete, longer ones end with an error event, new requests are sent
// elsewhere, and every record is there.
func TestQ1Drain(t *testing.T) {
	const streams = 60 // TestQ1SIGTERM of the examples has 200
	h := faultbench.Open(t, faultbench.Options{Replicas: 2, Respond: func(g *faultbench.Got) faultbench.Script {
		s := faultbench.Speak(g)
		s.Pace = 20 * time.Millisecond
		return s.Script()
	}})
	var started, complete, cut atomic.Int32
	var wg sync.WaitGroup
	for i := range streams {
		tokens := 25
		if i%3 == 0 {
			tokens = 2000
		}
		wg.Go(func() {
			a := h.Do(context.Background(), faultbench.Request{Stream: true, MaxTokens: tokens, OnEvent: func(n int, _ string) {
				if n == 2 {
					started.Add(1)
				}
			}})
			switch {
			case tokens == 25 && a.OK():
				complete.Add(1)
			case tokens == 2000 && a.Err != nil && a.Code == "shutting_down":
				cut.Add(1)
			default:
				t.Errorf("a stream of %d: %v, error %q, %d deltas", tokens, a.Err, a.Error, a.Deltas)
			}
		})
	}
	h.Eventually("all streams", func() bool {
		return h.Replicas[0].Running()+h.Replicas[1].Running() >= streams/3 && h.Ledger.Len() == streams
	})
	drained := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		drained <- h.Handler.Drain(ctx)
	}()
	h.Eventually("readiness to go", func() bool {
		resp, err := h.Client.Get(h.URL + "/readyz")
		if err != nil {
			return false
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		return resp.StatusCode == 503
	})
	body, _ := (&faultbench.Request{MaxTokens: 1}).Body()
	l := h.Dial()
	fmt.Fprintf(l.Conn, "%s%s", h.Head(len(body)), body)
	resp, err := http.ReadResponse(l.R, nil)
	if err != nil || resp.StatusCode != 503 || !resp.Close || resp.Header.Get("Retry-After") == "" {
		t.Errorf("a new request: %v, %+v; want a 503 that closes the connection", err, resp)
	}
	l.Leave(false)
	if err := <-drained; err == nil {
		t.Error("Drain = nil although streams were cut")
	}
	wg.Wait()
	if complete.Load() != streams*2/3 || cut.Load() != streams/3 {
		t.Errorf("%d complete and %d cut, want %d and %d", complete.Load(), cut.Load(), streams*2/3, streams/3)
	}
	h.Check()
	if n := len(h.Records()); n != streams {
		t.Errorf("%d records, want %d", n, streams)
	}
}

// TestQ1CloseStalledClients: Close waits neither for clients that do not read what
// they get nor for those that do not send what they announced: nothing is under
// way after it.
func TestQ1CloseStalledClients(t *testing.T) {
	const events, buffer = 128, 64 << 10
	large := strings.Repeat("B", 16<<10) // more than all buffers on the way hold
	h := faultbench.Open(t, faultbench.Options{
		Racing: true,
		Server: func(s *http.Server) {
			s.ConnState = func(c net.Conn, state http.ConnState) {
				if state == http.StateNew {
					_ = c.(interface{ SetWriteBuffer(int) error }).SetWriteBuffer(buffer)
				}
			}
		},
		Respond: func(g *faultbench.Got) faultbench.Script {
			s := faultbench.Speak(g)
			s.Text = g.Nonce + large
			return s.Script()
		},
	})
	var clients []*faultbench.Leaver
	for _, stream := range []bool{true, false} {
		l := h.Dial()
		_ = l.Conn.SetReadBuffer(buffer)
		body, _ := (&faultbench.Request{Stream: stream, MaxTokens: events}).Body()
		fmt.Fprintf(l.Conn, "%s%s", h.Head(len(body)), body)
		if _, err := l.R.ReadByte(); err != nil {
			t.Error(err)
		}
		clients = append(clients, l)
	}
	sender := h.Dial()
	fmt.Fprintf(sender.Conn, "%s{", h.Head(1000))
	clients = append(clients, sender)
	h.Eventually("all to be under way", func() bool { return h.Handler.InFlight() == len(clients) })
	if err := h.Handler.Close(); err != nil {
		t.Errorf("Close = %v", err)
	}
	if n := h.Handler.InFlight(); n != 0 {
		t.Errorf("%d requests are under way after Close", n)
	}
	for _, l := range clients {
		l.Leave(true)
	}
	h.Check()
}

// TestQ3ReloadUnderLoad: reloads with replicas, names and limits coming and
// going cost no request; invalid ones change nothing.
func TestQ3ReloadUnderLoad(t *testing.T) {
	const clients = 8
	reloads := full(60, 200)
	h := faultbench.Open(t, faultbench.Options{Replicas: 3, Respond: func(g *faultbench.Got) faultbench.Script {
		s := faultbench.Speak(g)
		s.Pace = 2 * time.Millisecond
		return s.Script()
	}})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var served atomic.Int32
	for i := range clients {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				if a := h.Do(context.Background(), faultbench.Request{Stream: n%2 == i%2, MaxTokens: 1 + n%9}); !a.OK() {
					t.Errorf("%v, status %d: %s", a.Err, a.Status, a.Body)
					return
				}
				served.Add(1)
			}
		})
	}
	for i := range reloads {
		c := h.Config
		c.Models = append([]expediter.Model{{Name: fmt.Sprintf("extra-%d", i), Pool: "small"}}, c.Models...)
		c.Pools = append([]expediter.Pool(nil), c.Pools...)
		c.Pools[0].DefaultMaxTokens = 100 + i
		c.Limits.Choices = 1 + i%16
		switch i % 10 {
		case 3: // a replica joins
			h.AddReplica(len(h.Replicas))
		case 6: // one leaves, with requests on it
			h.Pool.Remove(h.Pool.Replicas()[0])
		case 9:
			c.Models = append(c.Models, expediter.Model{Name: "lost", Pool: "no-such-pool"})
			if err := h.Handler.Reload(c); err == nil || !strings.Contains(err.Error(), "no-such-pool") {
				t.Errorf("an invalid config: Reload = %v", err)
			}
			continue
		}
		if err := h.Handler.Reload(c); err != nil {
			t.Errorf("reload %d: %v", i, err)
		}
		last := served.Load()
		h.Eventually("requests to go on", func() bool { return served.Load() > last+5 })
	}
	close(stop)
	wg.Wait()
	t.Logf("%d requests over %d reloads", served.Load(), reloads)
}

// TestQ3PrefixOverReload: what is known of a replica's cache outlives a
// reload, but not the replica itself, also when another takes its slot.
func TestQ3PrefixOverReload(t *testing.T) {
	h := faultbench.Open(t, faultbench.Options{})
	r := faultbench.Request{MaxTokens: 2, Pad: 4000}
	predicted := func() int {
		t.Helper()
		if a := h.Do(t.Context(), r); !a.OK() {
			t.Fatalf("%v: %s", a.Err, a.Body)
		}
		h.Check()
		recs := h.Records()
		return recs[len(recs)-1].Predicted
	}
	reload := func() {
		t.Helper()
		if err := h.Handler.Reload(h.Config); err != nil {
			t.Fatal(err)
		}
	}
	r.Body() // fixes the nonce: the same prompt each time
	if n := predicted(); n != 0 {
		t.Errorf("predicted %d cached tokens for a new prompt", n)
	}
	reload()
	h.Pool.Remove(h.Members[0])
	h.AddReplica(1)
	reload()
	if n := predicted(); n != 0 {
		t.Errorf("predicted %d cached tokens on a replica that has just come", n)
	}
}

// TestM5Informational: 1xx answers of a replica do not get through, and do no
// harm however many there are.
func TestM5Informational(t *testing.T) {
	for _, tc := range []struct {
		name  string
		count int
		reset bool
	}{{"M5 a few", 3, false}, {"M5 many", 200, false}, {"M5 then reset", 3, true}} {
		t.Run(tc.name, func(t *testing.T) {
			h := faultbench.Open(t, faultbench.Options{Replicas: 2, Respond: func(g *faultbench.Got) faultbench.Script {
				sc := faultbench.Speak(g).Script()
				for i := range tc.count {
					status := []string{"100 Continue", "102 Processing", "103 Early Hints"}[i%3]
					sc.Informational = append(sc.Informational, http.Header{"Status": {status}, "Connection": {"X-Leak"}, "X-Leak": {"1"}})
				}
				if tc.reset {
					sc.Pieces, sc.End, sc.Length = nil, faultbench.RST, 100
				}
				return sc
			}})
			for _, stream := range []bool{true, false} {
				l := h.Ask(faultbench.Request{Stream: stream, MaxTokens: 2})
				_ = l.Conn.SetReadDeadline(time.Now().Add(soon))
				resp, err := http.ReadResponse(l.R, nil)
				if err != nil {
					t.Fatal(err)
				}
				if resp.StatusCode != 200 && resp.StatusCode != 502 || resp.Header.Get("X-Leak") != "" || tc.count == 3 && !tc.reset && resp.StatusCode != 200 {
					t.Errorf("status %d, header %v", resp.StatusCode, resp.Header)
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				l.Leave(false)
			}
		})
	}
}

// TestM8AbortIsNoIncident: clients that leave make no noise.
func TestM8AbortIsNoIncident(t *testing.T) {
	clients := full(300, 1000)
	h := faultbench.Open(t, faultbench.Options{
		Wrap: func(next http.Handler) http.Handler { // no deadline to abort by: the panic remains
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(bare{w}, r) })
		},
		Respond: func(g *faultbench.Got) faultbench.Script {
			sc := faultbench.Stream(faultbench.Speak(g).Deltas(2)...)
			if sc.End = faultbench.Stall; g.Ask.MaxTokens == 3 {
				sc.End = faultbench.RST
			}
			return sc
		},
	})
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			for i := range clients / 10 {
				if i%5 == 0 { // the other way: the replica leaves
					if a := h.Do(context.Background(), faultbench.Request{Stream: true, MaxTokens: 3}); a.Err == nil {
						t.Error("a broken stream ended cleanly")
					}
					continue
				}
				l := h.Ask(faultbench.Request{Stream: true, MaxTokens: 50})
				if err := l.Deltas(2); err != nil {
					t.Error(err)
				}
				l.Leave(i%2 == 0)
			}
		})
	}
	wg.Wait()
	h.Check()
	if log := h.Logs.String(); strings.Contains(log, "panic") || strings.Contains(log, "goroutine") {
		t.Errorf("the log: %.2000s", log)
	}
	count := make(map[expediter.Status]int)
	for _, r := range h.Records() {
		count[r.Status]++
	}
	if count[expediter.StatusCancelled] != clients*4/5 || count[expediter.StatusTruncated] != clients/5 || len(count) != 2 {
		t.Errorf("ended as %v", count)
	}
}

// bare is a ResponseWriter that can flush and nothing else.
type bare struct{ w http.ResponseWriter }

func (b bare) Header() http.Header         { return b.w.Header() }
func (b bare) Write(p []byte) (int, error) { return b.w.Write(p) }
func (b bare) WriteHeader(s int)           { b.w.WriteHeader(s) }
func (b bare) Flush()                      { b.w.(http.Flusher).Flush() }

// TestQ4GoroutinesAndDescriptors: the house counts them before and after.
func TestQ4GoroutinesAndDescriptors(t *testing.T) {
	for range 3 {
		h := faultbench.Open(t, faultbench.Options{Replicas: 3, Unseen: true, Racing: true, Respond: mischief, Config: quick, Tenant: bounded})
		chaos(t, h, full(400, 3_360), 40)
		h.Close()
	}
}

// faulty panics in one of its methods.
type faulty struct {
	quota.Store
	in string
}

func (f faulty) Reserve(ctx context.Context, r quota.Reservation) error {
	if f.in == "reserve" {
		panic("reserve")
	}
	return f.Store.Reserve(ctx, r)
}

func (f faulty) Settle(ctx context.Context, r quota.Reservation, used int64) error {
	err := f.Store.Settle(ctx, r, used)
	if f.in == "settle" {
		panic("settle")
	}
	return err
}

// TestG5PanicInAPart: a part with a mistake in it spoils one request and
// leaks nothing, in whatever state the request is.
func TestG5PanicInAPart(t *testing.T) {
	for _, in := range []string{"authenticate", "reserve", "settle", "transport", "sink", "scorer", "line", "prefix"} {
		for _, how := range []string{"answered", "left", "broken"} {
			t.Run("G5 "+in+" "+how, func(t *testing.T) { panicIn(t, in, how) })
		}
	}
}

// panicky puts a part that panics, once broken, into a configuration.
func panicky(c *expediter.Config, in string, broken *atomic.Bool) {
	auth, sink := c.Authenticate, c.Usage
	switch in {
	case "authenticate":
		c.Authenticate = func(r *http.Request) (*tenant.Tenant, error) {
			if broken.Load() {
				panic("authenticate")
			}
			return auth(r)
		}
	case "reserve", "settle":
		c.Quota = faulty{c.Quota, in}
	case "transport":
		c.Pools[0].Transport = roundTripper(func(*http.Request) (*http.Response, error) { panic("transport") })
	case "scorer":
		c.Pools[0].Router = router.New(router.Config{Scorers: append(router.Default(), router.ScorerFunc(func([]float64, *router.Request, []*registry.Replica) {
			if broken.Load() {
				panic("scorer")
			}
		}))})
	case "line":
		c.Pools[0].Admitter = faultyLine{broken}
	case "prefix":
		c.Pools[0].Prefix = faultyPrefix{prefix.NewTable(prefix.TableConfig{}), broken}
	case "sink":
		c.Usage = sinkFunc(func(r *expediter.Record) {
			sink.Write(r)
			panic("sink")
		})
	}
}

func panicIn(t *testing.T, in, how string) {
	var broken atomic.Bool
	h := faultbench.Open(t, faultbench.Options{
		Unseen: true, Loose: true,
		Respond: func(g *faultbench.Got) faultbench.Script {
			sc := faultbench.Speak(g).Script()
			switch {
			case how == "broken" && broken.Load():
				sc = faultbench.Stream(faultbench.Speak(g).Deltas(2)...)
				sc.End = faultbench.RST
			case how == "left" && broken.Load():
				sc = faultbench.Stream(faultbench.Speak(g).Deltas(2)...)
				sc.End = faultbench.Stall
			}
			return sc
		},
		Config: func(c *expediter.Config) {
			c.Scrape = -1
			panicky(c, in, &broken)
		},
	})
	broken.Store(true)
	for _, stream := range []bool{true, false} {
		h.Logs.Forget()
		r := faultbench.Request{Stream: stream, MaxTokens: 5, Pad: 4000}
		if how == "left" {
			l := h.Ask(r)
			_ = l.Conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
			_ = l.Deltas(2) // there may be none to come
			l.Leave(true)
		} else if a := h.Do(t.Context(), r); a.OK() && how == "broken" {
			t.Errorf("status %d: %s", a.Status, a.Body)
		} else if how == "answered" && !a.OK() && a.Status != 500 {
			t.Errorf("status %d: %s; want an answer or a 500", a.Status, a.Body)
		}
		h.Check()
		panics := strings.Count(h.Logs.String(), "level=ERROR msg=\"panic in ")
		reached := in == "authenticate" || in == "reserve" || how == "answered" // else the client may leave before
		if panics > 1 || reached && panics != 1 {
			t.Errorf("%d panics in the log, want 1: %.2000s", panics, h.Logs.String())
		}
	}
}

// faultyLine and faultyPrefix panic where they are used.
type faultyLine struct{ broken *atomic.Bool }

func (f faultyLine) Admit(_ context.Context, _ admission.Work, start func() (bool, error)) error {
	if f.broken.Load() {
		panic("line")
	}
	_, err := start()
	return err
}

func (faultyLine) Freed() {}

type faultyPrefix struct {
	prefix.Map
	broken *atomic.Bool
}

func (f faultyPrefix) Overlap(n []int, blocks []uint64) {
	if f.broken.Load() {
		panic("prefix")
	}
	f.Map.Overlap(n, blocks)
}

type sinkFunc func(*expediter.Record)

func (f sinkFunc) Write(r *expediter.Record) { f(r) }
