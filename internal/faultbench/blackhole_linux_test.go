package faultbench_test

import (
	"fmt"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/expediterhq/expediter"
	"github.com/expediterhq/expediter/internal/faultbench"
	"github.com/expediterhq/expediter/registry"
	"github.com/expediterhq/expediter/vllm"
)

// blackHole returns an address that answers no SYN: its backlog is full.
func blackHole(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	at, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", at.(*syscall.SockaddrInet4).Port)
	for range 20 {
		c, err := net.DialTimeout("tcp", addr, 100*time.Millisecond)
		if err != nil {
			return addr
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	t.Skip("the backlog cannot be filled here")
	return ""
}

// TestE3Dial: a client that leaves while its request waits for a connection
// that never comes, and one that stays and gets another replica.
func TestE3Dial(t *testing.T) {
	hole := blackHole(t)
	transport := vllm.NewTransport(vllm.TransportConfig{DialTimeout: 300 * time.Millisecond})
	defer closeIdle(transport)
	patient := vllm.NewTransport(vllm.TransportConfig{DialTimeout: time.Minute})
	for name, dial := range map[string]expediter.Pool{"E3 leaves": {Transport: patient}, "E3 stays": {Transport: transport}} {
		t.Run(name, func(t *testing.T) {
			h := faultbench.Open(t, faultbench.Options{Unseen: true, Config: func(c *expediter.Config) {
				c.Scrape = -1
				c.Pools[0].Transport = dial.Transport
			}})
			h.Members[0].Drain()
			if _, err := h.Pool.Add(registry.ReplicaConfig{Name: "hole", URL: "http://" + hole}); err != nil {
				t.Fatal(err)
			}
			if name == "E3 leaves" {
				l := h.Ask(faultbench.Request{Stream: true, MaxTokens: 5})
				h.Eventually("the dial", func() bool { return h.Pool.Load().Requests == 1 })
				l.Leave(false)
				h.Eventually("its end", func() bool { return h.Handler.InFlight() == 0 })
				h.Check()
				if r := h.Records()[0]; r.Status != expediter.StatusCancelled || r.Charged != 0 {
					t.Errorf("record = %+v", r)
				}
				return
			}
			go func() {
				h.Eventually("the dial", func() bool { return h.Pool.Load().Requests == 1 })
				h.Members[0].Resume()
			}()
			if a := h.Do(t.Context(), faultbench.Request{Stream: true, MaxTokens: 5}); !a.OK() {
				t.Errorf("%v, status %d: %s", a.Err, a.Status, a.Body)
			}
			h.Check()
			if r := h.Records()[0]; r.Attempts != 2 {
				t.Errorf("record = %+v", r)
			}
			closeIdle(transport)
		})
	}
}
