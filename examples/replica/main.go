// Replica is one simulated vLLM replica as a process, to rehearse a fleet, a
// configuration or a failure without a GPU.
//
//	replica -addr 127.0.0.1:8001 -model acme-8b
//	replica -addr 127.0.0.1:8002 -model acme-8b -adapters legal,support -speed 10
//	replica -addr 127.0.0.1:8003 -model acme-70b -profile 70b-tp2-a100 -fault 'marker=poison:die'
//	replica -addr 127.0.0.1:8004 -model acme-8b -kv-events 127.0.0.1:5557 -kv-replay 127.0.0.1:5558
//
// With -control, faults are switched at run time:
//
//	curl -X POST 'http://127.0.0.1:9001/hang'       # tokens stop, /health stays 200
//	curl -X POST 'http://127.0.0.1:9001/resume'
//	curl -X POST 'http://127.0.0.1:9001/restart'    # empty cache, counters at zero
//	curl -X POST 'http://127.0.0.1:9001/die'        # the process exits with status 137
//	curl -X POST 'http://127.0.0.1:9001/speed?x=0.2'
//	curl -X POST 'http://127.0.0.1:9001/health?status=503&delay=2s&hang=false'
//	curl -X POST 'http://127.0.0.1:9001/metrics?stale=true'
//	curl -X POST 'http://127.0.0.1:9001/fault?rules=rate%3D0.1:reset@token%3D5'
//	curl 'http://127.0.0.1:9001/stats'
//
// SIGTERM and SIGINT abort what runs and end the process; with
// -shutdown-timeout, what runs may finish first, as with vLLM's flag.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/expediterhq/expediter/sim"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer cancel()
	err := run(ctx, os.Args[1:], os.Stdout)
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errUsage):
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "replica:", err)
		os.Exit(1)
	}
}

// replica is the process: the simulated engine and the sockets it answers on.
type replica struct {
	opts   options
	srv    *sim.Server
	pub    *sim.Publisher
	logger *slog.Logger
	tasks  sync.WaitGroup
	failed chan error // a socket that broke
	http   []*http.Server
}

func run(ctx context.Context, args []string, out io.Writer) error {
	opts, err := parse(args, os.Stderr)
	if err != nil {
		return err
	}
	cfg, err := opts.config()
	if err != nil {
		return err
	}
	r := &replica{opts: opts, logger: slog.New(slog.NewTextHandler(os.Stderr, nil)), failed: make(chan error, 4)}
	cfg.OnKill = func() {
		r.logger.Error("killed by a fault")
		os.Exit(137)
	}
	if opts.events != "" {
		r.pub = sim.NewPublisher(sim.PublisherConfig{Topic: opts.topic})
		cfg.KVEvents = &sim.KVEvents{Arrays: opts.arrays, Publish: r.pub.Publish}
	}
	r.srv = sim.NewServer(cfg)
	r.srv.SetFault(opts.faults)
	defer r.close()
	if err := r.open(out); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		r.drain()
		return nil
	case err := <-r.failed:
		return err
	}
}

// open starts every socket that was asked for.
func (r *replica) open(out io.Writer) error {
	l, err := net.Listen("tcp", r.opts.addr)
	if err != nil {
		return err
	}
	// vLLM's server drops idle connections after 5 s and takes heads of 4 MiB.
	r.serveHTTP(l, &http.Server{Handler: r.srv, IdleTimeout: 5 * time.Second, MaxHeaderBytes: 4 << 20})
	fmt.Fprintf(out, "%s (%s) on http://%s\n", r.opts.model, r.opts.hardwareName(), l.Addr())
	if r.opts.control != "" {
		l, err := net.Listen("tcp", r.opts.control)
		if err != nil {
			return err
		}
		r.serveHTTP(l, &http.Server{Handler: r.controls(), ReadHeaderTimeout: 5 * time.Second})
		fmt.Fprintf(out, "control on http://%s\n", l.Addr())
	}
	for _, s := range []struct {
		name, addr string
		serve      func(net.Listener) error
	}{{"KV events", r.opts.events, r.pub.Serve}, {"KV event replay", r.opts.replay, r.pub.ServeReplay}} {
		if s.addr == "" {
			continue
		}
		l, err := net.Listen("tcp", s.addr)
		if err != nil {
			return err
		}
		r.start(func() error { return s.serve(l) })
		fmt.Fprintf(out, "%s on tcp://%s\n", s.name, l.Addr())
	}
	return nil
}

func (r *replica) serveHTTP(l net.Listener, hs *http.Server) {
	r.http = append(r.http, hs)
	r.start(func() error {
		if err := hs.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
}

func (r *replica) start(f func() error) {
	r.tasks.Go(func() {
		if err := f(); err != nil {
			r.failed <- err
		}
	})
}

// drain lets what runs finish, for as long as it was told.
func (r *replica) drain() {
	r.srv.Drain()
	over := time.After(r.opts.shutdown)
	for !r.srv.Idle() {
		select {
		case <-over:
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// close aborts what runs, gives the aborts a moment to reach the clients, and
// ends all sockets.
func (r *replica) close() {
	r.srv.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for _, hs := range r.http {
		if hs.Shutdown(ctx) != nil {
			_ = hs.Close()
		}
	}
	if r.pub != nil {
		r.pub.Close()
	}
	r.tasks.Wait()
}
