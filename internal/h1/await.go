package h1

import (
	"io"

	"github.com/expediterhq/expediter/internal/rawio"
)

// Stream is a body that can be read as it comes, with no read that finds
// nothing. That of an answer from Transport may be one.
type Stream interface {
	io.ReadCloser

	// Await calls step on the caller's goroutine, at once and then each time
	// something has come, until step returns true. Within step Read returns
	// rawio.ErrNotYet instead of waiting; step reads until then unless it is done.
	// Await reports whether that is possible: if not, it has not called step.
	Await(step func() (done bool)) bool
}

var _ Stream = (*body)(nil)

func (b *body) Await(step func() (done bool)) bool {
	conn, ok := b.x.conn.Conn.(rawio.Now)
	if !ok || b.err != nil {
		return false
	}
	if err := b.await(conn, step); err != nil && b.err == nil { // closed under a step that waited for more
		b.fail(err)
		step()
	}
	return true
}

func (b *body) await(conn rawio.Now, step func() (done bool)) error {
	b.now = conn
	defer func() {
		b.now = nil
		if b.letGo != nil {
			b.letGo()
			b.letGo = nil
		}
	}()
	return conn.Await(step)
}

// later calls f once the connection is not waited for: within that it cannot be
// closed, or be another request's.
func (b *body) later(f func()) {
	if b.now != nil {
		b.letGo = f
		return
	}
	f()
}
