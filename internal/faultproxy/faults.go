package faultproxy

import "time"

// Direction is one of the two ways through a Proxy.
type Direction int

// The directions.
const (
	Up   Direction = iota // from the client to the target
	Down                  // from the target to the client
)

// How says how a connection ends.
type How int

// The ways to end a connection.
const (
	FIN How = iota // an orderly end, wherever in the data
	RST            // a reset
)

// Faults is what happens to the bytes of one direction. The zero value
// forwards them as they come.
type Faults struct {
	// Delay passes each byte on this long after it has arrived. The rate
	// is not affected.
	Delay time.Duration

	// Slice, if not zero, is the most bytes written at once.
	Slice int

	// Gap is the pause after each slice, without which the receiver may
	// find several in one read.
	Gap time.Duration

	// Drop loses the bytes: the sender sees them delivered.
	Drop bool

	// Hold keeps the bytes, and the end of the connection, until it is
	// lifted, as a network does that is down for a while: both sides see
	// silence.
	Hold bool

	// CutAfter, if not zero, ends each connection once it has passed on this
	// many bytes in the direction, counted from its beginning. A connection
	// beyond it ends with its next byte.
	CutAfter int64
	CutHow   How
}
