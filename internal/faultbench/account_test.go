package faultbench_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/expediterhq/expediter"
	"github.com/expediterhq/expediter/internal/faultbench"
	"github.com/expediterhq/expediter/quota"
	"github.com/expediterhq/expediter/tenant"
	"github.com/expediterhq/expediter/vllm"
)

// mischief chooses a fault at random; about a third of all answers are good.
func mischief(g *faultbench.Got) faultbench.Script {
	s := faultbench.Speak(g)
	s.TTFT = time.Duration(rand.IntN(3)) * time.Millisecond
	s.Pace = time.Duration(rand.IntN(2)) * time.Millisecond
	part := faultbench.Stream(s.Deltas(rand.IntN(max(s.Tokens, 1)))...)
	switch rand.IntN(20) {
	case 0:
		return faultbench.JSON(503, []byte(`{"error":{"message":"busy with `+faultbench.Prompt+`","code":503}}`), 0)
	case 1:
		return faultbench.JSON(500, g.Body, 0) // an engine that echoes what it got
	case 2:
		return faultbench.Script{End: faultbench.DropRST}
	case 3:
		return faultbench.Script{End: faultbench.Drop}
	case 4:
		return faultbench.Script{End: faultbench.Silent}
	case 5, 6, 7, 8:
		part.End = []faultbench.End{faultbench.FIN, faultbench.RST, faultbench.Stall, faultbench.Clean}[rand.IntN(4)]
		return part
	case 9:
		part.Pieces = append(part.Pieces, faultbench.Piece{Data: []byte(`data: {"error":{"message":"EngineCore died","type":"InternalServerError","code":500}}` + "\n\n")}, faultbench.Done())
		return part
	case 10:
		part.Pieces = append(part.Pieces, faultbench.Piece{Data: []byte("data: <html>" + g.Nonce + "\n\n")})
		return part
	case 11:
		return faultbench.JSON(200, []byte(`{"error":{"message":"no","code":400}}`), 0)
	case 12:
		sc := s.Script()
		sc.Slice = 7
		return sc
	case 13:
		sc := s.Script()
		sc.Informational = []http.Header{{"Link": {"x"}, "Connection": {"Link"}}}
		return sc
	}
	return s.Script()
}

// chaos sends requests with faults and departures at random, in every state.
func chaos(t *testing.T, h *faultbench.House, requests, together int) {
	t.Helper()
	var wg sync.WaitGroup
	for range together {
		wg.Go(func() {
			for range requests / together {
				oneOfMany(t, h)
			}
		})
	}
	wg.Wait()
}

func oneOfMany(t *testing.T, h *faultbench.House) {
	ctx, cancel := context.Background(), context.CancelFunc(func() {})
	if rand.IntN(3) == 0 {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(rand.IntN(20_000))*time.Microsecond)
	}
	defer cancel()
	r := faultbench.Request{Stream: rand.IntN(2) == 0, MaxTokens: 1 + rand.IntN(20), Pad: rand.IntN(3000)}
	body, _ := r.Body()
	switch rand.IntN(12) {
	case 0:
		h.Send(ctx, "/v1/chat/completions", strings.NewReader(body), http.Header{"Authorization": {"Bearer xp-none"}}, nil)
	case 1:
		h.Send(ctx, "/v1/chat/completions", strings.NewReader(body[:len(body)-2]), nil, nil)
	case 2:
		r.Model = "no-such-model"
		h.Do(ctx, r)
	case 3:
		r.MaxTokens = 1 << 30 // never fits the quota
		h.Do(ctx, r)
	case 4:
		l := h.Dial()
		fmt.Fprintf(l.Conn, "%s%s", h.Head(len(body)), body[:rand.IntN(len(body))])
		l.Leave(rand.IntN(2) == 0)
	case 5:
		l := h.Ask(r)
		_ = l.Conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		_ = l.Deltas(rand.IntN(5)) // there may be none to come
		l.Leave(rand.IntN(2) == 0)
	default:
		h.Do(ctx, r)
	}
}

func bounded(tn *tenant.Tenant) {
	tn.Limit = quota.Limit{Concurrency: 1000, Windows: []quota.Window{{Name: "all", Burst: 1 << 29}}}
}

