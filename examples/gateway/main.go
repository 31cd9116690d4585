// Gateway is the whole pipeline as one binary.
//
//	gateway                      an embedded simulated fleet, for a first look
//	gateway -config file.yaml    real replicas
//	gateway -config file.yaml -check
//	gateway keygen               a new API key and its digest
//
// SIGTERM and SIGINT drain it; SIGHUP reads the configuration again.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	err := run(os.Args[1:])
	switch {
	case err == nil:
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "gateway:", err)
		os.Exit(1)
	}
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
		signal.Notify(stop, syscall.SIGHUP) // there is nothing to read again: the terminal has gone
		return runDemo(ctx, cmp.Or(o.addr, defaultListen), logger, stop)
	}
	return runConfig(ctx, o, logger, stop)
}
