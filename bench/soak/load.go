package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/expediterhq/expediter/internal/faultbench"
)

// kind is what a client does.
type kind int

const (
	patient kind = iota // reads to the end
	slow                // reads with pauses
	stopped             // reads one byte and no more
	leaving             // leaves after a while
	hostile             // has no key, or no sound body
)

// hugeTokens of huge text are more than a client that stopped can be sent.
const hugeTokens = 777

var huge = strings.Repeat("H", 7<<10)

// narrow makes connections that take little before their client reads it.
func narrow(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if err := c.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// outcome is what one client saw.
type outcome struct {
	id     string
	own    string // what only its own answer may hold
	kind   kind
	ask    faultbench.Request
	answer faultbench.Answer
	left   time.Time // when it left
	tokens int       // it saw
	sound  bool      // its tokens are its own, in order
	delays []time.Duration
	began  time.Time
	head   time.Time // when the answer's head came
}

// load sends requests in open loop.
type load struct {
	plan   plan
	g      *gateway
	client *http.Client
	narrow *http.Client // of clients that stop reading
	wg     sync.WaitGroup

	mu       sync.Mutex
	rnd      *rand.Rand
	outcomes []outcome
	late     time.Duration // the most that a request was sent behind its time
}

func newLoad(p plan, g *gateway) *load {
	return &load{
		plan: p, g: g, rnd: rand.New(rand.NewPCG(p.seed, 2)),
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000, DisableCompression: true, IdleConnTimeout: 30 * time.Second}},
		narrow: &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true, DialContext: narrow}},
	}
}

// warmUp sends a few requests one by one, so that what is made once is there.
func (l *load) warmUp() {
	for range 20 {
		l.one(patient, true, 2, 0)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.outcomes = nil
}

// send sends requests on time, whatever becomes of them.
func (l *load) send() {
	began := time.Now()
	for i := 0; ; i++ {
		due := began.Add(time.Duration(float64(i) / l.plan.rate * float64(time.Second)))
		if due.Sub(began) > l.plan.length {
			return
		}
		if d := time.Until(due); d > 0 {
			wait(nil, d)
		} else {
			l.late = max(l.late, -d)
		}
		k, stream := patient, l.rnd.IntN(5) > 0
		switch n := l.rnd.IntN(100); {
		case n < 15:
			k = leaving
		case n < 20:
			k, stream = slow, true
		case n < 21:
			k, stream = stopped, true
		case n < 24:
			k = hostile
		}
		tokens, after := 1+l.rnd.IntN(40), time.Duration(l.rnd.IntN(400))*time.Millisecond
		l.wg.Go(func() { l.one(k, stream, tokens, after) })
	}
}

func (l *load) wait() {
	l.wg.Wait()
	l.client.CloseIdleConnections()
}

// one is one client.
func (l *load) one(k kind, stream bool, tokens int, after time.Duration) {
	o := outcome{kind: k, ask: faultbench.Request{Stream: stream, MaxTokens: tokens}, began: time.Now(), sound: true}
	if k == stopped {
		o.ask.MaxTokens = hugeTokens
	}
	body, own := o.ask.Body()
	o.own = own
	key := l.g.key
	if k == hostile {
		if tokens%2 == 0 {
			key = "xp-none"
		} else {
			body = body[:len(body)-1]
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if k == leaving {
		leave := time.AfterFunc(after, func() {
			l.mu.Lock()
			o.left = time.Now()
			l.mu.Unlock()
			cancel()
		})
		defer leave.Stop()
	}
	l.exchange(ctx, &o, own, body, key)
	l.mu.Lock()
	defer l.mu.Unlock()
	o.answer.Body, o.answer.Text, o.answer.Events, o.answer.Header = "", "", nil, nil
	l.outcomes = append(l.outcomes, o)
}

func (l *load) exchange(ctx context.Context, o *outcome, own, body, key string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.g.url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		panic(err) // the address is ours
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+key)
	client := l.client
	if o.kind == stopped {
		client = l.narrow
	}
	resp, err := client.Do(req)
	if err != nil {
		o.answer.Err = err
		return
	}
	defer resp.Body.Close()
	o.head, o.id = time.Now(), resp.Header.Get("X-Request-Id")
	switch o.kind {
	case stopped:
		_, o.answer.Err = bufio.NewReaderSize(resp.Body, 16).ReadByte()
		wait(nil, 4*time.Second) // longer than a gateway may wait for it
		o.answer.Err = errors.Join(o.answer.Err, errors.New("stopped reading"))
		return
	case slow:
		resp.Body = struct {
			io.Reader
			io.Closer
		}{&sluggish{resp.Body}, resp.Body}
	}
	o.answer.Read(resp, func(_ int, data string) { o.look(data, own) })
	if !o.ask.Stream && o.answer.OK() {
		o.tokens = strings.Count(o.answer.Text, own)
		o.sound = strings.Count(o.answer.Text, "nonce-") == o.tokens
	}
}

// sluggish reads little, with pauses.
type sluggish struct{ r io.Reader }

func (s *sluggish) Read(p []byte) (int, error) {
	wait(nil, 5*time.Millisecond)
	return s.r.Read(p[:min(len(p), 200)])
}

// look checks one event: whose it is, and how old.
func (o *outcome) look(data, own string) {
	_, rest, ok := strings.Cut(data, `"content":"nonce-`)
	if !ok {
		return
	}
	o.tokens++
	rest, mine := strings.CutPrefix("nonce-"+rest, own)
	if !mine || len(rest) < len(faultbench.Stamp) {
		o.sound = false
		return
	}
	at, err := strconv.ParseInt(rest[:len(faultbench.Stamp)], 10, 64)
	if err != nil {
		o.sound = false
		return
	}
	if o.kind == patient {
		o.delays = append(o.delays, time.Since(time.Unix(0, at)))
	}
}

func (k kind) String() string {
	return [...]string{"patient", "slow", "stopped", "leaving", "hostile"}[k]
}

func (o *outcome) String() string {
	return fmt.Sprintf("%s %s stream=%t tokens=%d/%d status=%d finish=%q done=%t error=%q end=%v",
		o.id, o.kind, o.ask.Stream, o.tokens, o.ask.MaxTokens, o.answer.Status, o.answer.Finish, o.answer.Done, o.answer.Error, o.answer.Err)
}
