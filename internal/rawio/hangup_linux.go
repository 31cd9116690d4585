//go:build linux && !386

package rawio

import (
	"sync"
	"syscall"
	"time"
)

// hangups tells connections whose other side has ended them. One goroutine waits
// for all, with an epoll of its own that Go's poller watches; there is neither
// while there is nothing to watch.
var hangups hangupWatch

type hangupWatch struct {
	mu    sync.Mutex
	poll  *poll // nil without conns
	last  uint64
	conns map[uint64]*hangup
}

// hangup is one connection under watch.
type hangup struct {
	w    *hangupWatch
	conn *Conn
	id   uint64

	mu   sync.Mutex
	over bool
	told bool
}

// watch has c's wait ended by its read deadline when its other side hangs up.
// It returns nil where that is not possible.
func (w *hangupWatch) watch(c *Conn) *hangup {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.poll == nil {
		if w.poll = newPoll(); w.poll == nil {
			return nil
		}
		w.conns = make(map[uint64]*hangup)
		go w.run(w.poll)
	}
	w.last++
	h := &hangup{w: w, conn: c, id: w.last}
	w.conns[h.id] = h
	if !w.poll.add(c, h.id) {
		w.remove(h)
		return nil
	}
	return h
}

// run tells connections until p is given up.
func (w *hangupWatch) run(p *poll) {
	var events [16]syscall.EpollEvent
	_ = p.conn.Read(func(fd uintptr) bool {
		for {
			n := p.ready(fd, events[:])
			for _, e := range events[:n] {
				w.tell(id(e))
			}
			if n < len(events) {
				return false
			}
		}
	})
	_ = p.file.Close()
}

func (w *hangupWatch) tell(id uint64) {
	w.mu.Lock()
	h := w.conns[id]
	w.mu.Unlock()
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.over {
		h.told = true
		_ = h.conn.SetReadDeadline(time.Unix(1, 0)) // it fails if the connection is closed
	}
}

// came reports whether the other side has hung up.
func (h *hangup) came() bool {
	if h == nil {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.told
}

// leave ends the watch, and leaves the connection without a deadline.
func (h *hangup) leave() {
	if h == nil {
		return
	}
	h.mu.Lock()
	h.over = true
	if h.told {
		_ = h.conn.SetReadDeadline(time.Time{})
	}
	h.mu.Unlock()
	w := h.w
	w.mu.Lock()
	defer w.mu.Unlock()
	w.poll.drop(h.conn)
	w.remove(h)
}

// remove forgets h, and gives up the epoll with the last one. It is called with
// mu held.
func (w *hangupWatch) remove(h *hangup) {
	delete(w.conns, h.id)
	if len(w.conns) == 0 {
		_ = w.poll.file.SetReadDeadline(time.Unix(1, 0)) // run closes it
		w.poll = nil
	}
}
