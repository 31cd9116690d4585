package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/expediterhq/expediter/internal/h1"
	"github.com/expediterhq/expediter/vllm"
)

// prompt is text of about n tokens, the same for each request but for its
// beginning, so that no prefix is shared.
func prompt(n int) string {
	words := strings.Fields("the line cook looks at what is on each burner and how long every dish will take before the next order goes out")
	var b strings.Builder
	for i := range n * 3 / 4 {
		b.WriteString(words[i%len(words)])
		b.WriteByte(' ')
	}
	return b.String()
}

// tally gathers what the requests of the loads of one kind saw.
type tally struct {
	mu     sync.Mutex
	n      int       // requests sent while it counted
	failed int       // of all, those of the warm-up as well
	first  []float64 // ms
	event  []float64 // ms
	used   time.Duration
}

// span is when a load is measured.
type span struct{ begin, end time.Time }

func (s span) has(t time.Time) bool { return !t.Before(s.begin) && t.Before(s.end) }

// load sends requests in open loop: the next goes out on time, however slow
// the earlier ones are. Arrivals are a Poisson process, the same for all subjects
// in a round unless they are loaded together: at a fixed distance they would be in step with the events of all
// streams. What happens in the first seconds, warm, is not counted, nor what
// happens when no more requests come: streams end as often as they begin in
// between, on connections that are there, which is what a subject does all day.
func (r *run) load(t *tally, p plan, events int, warm, seconds time.Duration) {
	client := &http.Client{Transport: h1.New(h1.Config{Dial: dial, Idle: 10_000, IdleTimeout: vllm.IdleTimeout, MaxHead: 1 << 16})}
	defer client.CloseIdleConnections()
	text := prompt(p.tokens)
	var wg sync.WaitGroup
	seed := uint64(1)
	if p.together {
		seed += r.number
	}
	rnd := rand.New(rand.NewPCG(seed, uint64(len(r.p99))))
	at := time.Now()
	counted := span{at.Add(warm), at.Add(warm + seconds)}
	wg.Go(func() { t.watch(r.pid(), counted) })
	for {
		at = at.Add(time.Duration(rnd.ExpFloat64() / p.rate * float64(time.Second)))
		if !at.Before(counted.end) {
			break
		}
		time.Sleep(time.Until(at))
		r.begun++
		request := body(r.begun, events, p.pause, text)
		wg.Go(func() { t.one(client, r.addr, request, counted) })
	}
	wg.Wait()
}

// watch adds the processor time that the process uses while it counts.
func (t *tally) watch(pid int, counted span) {
	time.Sleep(time.Until(counted.begin))
	before := cpu(pid)
	time.Sleep(time.Until(counted.end))
	t.used += cpu(pid) - before
}

func body(i, events int, pause time.Duration, text string) string {
	return fmt.Sprintf(`{"model":"gpt-bench","stream":true,"max_tokens":%d,"user":"%d %d","messages":[{"role":"user","content":"%d %s"}]}`,
		events+10, events, int64(pause), i, text)
}

func post(ctx context.Context, client *http.Client, addr, body string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+benchKey)
	return client.Do(r)
}

// dial makes a connection that knows when what it reads has come.
func dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return watchArrivals(c.(*net.TCPConn))
}

