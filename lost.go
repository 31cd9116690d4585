package expediter

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/expediterhq/expediter/internal/h1"
)

// staleWindow is how soon after dispatch the loss of a kept connection may
// mean that the replica had closed it while idle, if it still accepts
// connections. Such losses do not count as tries, but there are few of them
// for one request, and the replica's next report tells whether it went down.
const (
	staleWindow = 100 * time.Millisecond
	staleMost   = 4
)

// own takes what a replica answers to the end of its connection for what ended
// the connection from here. An error event that the client has stays one.
func (a *attempt) own(err error) error {
	var f *failure
	if a.ctx.Err() != nil && errors.As(err, &f) && f.answer != nil {
		return a.lost(err)
	}
	return err
}

// lost explains an attempt whose connection failed, or was ended from here.
func (a *attempt) lost(err error) error {
	switch cause := context.Cause(a.ctx); {
	case a.r.Context().Err() != nil:
		a.reached = a.connected
		return errClientGone
	case errors.Is(cause, errDraining):
		return errShutdown()
	case errors.Is(cause, errNoFirstToken):
		f := replicaFault("The replica sent no token in time.", cause)
		f.answer.Status = http.StatusGatewayTimeout
		return f
	case errors.Is(cause, errStandsStill):
		f := replicaFault("The replica stopped before its first token.", cause)
		f.answer.Status, f.still = http.StatusGatewayTimeout, !a.lease.Trial() // which met it as it was
		return f
	case cause != nil && a.ctx.Err() != nil:
		return replicaFault("The replica fell silent.", cause)
	}
	f := replicaFault("The connection to the replica failed.", err)
	f.ours = !a.connected && short(err)
	f.unheard = notHeard(err) && a.stale < staleMost
	f.stale = f.unheard || a.reused && a.stale < staleMost && !begun(err) && time.Since(a.began) < staleWindow
	f.killed = a.connected && !f.stale && cut(err)
	return f
}

// notHeard reports whether an HTTP/2 server turned the request away without
// looking at it, as by a GOAWAY: net/http says so in words only.
func notHeard(err error) bool {
	return strings.HasPrefix(err.Error(), "http2: Transport: cannot retry err")
}

// short reports whether a connection failed for want of something on this
// machine, which says nothing about the replica.
func short(err error) bool {
	var op *net.OpError
	if errors.As(err, &op) && op.Addr != nil && errors.Is(err, noAddress) {
		if a, ok := op.Addr.(*net.TCPAddr); ok && a.IP.IsLoopback() {
			return false // an address of this machine that it does not have, as ::1 without IPv6
		}
	}
	return isAny(err, shortages())
}

// begun reports whether something of an answer had come.
func begun(err error) bool {
	var head *h1.HeadError
	return errors.As(err, &head) && head.Begun
}

// cut reports whether the connection was lost: not if the replica was too slow, or
// what it answered is not HTTP.
func cut(err error) bool {
	var head *h1.HeadError
	if errors.As(err, &head) && head.Malformed || errors.Is(err, h1.ErrFraming) || strings.Contains(err.Error(), "malformed HTTP") {
		return false // the last is how net/http says it
	}
	var timed net.Error
	return !errors.As(err, &timed) || !timed.Timeout() || errors.Is(err, syscall.ETIMEDOUT)
}

// givenUp returns a function that reports whether the replica has been given up
// since: nothing is to be expected of it, however long a prompt may take.
func (q *request) givenUp() func() bool {
	lease := q.lease
	return func() bool { return lease.GivenUp(time.Now()) }
}
