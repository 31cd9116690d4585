// Usagereport sums usage files by tenant and model:
//
//	go run ./examples/usagereport usage.jsonl*
//	go run ./examples/usagereport -from 2026-11-01 -to 2026-12-01 -json usage.jsonl
//	go run ./examples/usagereport -redis localhost:6379 usage.jsonl*
//	go run ./examples/usagereport -redis localhost:6379 -stream expediter:usage
//
// With -stream it reads a stream that usage.Redis wrote, instead of files or
// beside those of other gateways.
//
// With -redis it also compares each tenant's records with the charges that
// redisquota keeps, those of tenants without records included, and prints the
// difference. The files must then hold all records since the store first saw
// the tenant, from all gateways. The exit status is 0, 1 after an error, 2 for
// wrong arguments, and 3 if some charges differ.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"
)

func main() { os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr)) }

// options are the arguments.
type options struct {
	json                  bool
	redis, prefix, stream string
	in                    period
	files                 []string
}

func run(ctx context.Context, args []string, out, errOut io.Writer) int {
	o, err := parse(args, errOut)
	if err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(errOut, "usagereport:", err)
		}
		return 2
	}
	rep, err := sum(ctx, o)
	if err == nil && o.redis != "" {
		err = rep.compare(ctx, o.redis, o.prefix)
	}
	if err == nil {
		if o.json {
			err = rep.printJSON(out)
		} else {
			err = rep.print(out)
		}
	}
	switch {
	case err != nil:
		fmt.Fprintln(errOut, "usagereport:", err)
		return 1
	case rep.differs():
		return 3
	}
	return 0
}

func parse(args []string, errOut io.Writer) (o options, err error) {
	fs := flag.NewFlagSet("usagereport", flag.ContinueOnError)
	fs.SetOutput(errOut)
	fs.Usage = func() {
		fmt.Fprintln(errOut, "usage: usagereport [flags] file...   (- is the standard input)")
		fs.PrintDefaults()
	}
	fs.BoolVar(&o.json, "json", false, "print JSON instead of a table")
	fs.StringVar(&o.redis, "redis", "", "compare with the charges kept at this `address`; several, with commas, for a cluster; or a rediss:// URL")
	fs.StringVar(&o.prefix, "prefix", "", "prefix of the quota store's keys, if it is not the default")
	fs.StringVar(&o.stream, "stream", "", "read the records of this stream at -redis too: its `key`")
	from := fs.String("from", "", "leave out what arrived before this `time`, as 2026-11-01 or RFC 3339")
	to := fs.String("to", "", "leave out what arrived at this `time` or later")
	if err := fs.Parse(args); err != nil {
		return o, flag.ErrHelp // already printed
	}
	if o.in.from, err = parseTime(*from); err != nil {
		return o, fmt.Errorf("-from: %w", err)
	}
	if o.in.to, err = parseTime(*to); err != nil {
		return o, fmt.Errorf("-to: %w", err)
	}
	if o.files = fs.Args(); len(o.files) == 0 && o.stream == "" {
		return o, errors.New("want the files to read")
	}
	if o.stream != "" && o.redis == "" {
		return o, errors.New("-stream: want -redis too")
	}
	if o.redis != "" && o.in != (period{}) {
		return o, errors.New("-redis compares with all charges there are: it cannot be used with -from or -to")
	}
	return o, nil
}

func parseTime(s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.DateOnly, s); err == nil {
		return t, nil
	}
	return time.Parse(time.RFC3339, s)
}
