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
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, errUsage):
		return 2
	case err != nil:
		fmt.Fprintln(errOut, "usagereport:", err)
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

// errUsage says that the arguments are wrong, and that this is printed already.
var errUsage = errors.New("wrong usage")

const about = `Usage of usagereport: usagereport [flags] FILE...   (- is the standard input)
Sums the usage records of a gateway by tenant and model, and holds them against the quota store.
`

func parse(args []string, errOut io.Writer) (o options, err error) {
	fs := flag.NewFlagSet("usagereport", flag.ContinueOnError)
	fs.SetOutput(errOut)
	fs.Usage = func() {
		fmt.Fprint(errOut, about)
		fs.PrintDefaults()
	}
	fs.BoolVar(&o.json, "json", false, "print JSON instead of a table")
	fs.StringVar(&o.redis, "redis", "", "compare with the charges kept at this `address`; several, with commas, for a cluster; or a rediss:// URL")
	fs.StringVar(&o.prefix, "prefix", "", "prefix of the quota store's keys, if it is not the default")
	fs.StringVar(&o.stream, "stream", "", "read the records of this stream at -redis too: its `key`")
	from := fs.String("from", "", "leave out what arrived before this `time`, as 2026-11-01 or 2026-11-01T09:30:00Z")
	to := fs.String("to", "", "leave out what arrived at this `time` or later")
	if err := fs.Parse(args); errors.Is(err, flag.ErrHelp) {
		return o, err
	} else if err != nil {
		return o, errUsage
	}
	if o.files = fs.Args(); len(o.files) == 0 && o.stream == "" {
		fmt.Fprintln(errOut, "usagereport: want the files to read")
		fs.Usage()
		return o, errUsage
	}
	if o.in.from, err = parseTime("-from", *from); err != nil {
		return o, err
	}
	if o.in.to, err = parseTime("-to", *to); err != nil {
		return o, err
	}
	if o.stream != "" && o.redis == "" {
		return o, errors.New("-stream: want -redis too")
	}
	if o.redis != "" && o.in != (period{}) {
		return o, errors.New("-redis compares with all charges there are: it cannot be used with -from or -to")
	}
	return o, nil
}

// parseTime reads the date or time of a flag; the empty string is the zero Time.
func parseTime(name, s string) (t time.Time, err error) {
	if s == "" {
		return t, nil
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if t, err = time.Parse(layout, s); err == nil {
			return t, nil
		}
	}
	return t, fmt.Errorf("%s is %q, want a time as 2026-11-01 or 2026-11-01T09:30:00Z", name, s)
}