func quick(c *expediter.Config) {
	c.Timeouts = expediter.Timeouts{FirstToken: 500 * time.Millisecond, Silence: 300 * time.Millisecond, Answer: 500 * time.Millisecond, Write: time.Second, Body: time.Second}
}

// TestG1CountersReturnToZero, and Q4: after thousands of requests with faults
// and departures everywhere nothing is left: the checks of the house.
func TestG1CountersReturnToZero(t *testing.T) {
	h := faultbench.Open(t, faultbench.Options{
		Replicas: 4, Unseen: true, Racing: true, Respond: mischief, Config: quick,
		Tenant: bounded,
	})
	chaos(t, h, full(2400, 20_000), 40)
	h.Check()
	count := make(map[expediter.Status]int)
	for _, r := range h.Records() {
		count[r.Status]++
	}
	t.Logf("%v, %d in the ledgers", count, h.Ledger.Len())
	for _, s := range []expediter.Status{expediter.StatusOK, expediter.StatusCancelled, expediter.StatusTruncated, expediter.StatusFailed, expediter.StatusRefused} {
		if count[s] == 0 {
			t.Errorf("no request ended as %s: the mischief is not enough", s)
		}
	}
}

// closing changes how the body of an answer closes.
type closing struct {
	io.ReadCloser
	how string
}

func (c closing) Close() error {
	err := c.ReadCloser.Close()
	if c.how == "panic" {
		panic("close: slice bounds out of range")
	}
	return errors.Join(err, errors.New("close failed"))
}

// roundTripper is a function as a transport, which cannot be compared.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestG2ReleaseWhenCloseFails: an answer whose body cannot be closed, or that
// panics in it, is given back all the same.
func TestG2ReleaseWhenCloseFails(t *testing.T) {
	for _, how := range []string{"error", "panic"} {
		t.Run("G2 "+how, func(t *testing.T) {
			base := vllm.NewTransport(vllm.TransportConfig{})
			defer closeIdle(base)
			h := faultbench.Open(t, faultbench.Options{
				Respond: func(g *faultbench.Got) faultbench.Script {
					if g.Ask.MaxTokens == 7 {
						sc := faultbench.Stream(faultbench.Speak(g).Deltas(3)...)
						sc.End = faultbench.RST
						return sc
					}
					return faultbench.Speak(g).Script()
				},
				Config: func(c *expediter.Config) {
					c.Scrape = -1
					c.Pools[0].Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
						resp, err := base.RoundTrip(r)
						if err == nil {
							resp.Body = closing{resp.Body, how}
						}
						return resp, err
					})
				},
			})
			for _, tokens := range []int{5, 7} {
				for _, stream := range []bool{true, false} {
					a := h.Do(t.Context(), faultbench.Request{Stream: stream, MaxTokens: tokens})
					if tokens == 5 && stream && a.Deltas != 5 {
						t.Errorf("%v: %s", a.Err, a.Body)
					}
				}
			}
			h.Check()
			if err := h.Handler.Reload(h.Config); err != nil {
				t.Errorf("Reload with the same transport = %v", err)
			}
			closeIdle(base)
		})
	}
}

// TestG3LoadWhileStreaming: a request weighs on its replica from dispatch to
// the last byte.
func TestG3LoadWhileStreaming(t *testing.T) {
	h := faultbench.Open(t, faultbench.Options{Respond: func(g *faultbench.Got) faultbench.Script {
		s := faultbench.Speak(g)
		s.Pace = 20 * time.Millisecond
		return s.Script()
	}})
	a := h.Do(t.Context(), faultbench.Request{Stream: true, MaxTokens: 20, OnEvent: func(n int, _ string) {
		l := h.Members[0].Load()
		switch {
		case n > 15: // nearly over: this client may be slower to look than the replica to finish
		case l.Requests != 1 || l.KV == 0 || l.Prefilling != 0:
			t.Errorf("while streaming: load = %+v, want one request past its prefill", l)
		}
	}})
	if !a.OK() {
		t.Errorf("%v: %s", a.Err, a.Body)
	}
	if l := h.Members[0].Load(); l.Requests != 0 {
		t.Errorf("after [DONE]: load = %+v", l)
	}
}
