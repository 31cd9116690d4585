package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
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

// tally gathers what the requests of one load saw.
type tally struct {
	mu     sync.Mutex
	n      int
	failed int
	first  []float64 // ms
	event  []float64 // ms
}

// load sends requests in open loop: the next goes out on time, however slow
// the earlier ones are.
func load(addr string, p plan, events int, seconds time.Duration) *tally {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 10_000, DisableCompression: true}}
	defer client.CloseIdleConnections()
	t := new(tally)
	text := prompt(p.tokens)
	var wg sync.WaitGroup
	every := time.Duration(float64(time.Second) / p.rate)
	begin := time.Now()
	for i := 0; ; i++ {
		at := begin.Add(time.Duration(i) * every)
		if at.Sub(begin) >= seconds {
			break
		}
		time.Sleep(time.Until(at))
		wg.Go(func() { t.one(client, addr, body(i, events, p.pause, text)) })
	}
	wg.Wait()
	return t
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

// one sends a request and reads its stream to the end.
func (t *tally) one(client *http.Client, addr, body string) {
	sent := time.Now()
	var first float64
	var delays []float64
	done := false
	resp, err := post(context.Background(), client, addr, body)
	if err == nil {
		defer resp.Body.Close()
		for s := lines(resp.Body); s.Scan(); {
			now := time.Now()
			if at, ok := stamp(s.Bytes()); ok {
				if delays == nil {
					first = ms(now.Sub(sent))
				}
				delays = append(delays, ms(now.Sub(at)))
			}
			done = done || string(s.Bytes()) == "data: [DONE]"
		}
		if resp.StatusCode != http.StatusOK {
			done = false
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.n++
	if !done {
		t.failed++
		return
	}
	t.first = append(t.first, first)
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

// measureOne measures a subject: a short warm-up, the load, the same with five
// times the events, and open streams for the memory.
func measureOne(s subject, p plan) (result, error) {
	r := result{Name: s.name}
	addr := s.direct
	pid := 0
	if s.start != nil {
		proc, a, err := s.start()
		if err != nil {
			return r, err
		}
		defer proc.stop()
		addr, pid = a, proc.cmd.Process.Pid
	}
	load(addr, p, 5, 2*time.Second)
	before := cpu(pid)
	t := load(addr, p, p.events, p.seconds)
	used := cpu(pid) - before
	r.Requests, r.Failed = t.n, t.failed
	r.FirstP50, r.FirstP99 = quantile(t.first, 0.5), quantile(t.first, 0.99)
	r.EventP50, r.EventP99 = quantile(t.event, 0.5), quantile(t.event, 0.99)
	if pid == 0 || t.n == 0 {
		return r, nil
	}
	r.CPUPerRequest = ms(used) / float64(t.n)
	// Five times the events in the same time: the difference is the events'.
	dense := p
	dense.pause = p.pause / 5
	before = cpu(pid)
	d := load(addr, dense, 5*p.events, p.seconds)
	perDense := ms(cpu(pid)-before) / float64(d.n)
	r.CPUPerEvent = 1000 * (perDense - r.CPUPerRequest) / float64(4*p.events)
	if p.streams > 0 {
		r.KBPerStream = openStreams(addr, pid, p)
	}
	return r, nil
}

// openStreams holds many streams open and returns the memory each adds.
func openStreams(addr string, pid int, p plan) float64 {
	client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	before := rss(pid)
	var wg sync.WaitGroup
	for i := range p.streams {
		resp, err := post(ctx, client, addr, body(i, 1000, time.Second, "hold "+strconv.Itoa(i)))
		if err != nil {
			continue
		}
		wg.Go(func() {
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		})
	}
	after := rss(pid)
	cancel()
	wg.Wait()
	return float64(after-before) / 1024 / float64(p.streams)
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
func rss(pid int) int64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	pages, _ := strconv.ParseInt(strings.Fields(string(data))[1], 10, 64)
	return pages * int64(os.Getpagesize())
}
