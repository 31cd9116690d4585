package sim_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/expediterhq/expediter/sim"
)

// dialer is the other side of a ZMTP connection, written for the test.
type dialer struct {
	t *testing.T
	net.Conn
}

func (d dialer) frame(flags byte, body string) {
	b := append([]byte{flags, byte(len(body))}, body...)
	if _, err := d.Write(b); err != nil {
		d.t.Fatal(err)
	}
}

func (d dialer) full(n int) []byte {
	b := make([]byte, n)
	if _, err := io.ReadFull(d, b); err != nil {
		d.t.Fatal(err)
	}
	return b
}

// message reads the frames of one message.
func (d dialer) message() (frames []string) {
	for {
		flags := d.full(1)[0]
		n := uint64(0)
		if flags&2 != 0 {
			n = binary.BigEndian.Uint64(d.full(8))
		} else {
			n = uint64(d.full(1)[0])
		}
		frames = append(frames, string(d.full(int(n))))
		if flags&1 == 0 {
			return frames
		}
	}
}

func greet(t *testing.T, n *sim.Network, addr, kind string) dialer {
	t.Helper()
	conn, err := n.DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	d := dialer{t, conn}
	greeting := make([]byte, 64)
	greeting[0], greeting[9], greeting[10], greeting[11] = 0xff, 0x7f, 3, 1
	copy(greeting[12:], "NULL")
	_, _ = d.Write(greeting)
	d.full(64)
	d.frame(4, "\x05READY\x08Identity\x00\x00\x00\x00\x0bSocket-Type\x00\x00\x00"+string(rune(len(kind)))+kind)
	if ready := d.message(); len(ready) != 1 || ready[0][:6] != "\x05READY" {
		t.Fatalf("handshake: %q", ready)
	}
	return d
}

// events runs f with a Publisher whose two sockets are in a network.
func events(t *testing.T, cfg sim.PublisherConfig, f func(p *sim.Publisher, n *sim.Network)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var n sim.Network
		p := sim.NewPublisher(cfg)
		done := make(chan error, 2)
		for addr, serve := range map[string]func(net.Listener) error{"pub:5557": p.Serve, "replay:5558": p.ServeReplay} {
			l, err := n.Listen(addr)
			if err != nil {
				t.Fatal(err)
			}
			go func() { done <- serve(l) }()
		}
		synctest.Wait()
		f(p, &n)
		p.Close()
		for range 2 {
			if err := <-done; err != nil {
				t.Errorf("Serve = %v after Close, want nil", err)
			}
		}
	})
}

func number(i uint64) string { return string(binary.BigEndian.AppendUint64(nil, i)) }

func TestPublisherSubscribers(t *testing.T) {
	events(t, sim.PublisherConfig{Topic: "kv@1"}, func(p *sim.Publisher, n *sim.Network) {
		p.Publish(0, []byte("before anybody came"))
		all, one, other := greet(t, n, "pub:5557", "SUB"), greet(t, n, "pub:5557", "SUB"), greet(t, n, "pub:5557", "SUB")
		all.frame(0, "\x01")
		one.frame(4, "\x09SUBSCRIBEkv@")
		other.frame(0, "\x01else")
		synctest.Wait()
		big := bytes.Repeat([]byte("x"), 70000)
		p.Publish(1, []byte("a"))
		p.Publish(2, big)
		for _, d := range []dialer{all, one} {
			for i, want := range []string{"a", string(big)} {
				if got := d.message(); fmt.Sprint(got) != fmt.Sprint([]string{"kv@1", number(uint64(i + 1)), want}) {
					t.Errorf("message %d = %.60q", i, got)
				}
			}
		}
		one.frame(4, "\x06CANCELkv@")
		all.frame(4, "\x04PING\x00\x64hello")
		if got := all.message(); got[0] != "\x04PONGhello" {
			t.Errorf("answer to PING = %q", got)
		}
		synctest.Wait()
		p.Publish(3, []byte("b"))
		if got := all.message(); got[2] != "b" {
			t.Errorf("message = %q, want b", got)
		}
		for name, d := range map[string]dialer{"unsubscribed": one, "subscribed elsewhere": other} {
			_ = d.SetReadDeadline(time.Now().Add(time.Minute))
			if _, err := d.Read(make([]byte, 1)); err == nil {
				t.Errorf("somebody %s gets a message", name)
			}
		}
	})
}

func TestPublisherReplay(t *testing.T) {
	events(t, sim.PublisherConfig{Buffer: 10}, func(p *sim.Publisher, n *sim.Network) {
		for i := range uint64(12) {
			p.Publish(i, []byte{byte(i)})
		}
		d := greet(t, n, "replay:5558", "DEALER")
		ask := func(from uint64) (got []string) {
			d.frame(1, "")
			d.frame(0, number(from))
			for {
				m := d.message()
				if len(m) != 4 || m[0] != "" || m[1] != "" {
					t.Fatalf("answer = %q", m)
				}
				if m[2] == number(1<<64-1) {
					return got
				}
				got = append(got, m[3])
			}
		}
		if got := ask(10); fmt.Sprint(got) != fmt.Sprint([]string{"\x0a", "\x0b"}) {
			t.Errorf("replay from 10 = %q", got)
		}
		if got := ask(0); len(got) != 10 || got[0] != "\x02" {
			t.Errorf("replay from the start = %q, want what is kept: 2 to 11", got)
		}
		if got := ask(99); len(got) != 0 {
			t.Errorf("replay from the future = %q", got)
		}
		p.Publish(0, []byte("new process"))
		if got := ask(0); fmt.Sprint(got) != "[new process]" {
			t.Errorf("replay after a restart = %q", got)
		}
	})
	events(t, sim.PublisherConfig{NoTopic: true}, func(p *sim.Publisher, n *sim.Network) {
		p.Publish(0, []byte("a"))
		d := greet(t, n, "replay:5558", "DEALER")
		d.frame(1, "")
		d.frame(0, number(0))
		if got := d.message(); fmt.Sprint(got) != fmt.Sprint([]string{"", number(0), "a"}) {
			t.Errorf("answer = %q", got)
		}
	})
}

func TestPublisherRefusesStrangers(t *testing.T) {
	events(t, sim.PublisherConfig{}, func(p *sim.Publisher, n *sim.Network) {
		for _, hello := range []string{"GET / HTTP/1.1\r\n\r\n" + string(make([]byte, 64)), string(make([]byte, 64))} {
			conn, err := n.DialContext(t.Context(), "tcp", "pub:5557")
			if err != nil {
				t.Fatal(err)
			}
			_, _ = conn.Write([]byte(hello))
			rest, err := io.ReadAll(conn)
			if len(rest) != 64 {
				t.Errorf("a stranger gets %d bytes, %v, want the greeting and an end", len(rest), err)
			}
		}
		d := greet(t, n, "pub:5557", "SUB")
		_, _ = d.Write([]byte{2, 0xff, 0, 0, 0, 0, 0, 0, 0}) // a frame of 2^63 bytes and more
		if _, err := d.Read(make([]byte, 1)); err == nil {
			t.Error("a peer with an absurd frame is not cut off")
		}
	})
}
