// Policylab compares routing rules on a trace, in simulation, with the
// library's own router, prefix map, admission line and books.
//
//	policylab -trace conv.jsonl.gz -fleet 16x8b-a100 -speed 3.5 -seeds 5
//	policylab -workload groups=200,zipf=1,shared=1536,prompt=224,output=300,rate=1,duration=3000s -fleet 40x8b-a100 -speed 250,300,350
//	policylab -workload b2b -fleet 8x32b-tp2-h100 -policies roundrobin,leastrequest,blend,marginal -direct
//	policylab -trace conv.jsonl.gz -json > result.json
//	policylab -trace conv.jsonl.gz -speed 2,3,4,5 -html page.html
//	policylab -trace conv.jsonl.gz -fleet 16xprofiles/70b-tp8-a800.json
//
// There conv.jsonl.gz stands for a trace of yours, in one of the formats that
// package sim/trace reads; testdata has a short one.
//
// Each policy is run once per seed and speed. A seed moves every arrival by up
// to one mean gap, or makes up another workload, and draws other lots; what
// is printed is the mean over seeds, and behind ± half the range.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errUsage):
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "policylab:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out, progress io.Writer) error {
	o, err := parse(args, progress)
	if err != nil {
		return err
	}
	l, err := newLab(o)
	if err != nil {
		return err
	}
	fmt.Fprintln(progress, l.describe())
	res, err := l.run(ctx, progress)
	if err != nil {
		return err
	}
	if o.html != "" {
		if err := writePage(o.html, res); err != nil {
			return err
		}
		fmt.Fprintln(progress, "page written to", o.html)
	}
	if o.json {
		return writeJSON(out, res)
	}
	return writeTable(out, res)
}
