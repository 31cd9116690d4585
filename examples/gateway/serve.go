package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/expediterhq/expediter"
	"github.com/expediterhq/expediter/sse"
)

// server is the listeners of one gateway.
type server struct {
	handler *expediter.Handler
	public  *http.Server
	admin   *http.Server // nil without one
	grace   time.Duration
	logger  *slog.Logger
}

// newPublic returns a server with the limits that a handler cannot set.
// Bodies and streams are bounded by the handler itself: a write time-out of
// the server's would end healthy streams.
func newPublic(h http.Handler, logger *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ConnContext:       sse.ConnContext,
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    128 << 10, // the handler refuses more than 64 KiB, as clients expect it
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
}

// run serves on l until a signal arrives on stop, then drains: readiness goes
// first, running requests get the grace period, a second signal ends it.
func (s *server) run(l, admin net.Listener, stop <-chan os.Signal) error {
	failed := make(chan error, 2)
	l = sse.Listener(l)
	go func() {
		if s.public.TLSConfig != nil {
			failed <- s.public.ServeTLS(l, "", "")
			return
		}
		failed <- s.public.Serve(l)
	}()
	if s.admin != nil {
		go func() { failed <- s.admin.Serve(admin) }()
	}
	select {
	case err := <-failed:
		s.close()
		return err
	case sig := <-stop:
		s.logger.Info("draining", "signal", sig.String(), "grace", s.grace)
	}
	ctx, expire := context.WithTimeoutCause(context.Background(), s.grace, errGraceOver)
	defer expire()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-stop:
			cancel(errSecondSignal)
		case <-ctx.Done():
		}
	}()
	if err := s.handler.Drain(ctx); err != nil {
		s.logger.Warn("ended the requests that still ran", "reason", err)
	}
	s.close()
	return nil
}

// Why a drain ended before the requests did.
var (
	errGraceOver    = errors.New("the grace period is over")
	errSecondSignal = errors.New("a second signal")
)

func (s *server) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = s.public.Shutdown(ctx) // what is left after the drain are idle connections
	if s.admin != nil {
		_ = s.admin.Shutdown(ctx)
	}
	s.handler.Close()
}

// listen opens a port, with one clear line when it is taken.
func listen(addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err == nil {
		return l, nil
	}
	var op *net.OpError
	if errors.As(err, &op) {
		return nil, fmt.Errorf("cannot listen on %s: %w", addr, op.Err)
	}
	return nil, fmt.Errorf("cannot listen on %s: %w", addr, err)
}
