package expediter

import (
	"io"

	"github.com/expediterhq/expediter/internal/h1"
	"github.com/expediterhq/expediter/internal/rawio"
	"github.com/expediterhq/expediter/sse"
)

// halt is why a pump has stopped.
type halt int

const (
	none    halt = iota
	quiet        // nothing more has come yet
	atStart      // the head of the answer can go out, with the first token
	atDone       // the stream is complete
	atError      // an error event
	atEnd        // the end of the body, or its error
	failed
)

// pump moves the events of one stream from the replica to the client.
type pump struct {
	a  *attempt
	sc *sse.Scanner
	ev sse.Event // the last one

	begun bool // the head is out
	why   halt
	err   error
}

// run moves events until there is something else to do. Once the head is out it
// stays within the poller's hook where it can, which saves a read for each event.
// net/http's work on the head needs a deep stack: were it done in there, the
// stack of each stream would be twice as large.
func (p *pump) run(body io.Reader) (halt, error) {
	if p.step(); p.why != atStart {
		return p.stopped()
	}
	rawio.Yield()
	if err := p.a.flush(); err != nil {
		return failed, err
	}
	p.begun = true
	p.a.forgetAnswer()
	if s, ok := body.(h1.Stream); !ok || !s.Await(p.step) {
		p.step()
	}
	return p.stopped()
}

// stopped returns why the pump has stopped.
func (p *pump) stopped() (halt, error) {
	if p.why == quiet { // from a transport of somebody else's
		return atEnd, sse.ErrNotYet
	}
	return p.why, p.err
}

func (p *pump) step() (done bool) {
	p.why, p.err = p.move()
	return p.why != quiet
}

// move moves what has come, or all that comes if the body waits for it.
func (p *pump) move() (halt, error) {
	a := p.a
	for {
		ev, err := p.sc.Next()
		if err == sse.ErrNotYet {
			return quiet, nil
		}
		a.borrow()
		if err != nil {
			return atEnd, err
		}
		p.ev = ev
		if !ev.Empty() { // comments are not tokens, and an event without data is none
			if why, err := a.event(ev); why != none {
				return why, err
			}
		}
		if a.started && len(a.out) > 0 && !p.sc.Buffered() {
			if !p.begun {
				return atStart, nil
			}
			if err := a.flush(); err != nil {
				return failed, err
			}
		}
		if len(a.out) == 0 {
			a.forgetAnswer()
		}
	}
}
