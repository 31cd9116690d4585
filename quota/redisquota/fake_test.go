package redisquota_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/expediterhq/expediter/quota/redisquota"
)

// fakeRedis says yes to every script, over connections in memory, so that it can
// be asked in the time of a synctest bubble. It can be slow, stand still, and be
// gone.
type fakeRedis struct {
	mu    sync.Mutex
	delay time.Duration
	still chan struct{} // not nil: nothing is answered until it is closed
	gone  bool
	hole  bool // dials are never answered
	conns []*fakeConn
	wg    sync.WaitGroup
}

// fakeConn is the server's end of a connection.
type fakeConn struct {
	net.Conn
	lost atomic.Bool // whatever is sent arrives nowhere
}

var errRefused = errors.New("connection refused")

func (f *fakeRedis) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	f.mu.Lock()
	delay, hole := f.delay, f.hole
	f.mu.Unlock()
	if hole {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	time.Sleep(delay)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gone {
		return nil, errRefused
	}
	near, end := net.Pipe()
	far := &fakeConn{Conn: end}
	f.conns = append(f.conns, far)
	replies := make(chan string, 1<<12)
	f.wg.Go(func() { f.read(far, replies) })
	f.wg.Go(func() { f.answer(far, replies) })
	return near, nil
}

// read takes commands, whatever becomes of the answers, as a kernel would.
func (f *fakeRedis) read(c net.Conn, replies chan<- string) {
	defer close(replies)
	r := bufio.NewReader(c)
	for {
		name, err := readCommand(r)
		if err != nil {
			return
		}
		switch strings.ToLower(name) {
		case "hello":
			replies <- "-ERR unknown command\r\n"
		case "evalsha", "eval":
			replies <- ":0\r\n"
		default:
			replies <- "+OK\r\n"
		}
	}
}

func (f *fakeRedis) answer(c *fakeConn, replies <-chan string) {
	defer c.Close()
	for out := range replies {
		for range len(replies) {
			out += <-replies
		}
		f.mu.Lock()
		delay, still := f.delay, f.still
		f.mu.Unlock()
		if c.lost.Load() {
			continue
		}
		if still != nil {
			<-still
		}
		time.Sleep(delay)
		if _, err := io.WriteString(c, out); err != nil {
			for range replies {
			}
			return
		}
	}
}

// readCommand reads an array of strings and returns the first.
func readCommand(r *bufio.Reader) (name string, err error) {
	number := func() (int, error) {
		line, err := r.ReadString('\n')
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(strings.TrimSpace(line[1:]))
	}
	n, err := number()
	for i := 0; i < n && err == nil; i++ {
		var size int
		if size, err = number(); err != nil {
			break
		}
		b := make([]byte, size+2)
		if _, err = io.ReadFull(r, b); i == 0 {
			name = string(b[:size])
		}
	}
	return name, err
}

func (f *fakeRedis) slow(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.delay = d
}

// stop makes it stand still, connections included, until the function it returns
// is called.
func (f *fakeRedis) stop() (resume func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	still := make(chan struct{})
	f.still = still
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.still = nil
		close(still)
	}
}

// kill makes it refuse and ends its connections.
func (f *fakeRedis) kill() (revive func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gone = true
	for _, c := range f.conns {
		c.Close()
	}
	f.conns = nil
	if f.still != nil {
		close(f.still)
		f.still = nil
	}
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.gone = false
	}
}

// vanish makes it a black hole: nothing that is sent arrives, on connections or to
// make one. When it is back, the old connections still lead nowhere.
func (f *fakeRedis) vanish() (appear func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hole = true
	for _, c := range f.conns {
		c.lost.Store(true)
	}
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.hole = false
	}
}

// openFake returns a store at f with the defaults, to be ended in the bubble.
func openFake(t *testing.T, f *fakeRedis, cfg redisquota.Config) (s *redisquota.Store, end func()) {
	t.Helper()
	client := redisquota.Client(redis.UniversalOptions{Addrs: []string{"127.0.0.1:1"}, Dialer: f.dial})
	s, err := redisquota.New(client, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s, func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		client.Close()
		f.kill()
		f.wg.Wait()
		time.Sleep(2 * time.Second) // the dials that are not answered end
	}
}
