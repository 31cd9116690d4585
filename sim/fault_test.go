package sim_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/expediterhq/expediter/sim"
)

var steady = sim.Profile{Name: "steady", Base: 10 * time.Millisecond, KVTokens: 16000}

func bubble(t *testing.T, f func(t *testing.T, r *sim.Replica, c *http.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var n sim.Network
		r, err := n.Replica("replica:8000", sim.Config{Model: "acme-8b", Profile: steady})
		if err != nil {
			t.Fatal(err)
		}
		tr := n.Transport()
		f(t, r, &http.Client{Transport: tr})
		tr.CloseIdleConnections()
		_ = r.Close()
	})
}

func contents(s string) int { return strings.Count(s, "\"text\":\" ") }

func TestFaults(t *testing.T) {
	reset := func(err error) bool { return errors.Is(err, syscall.ECONNRESET) }
	cut := func(err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) }
	late := func(err error) bool { return errors.Is(err, context.DeadlineExceeded) }
	none := func(err error) bool { return err == nil }
	tests := []struct {
		name   string
		f      sim.Fault
		status int // 0: no head arrives
		tokens int
		tail   string
		err    func(error) bool
	}{
		{"no fault", sim.Fault{}, 200, 5, "data: [DONE]\n\n", none},
		{"reset after headers", sim.Fault{Do: sim.Reset}, 0, 0, "", reset},
		{"hangup after request", sim.Fault{At: sim.AtRequest, Do: sim.Hangup}, 0, 0, "", cut},
		{"stall after request", sim.Fault{At: sim.AtRequest, Do: sim.Stall}, 0, 0, "", late},
		{"reset after head", sim.Fault{At: sim.AtHead, Do: sim.Reset}, -1, 0, "", reset},
		{"stall after head", sim.Fault{At: sim.AtHead, Do: sim.Stall}, 200, 0, "", late},
		{"reset after 2 tokens", sim.Fault{At: sim.AtToken, Tokens: 2, Pause: time.Millisecond, Do: sim.Reset}, 200, 2, "", reset},
		{"hangup after 2 tokens", sim.Fault{At: sim.AtToken, Tokens: 2, Do: sim.Hangup}, 200, 2, "", cut},
		{"stall after 3 tokens", sim.Fault{At: sim.AtToken, Tokens: 3, Do: sim.Stall}, 200, 3, "", late},
		{"clean end after 2 tokens", sim.Fault{At: sim.AtToken, Tokens: 2, Do: sim.Finish}, 200, 2, "}]}\n\n", none},
		{"bare done after head", sim.Fault{At: sim.AtHead, Do: sim.BareDone}, 200, 0, "data: [DONE]\n\n", none},
		{"error event", sim.Fault{At: sim.AtToken, Tokens: 1, Do: sim.ErrorEvent}, 200, 1, `"code":500}}` + "\n\ndata: [DONE]\n\n", none},
		{"reset before done", sim.Fault{At: sim.AtDone, Do: sim.Hangup}, 200, 5, "", cut},
		{"answer", sim.Fault{At: sim.AtRequest, Do: sim.Answer, Status: 503, Body: []byte("busy")}, 503, 0, "busy", none},
		{"informational", sim.Fault{Informational: []int{102, 103}}, 200, 5, "data: [DONE]\n\n", none},
		{"sliced", sim.Fault{Slice: 3}, 200, 5, "data: [DONE]\n\n", none},
		{"script", sim.Fault{At: sim.AtRequest, Do: sim.Play, End: sim.Hangup, Script: []sim.Piece{{Data: []byte("da")}, {Pause: time.Second, Data: []byte("ta:")}}}, 200, 0, "data:", cut},
		{"die after a token", sim.Fault{At: sim.AtToken, Tokens: 1, Pause: time.Millisecond, Do: sim.Die}, 200, 1, "", reset},
		{"wedge", sim.Fault{At: sim.AtToken, Tokens: 2, Do: sim.Wedge}, 200, 2, "", late},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *sim.Replica, c *http.Client) {
				r.SetFault(func(*sim.Arrival) *sim.Fault { return &tt.f })
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				start := time.Now()
				resp, err := complete(ctx, c, `{"prompt":"abcd","max_tokens":5,"stream":true}`)
				status, body := 0, ""
				if err == nil {
					status = resp.StatusCode
					var b []byte
					b, err = io.ReadAll(resp.Body)
					body = string(b)
					_ = resp.Body.Close()
				}
				if tt.status >= 0 && status != tt.status || contents(body) != tt.tokens || !strings.HasSuffix(body, tt.tail) || !tt.err(err) {
					t.Errorf("status %d, error %v, body\n%s", status, err, body)
				}
				if late(err) {
					synctest.Wait()
					if at := r.Requests()[0].Aborted; at.Sub(start) != 10*time.Second {
						t.Errorf("ledger has the client leaving after %v, want 10s", at.Sub(start))
					}
				}
				time.Sleep(time.Minute)
				if st := r.Stats(); st.Free != st.Usable && tt.f.Do != sim.Wedge {
					t.Errorf("Stats = %+v, want all blocks free", st)
				}
			})
		})
	}
}

