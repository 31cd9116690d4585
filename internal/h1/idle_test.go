package h1

import (
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// TestIdle: a bounded number is kept, each for its time, the one used last goes out first.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p idle
		p.init(3, 4*time.Second)
		a, b := address{host: "a"}, address{host: "b"}
		ends := map[*conn]net.Conn{}
		put := func(key address) *conn {
			near, far := net.Pipe()
			c := newConn(key, near)
			ends[c] = far
			p.put(c)
			return c
		}
		closed := func(c *conn) bool {
			_ = ends[c].SetReadDeadline(time.Now())
			_, err := ends[c].Read(make([]byte, 1))
			var timeout net.Error
			ok, _ := err.(net.Error)
			timeout = ok
			return timeout == nil
		}
		first := put(a)
		time.Sleep(time.Second)
		second, third, other := put(a), put(a), put(b)
		if fourth := put(a); !closed(fourth) {
			t.Error("a fourth connection was kept")
		}
		if c := p.take(a); c != third || !c.reused {
			t.Error("the one used last was not taken")
		}
		if p.take(address{host: "a", secure: true}) != nil {
			t.Error("a plain connection was taken for https")
		}
		time.Sleep(3*time.Second - 1)
		if closed(first) || closed(second) || closed(other) {
			t.Error("closed before its time")
		}
		time.Sleep(2 * time.Nanosecond)
		if !closed(first) || closed(second) || closed(other) {
			t.Error("the oldest, and no other, was to be closed")
		}
		time.Sleep(time.Second)
		if !closed(second) || !closed(other) {
			t.Error("kept for too long")
		}
		if closed(third) {
			t.Error("one in use was closed")
		}
		if p.timer != nil || len(p.conns) != 0 {
			t.Error("something is left of an idle pool that is empty")
		}
		p.put(third)
		p.closeAll()
		if !closed(third) || p.timer != nil {
			t.Error("something is left after closeAll")
		}
	})
}