// one sends a request and reads its stream to the end. An event's delay ends
// when it has come to the client's socket: how long the load generator, which
// has a thousand others to read, takes to wake up for it is nothing of the
// subject's.
func (t *tally) one(client *http.Client, addr, body string, counted span) {
	sent := time.Now()
	var conn *arrivals
	ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{
		GotConn: func(c httptrace.GotConnInfo) { conn, _ = c.Conn.(*arrivals) },
	})
	var first float64
	var delays []float64
	events, done := 0, false
	resp, err := post(ctx, client, addr, body)
	if err == nil {
		defer resp.Body.Close()
		for s := lines(resp.Body); s.Scan(); {
			if at, ok := stamp(s.Bytes()); ok {
				if events++; events == 1 {
					first = ms(time.Since(sent))
				}
				if counted.has(at) {
					delays = append(delays, ms(conn.last.Sub(at)))
				}
			}
			done = done || string(s.Bytes()) == "data: [DONE]"
		}
		done = done && resp.StatusCode == http.StatusOK
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if counted.has(sent) {
		t.n++
		if events > 0 {
			t.first = append(t.first, first)
		}
	}
	if !done {
		t.failed++
	}
	t.event = append(t.event, delays...)
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func quantile(list []float64, q float64) float64 {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[min(int(q*float64(len(list))), len(list)-1)]
}

// run is one subject under measurement.
type run struct {
	name   string
	number uint64 // among the subjects
	addr   string
	proc   *process // nil for the subject that is nothing at all
	begun  int      // requests
	plain  tally
	sparse tally     // with a fifth of the events in the same time
	p99    []float64 // ms, of the events of each round's plain load
}

// begin starts a subject and warms it up.
func begin(s subject, p plan) (*run, error) {
	r := &run{name: s.name, addr: s.direct}
	if s.missing != "" {
		return nil, errors.New(s.missing)
	}
	if s.start != nil {
		var err error
		if r.proc, r.addr, err = s.start(); err != nil {
			return nil, err
		}
	}
	r.load(new(tally), p, 5, 2*time.Second, 0)
	r.age(p)
	return r, nil
}

// age sends as many requests of one event as the plan says, some at a time.
func (r *run) age(p plan) {
	const atOnce = 16
	client := &http.Client{Transport: vllm.NewTransport(vllm.TransportConfig{Idle: atOnce})}
	defer client.CloseIdleConnections()
	text := prompt(p.tokens)
	var wg sync.WaitGroup
	for worker := range atOnce {
		wg.Go(func() {
			for i := worker; i < p.before; i += atOnce {
				if resp, err := post(context.Background(), client, r.addr, body(-1-i, 1, 0, text)); err == nil {
					io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
			}
		})
	}
	wg.Wait()
}

func (r *run) stop() {
	if r.proc != nil {
		r.proc.stop()
	}
}

func (r *run) pid() int {
	if r.proc == nil {
		return 0
	}
	return r.proc.cmd.Process.Pid
}

// fewer is how many times fewer events the second load has. More events than
// in the first would take all of the processors' time, and then many come with
// one wake-up, which makes each cheap.
const fewer = 5

// round puts the subject under its share of each load.
func (r *run) round(p plan) {
	seconds, had := p.seconds/time.Duration(p.rounds), len(r.plain.event)
	warm := time.Duration(p.events)*p.pause + time.Second // longer than a stream
	r.load(&r.plain, p, p.events, warm, seconds)
	if r.proc != nil {
		sparse := p
		sparse.pause = fewer * p.pause
		r.load(&r.sparse, sparse, p.events/fewer, warm, seconds)
	}
	r.p99 = append(r.p99, quantile(slices.Clone(r.plain.event[had:]), 0.99))
}

// result sums up, after the memory of open streams.
func (r *run) result(p plan) result {
	t := &r.plain
	res := result{Name: r.name, Requests: t.n, Failed: t.failed + r.sparse.failed,
		FirstP50: quantile(t.first, 0.5), FirstP99: quantile(t.first, 0.99),
		EventP50: quantile(t.event, 0.5), EventP95: quantile(t.event, 0.95), EventP99: quantile(slices.Clone(r.p99), 0.5), Rounds: r.p99}
	if r.proc == nil || t.n == 0 || r.sparse.n == 0 {
		return res
	}
	res.CPUPerRequest = ms(r.plain.used) / float64(t.n)
	perSparse := ms(r.sparse.used) / float64(r.sparse.n)
	res.CPUPerEvent = 1000 * (res.CPUPerRequest - perSparse) / float64(p.events-p.events/fewer)
	if p.streams > 0 {
		res.Open, res.KBPerStream = openStreams(r.addr, r.proc, p)
	}
	return res
}

// openStreams holds many streams open at once, each begun with a prompt as
// those of the load and having had its first event, and returns how many there
// were and the memory each adds. All have one prompt, which was sent before:
// what is remembered of prompts has a bound of its own, and is not what a stream
// takes.
func openStreams(addr string, proc *process, p plan) (open int, kb float64) {
	client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	text := prompt(p.tokens)
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := worker; i < p.streams; i += 8 {
				if resp, err := post(ctx, client, addr, body(0, 1, 0, text)); err == nil {
					io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
			}
		})
	}
	wg.Wait()
	before, err := proc.memory()
	for range p.streams {
		resp, err := post(ctx, client, addr, body(0, 1000, time.Second, text))
		if err != nil {
			continue
		}
		if s := lines(resp.Body); resp.StatusCode == http.StatusOK && s.Scan() {
			open++
		}
		wg.Go(func() {
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		})
	}
	after, failed := proc.memory()
	cancel()
	wg.Wait()
	if err = errors.Join(err, failed); err != nil {
		fmt.Fprintln(os.Stderr, "memory:", err)
		return 0, 0
	}
	return open, float64(after-before) / 1024 / float64(max(open, 1))
}

// cpu returns the processor time that a process has used.
func cpu(pid int) time.Duration {
	if pid == 0 {
		return 0
	}
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	sys, _ := strconv.ParseInt(fields[12], 10, 64)
	const tick = 10 * time.Millisecond // USER_HZ is 100 on Linux
	return time.Duration(user+sys) * tick
}

// rss returns a process's resident memory in bytes.
func rss(pid int) (int64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	pages, err := strconv.ParseInt(strings.Fields(string(data))[1], 10, 64)
	return pages * int64(os.Getpagesize()), err
}