func TestMarker(t *testing.T) {
	bubble(t, func(t *testing.T, r *sim.Replica, c *http.Client) {
		r.SetFault(sim.OnMarker("poison", sim.Fault{At: sim.AtRequest, Do: sim.Die}))
		resp, err := complete(t.Context(), c, `{"prompt":"fine","max_tokens":1}`)
		if err != nil || resp.StatusCode != 200 {
			t.Fatalf("harmless request = %v, %v", resp, err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		if _, err := complete(t.Context(), c, `{"prompt":"poison"}`); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("poisoned request = %v, want connection reset", err)
		}
		if _, err := complete(t.Context(), c, `{"prompt":"fine"}`); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("request to a dead replica = %v, want connection refused", err)
		}
	})
}

func get(t *testing.T, c *http.Client, path string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, "GET", "http://replica:8000"+path, nil)
	resp, err := c.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	b, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	return resp.StatusCode, string(b)
}

func TestHangKeepsHealthAndMetrics(t *testing.T) {
	bubble(t, func(t *testing.T, r *sim.Replica, c *http.Client) {
		resp, err := complete(t.Context(), c, `{"prompt":"abcd","max_tokens":10,"stream":true}`)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(35 * time.Millisecond)
		r.Hang()
		const steps = `vllm:iteration_tokens_total_count{engine="0",model_name="acme-8b"} 4.0`
		for range 2 {
			time.Sleep(time.Hour)
			status, _ := get(t, c, "/health")
			if _, m := get(t, c, "/metrics"); status != 200 || !strings.Contains(m, steps) {
				t.Errorf("hung replica: health %d, metrics lack %s", status, steps)
			}
		}
		r.Resume()
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || contents(string(body)) != 10 {
			t.Errorf("after Resume: %d tokens, %v, want 10", contents(string(body)), err)
		}
	})
}

func TestRestart(t *testing.T) {
	bubble(t, func(t *testing.T, r *sim.Replica, c *http.Client) {
		prompt := fmt.Sprintf(`{"prompt":%q,"max_tokens":1}`, strings.Repeat("x", 200))
		cached := func() string {
			resp, err := complete(t.Context(), c, prompt)
			if err != nil {
				return err.Error()
			}
			b, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			_, after, _ := strings.Cut(string(b), `"cached_tokens":`)
			n, _, _ := strings.Cut(after, "}")
			return n
		}
		if a, b := cached(), cached(); a != "0" || b != "48" {
			t.Errorf("cached tokens %s, then %s, want 0 and 48", a, b)
		}
		started := func() string {
			_, m := get(t, c, "/metrics")
			_, after, _ := strings.Cut(m, "\nprocess_start_time_seconds ")
			line, _, _ := strings.Cut(after, "\n")
			return line
		}
		before := started()
		time.Sleep(time.Minute)
		open, err := complete(t.Context(), c, `{"prompt":"abcd","max_tokens":500,"ignore_eos":true,"stream":true}`)
		if err != nil {
			t.Fatal(err)
		}
		r.Restart()
		if _, err := io.ReadAll(open.Body); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("open stream ends with %v, want connection reset", err)
		}
		if after := started(); after == before || after == "" {
			t.Errorf("start time stays %s after a restart", after)
		}
		if st := r.Stats(); st.Steps != 0 || st.Free != st.Usable {
			t.Errorf("Stats = %+v, want counters at zero", st)
		}
		if n := cached(); n != "0" {
			t.Errorf("cached tokens after a restart: %s, want 0", n)
		}
	})
}

func TestTroubles(t *testing.T) {
	bubble(t, func(t *testing.T, r *sim.Replica, c *http.Client) {
		r.SetHealth(sim.Trouble{Status: 503})
		if status, _ := get(t, c, "/health"); status != 503 {
			t.Errorf("health = %d, want 503", status)
		}
		r.SetHealth(sim.Trouble{Delay: 2 * time.Second})
		start := time.Now()
		if status, _ := get(t, c, "/health"); status != 200 || time.Since(start) != 2*time.Second {
			t.Errorf("slow health = %d after %v, want 200 after 2s", status, time.Since(start))
		}
		r.SetMetrics(sim.Trouble{Garbage: []byte("<html>")})
		if _, body := get(t, c, "/metrics"); body != "<html>" {
			t.Errorf("metrics = %q, want the garbage", body)
		}
		r.SetMetrics(sim.Trouble{Stale: true})
		_, before := get(t, c, "/metrics")
		resp, _ := complete(t.Context(), c, `{"prompt":"a","max_tokens":1}`)
		_, _ = io.Copy(io.Discard, resp.Body)
		if _, after := get(t, c, "/metrics"); after != before || !strings.Contains(after, "vllm:") {
			t.Error("stale metrics change")
		}
		r.SetMetrics(sim.Trouble{Hang: true})
		if status, err := get(t, c, "/metrics"); status != 0 || !strings.Contains(err, "deadline") {
			t.Errorf("hanging metrics = %d, %s, want a timeout", status, err)
		}
	})
}

