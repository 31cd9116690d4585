package expediter

import (
	"io"

	"github.com/expediterhq/expediter/internal/h1"
	"github.com/expediterhq/expediter/sse"
)

// halt is why a pump has stopped.
type halt int

const (
	none    halt = iota
	quiet        // nothing more has come yet
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

	why halt
	err error
}

// run moves events until there is something else to do. Where it can it stays
// within the poller's hook meanwhile, which saves a read for each event.
func (p *pump) run(body io.Reader) (halt, error) {
	if s, ok := body.(h1.Stream); !ok || !s.Await(p.step) {
		if p.step(); p.why == quiet { // from a transport of somebody else's
			return atEnd, sse.ErrNotYet
		}
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
			if err := a.flush(); err != nil {
				return failed, err
			}
		}
		if len(a.out) == 0 {
			a.forgetAnswer()
		}
	}
}
