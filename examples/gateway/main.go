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
	flags := flag.NewFlagSet("gateway", flag.ContinueOnError)
	addr := flags.String("addr", "", "address to listen on (default: the configuration's, else 127.0.0.1:8080)")
	path := flags.String("config", "", "configuration file; without one, an embedded simulated fleet")
	check := flags.Bool("check", false, "check the configuration and exit")
	without := flags.Bool("without-replicas", false, "start even if a pool has no replica that answers")
	verbose := flags.Bool("v", false, "log at debug level")
	if err := flags.Parse(args); err != nil {
		return flag.ErrHelp // what is wrong is printed already
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q; the only command is keygen", flags.Arg(0))
	}
	if *check && *path == "" {
		return errors.New("-check needs -config")
	}
	level := slog.LevelInfo
	if *verbose {
		level = slog.LevelDebug
	}
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))

	stop := make(chan os.Signal, 2)
	signal.Notify(stop, syscall.SIGTERM, os.Interrupt)
	defer signal.Stop(stop)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if *path == "" {
		signal.Notify(stop, syscall.SIGHUP) // there is nothing to read again: the terminal has gone
		return runDemo(ctx, cmp.Or(*addr, defaultListen), logger, stop)
	}
	return runConfig(ctx, options{path: *path, addr: *addr, check: *check, without: *without}, logger, stop)
}