func TestListenerFaults(t *testing.T) {
	bubble(t, func(t *testing.T, r *sim.Replica, c *http.Client) {
		r.Host.ResetNext(1)
		if _, err := complete(t.Context(), c, `{"prompt":"a"}`); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("connection to be reset = %v", err)
		}
		r.Host.Mute(true)
		if status, err := get(t, c, "/health"); status != 0 || !strings.Contains(err, "deadline") {
			t.Errorf("mute host = %d, %s, want a timeout", status, err)
		}
		r.Host.Mute(false)
		if status, _ := get(t, c, "/health"); status != 200 {
			t.Errorf("health = %d, want 200", status)
		}
		time.Sleep(6 * time.Second)
		if n := r.Host.Conns(); n != 1 {
			t.Errorf("%d connections open after the idle time, want only the one nobody serves", n)
		}
	})
}

func TestCloseAbortsRequests(t *testing.T) {
	bubble(t, func(t *testing.T, r *sim.Replica, c *http.Client) {
		open, err := complete(t.Context(), c, `{"prompt":"a","max_tokens":50,"ignore_eos":true,"stream":true}`)
		if err != nil {
			t.Fatal(err)
		}
		r.Server.Close()
		b, err := io.ReadAll(open.Body)
		if err != nil || !strings.Contains(string(b), `"finish_reason":"abort"`) || !strings.HasSuffix(string(b), "data: [DONE]\n\n") {
			t.Errorf("open stream ends with %v\n%s", err, b)
		}
		resp, err := complete(t.Context(), c, `{"prompt":"a","stream":true}`)
		if err != nil {
			t.Fatal(err)
		}
		if b, _ := io.ReadAll(resp.Body); string(b) != "data: [DONE]\n\n" {
			t.Errorf("stream of a closed replica = %q, want a bare [DONE]", b)
		}
		resp, err = complete(t.Context(), c, `{"prompt":"a"}`)
		if err != nil {
			t.Fatal(err)
		}
		if b, _ := io.ReadAll(resp.Body); !strings.Contains(string(b), `"text":"","logprobs":null,"finish_reason":"abort"`) {
			t.Errorf("answer of a closed replica = %s, want an empty text and abort", b)
		}
	})
}

func TestSleep(t *testing.T) {
	bubble(t, func(t *testing.T, r *sim.Replica, c *http.Client) {
		if !r.Sleep() {
			t.Fatal("an idle replica does not go to sleep")
		}
		const line = `vllm:engine_sleep_state{engine="0",model_name="acme-8b",sleep_state="weights_offloaded"} 1.0`
		if _, m := get(t, c, "/metrics"); !strings.Contains(m, line) {
			t.Errorf("metrics lack %s", line)
		}
		go func() {
			time.Sleep(time.Minute)
			r.Wake()
		}()
		start := time.Now()
		resp, err := complete(t.Context(), c, `{"prompt":"a","max_tokens":1}`)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if got := time.Since(start); got != time.Minute+10*time.Millisecond {
			t.Errorf("answer after %v, want a step after it woke", got)
		}
	})
}

func TestDrain(t *testing.T) {
	bubble(t, func(t *testing.T, r *sim.Replica, c *http.Client) {
		open, err := complete(t.Context(), c, `{"prompt":"a","max_tokens":50,"ignore_eos":true,"stream":true}`)
		if err != nil {
			t.Fatal(err)
		}
		r.Drain()
		if r.Idle() {
			t.Error("idle with a request running")
		}
		late, err := complete(t.Context(), c, `{"prompt":"a","stream":true}`)
		if err != nil {
			t.Fatal(err)
		}
		if b, _ := io.ReadAll(late.Body); string(b) != "data: [DONE]\n\n" {
			t.Errorf("request to a draining replica = %q, want a bare [DONE]", b)
		}
		if status, _ := get(t, c, "/health"); status != 200 {
			t.Errorf("health = %d while draining, want 200", status)
		}
		if b, err := io.ReadAll(open.Body); err != nil || contents(string(b)) != 50 {
			t.Errorf("running request got %d tokens, %v, want all 50", contents(string(b)), err)
		}
		if !r.Idle() {
			t.Error("not idle after the last request")
		}
	})
}
