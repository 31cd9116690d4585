package rawio

import "errors"

// ErrNotYet says that nothing has come.
var ErrNotYet = errors.New("rawio: nothing has come yet")

// Now is a connection that can be read without asking it in vain. Conn is one.
type Now interface {
	// Await calls step, at once and then each time something has come since the
	// last call, until step returns true. It returns nil then, or else why the
	// connection cannot be waited for: it was closed. Await has the
	// connection's read deadline, and nobody else may read meanwhile. step must
	// not close the connection.
	Await(step func() (done bool)) error

	// ReadNow is Read within step, but returns ErrNotYet where it would wait.
	// Unless step is done it has to read until then.
	ReadNow(p []byte) (int, error)
}
