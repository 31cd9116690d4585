// Gateway is the whole pipeline as one binary.
//
//	gateway                      an embedded simulated fleet, for a first look
//	gateway -config file.yaml    real replicas
//	gateway -config file.yaml -check
//	gateway keygen               a new API key and its digest
//
// SIGTERM and SIGINT drain it; SIGHUP reads the configuration again, if there is
// one.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
)

func main() { os.Exit(exit(run(os.Args[1:]), os.Stderr)) }

// exit says on out why the program ends, and returns its status.
func exit(err error, out io.Writer) int {
	var file fileError
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, errFlags):
		return 2
	case errors.As(err, &file):
		fmt.Fprintln(out, file)
	default:
		fmt.Fprintln(out, "gateway:", err)
	}
	return 1
}

func run(args []string) error {
	if len(args) > 0 && args[0] == "keygen" {
		return keygen(args[1:], os.Stdout)
	}
	o, err := parse(args, os.Stderr)
	if err != nil {
		return err
	}
	level := slog.LevelInfo
	if o.verbose {
		level = slog.LevelDebug
	}
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))

	stop := make(chan os.Signal, 2)
	signal.Notify(stop, syscall.SIGTERM, os.Interrupt)
	defer signal.Stop(stop)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if o.path == "" {
		hup := make(chan os.Signal, 1)
		signal.Notify(hup, syscall.SIGHUP)
		defer signal.Stop(hup)
		go ignoreHangups(ctx, hup, stop, logger.Handler())
		return runDemo(ctx, cmp.Or(o.addr, defaultListen), logger, stop)
	}
	return runConfig(ctx, o, logger, stop)
}
