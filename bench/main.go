// Bench measures what the gateway adds to a stream, beside the other ways to
// put something in front of a replica. Everything runs in one go, each part as
// a process of its own:
//
//	go run .                       everything that is installed
//	go run . -only reverseproxy,expediter -rate 200 -seconds 15s
//
// A replica streams events at a fixed pace and stamps each with the time it
// was written; the load generator sends requests in open loop and compares that,
// once as many streams end as begin, with the time at which the event had come to
// its socket, which the system notes on Linux (elsewhere: when it was read, which
// is the load generator's delay as well). CPU is what the operating system charged
// the process in the middle. A second load with a fifth of the events per
// stream tells what one event costs and what one request does. A subject has
// half of the processors to itself, and load and replicas have the others: where
// all share all (-apart=false), a delay is also the others', and the
// system's, which chooses a processor for each thread. The subjects run side by
// side and take turns under load, so that a machine that changes its pace changes
// it for all. The p99 of the event delay is the median of those of all rounds: in
// one over all, a single pause of the machine would decide.
//
// With -together all subjects are loaded at once. What the machine does then hits
// all alike, and the ratio of their p99 is known from a tenth of the rounds; but
// each also has the others to wait for.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// plan is one measurement.
type plan struct {
	rate    float64       // requests per second
	seconds time.Duration // of load
	events  int           // per stream
	pause   time.Duration // between events
	tokens  int           // of the prompt
	rounds  int           // in which the subjects take turns
	streams int           // open at once, for the memory figure

	before   int  // requests that each subject has had
	together bool // all subjects at once, each with its share of the requests
}

func main() {
	if len(os.Args) > 1 {
		if run, ok := roles[os.Args[1]]; ok {
			if err := run(os.Args[2:]); err != nil {
				fmt.Fprintln(os.Stderr, os.Args[1]+":", err)
				os.Exit(1)
			}
			return
		}
	}
	p := plan{}
	flag.Float64Var(&p.rate, "rate", 200, "requests per second")
	flag.DurationVar(&p.seconds, "seconds", 16*time.Second, "length of each load, over all rounds")
	flag.IntVar(&p.rounds, "rounds", 8, "turns that the subjects take")
	flag.IntVar(&p.events, "events", 50, "events per stream")
	flag.DurationVar(&p.pause, "pause", 20*time.Millisecond, "between two events")
	flag.IntVar(&p.tokens, "tokens", 1800, "tokens of the prompt, roughly")
	flag.IntVar(&p.streams, "streams", 500, "open streams for the memory figure; 0 leaves it out")
	flag.IntVar(&p.before, "before", 0, "requests that each subject gets first; 40,000 fill the gateway's prefix map")
	flag.BoolVar(&p.together, "together", false, "load all subjects at once, each with its share of the rate, instead of in turns")
	apart := flag.Bool("apart", true, "give the subjects half of the processors to themselves, on Linux")
	only := flag.String("only", "", "comma-separated names; empty: all that are installed")
	asJSON := flag.Bool("json", false, "print JSON")
	flag.Parse()
	if *apart {
		if err := placeApart(); err != nil {
			fmt.Fprintln(os.Stderr, "bench: all share all processors:", err)
		}
	}
	if err := measureAll(p, *only, *asJSON); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// result is what one subject did.
type result struct {
	Name          string
	Requests      int
	Failed        int
	FirstP50      float64 // ms from sending the request to its first event
	FirstP99      float64
	EventP50      float64 // ms from the replica's write to the client's socket
	EventP95      float64
	EventP99      float64   // the median of Rounds
	Rounds        []float64 // p99 of each round
	CPUPerRequest float64   // ms, whole request with its events
	CPUPerEvent   float64   // µs, from the difference of the two loads
	Open          int       // streams held open at once
	KBPerStream   float64   // resident memory per open stream, without garbage
}

func measureAll(p plan, only string, asJSON bool) error {
	rep, err := startReplicas()
	if err != nil {
		return err
	}
	defer rep.stop()
	var runs []*run
	for _, s := range subjects(rep) {
		if only != "" && !strings.Contains(","+only+",", ","+s.name+",") {
			continue
		}
		r, err := begin(s, p)
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: left out: %v\n", s.name, err)
			continue
		}
		defer r.stop()
		r.number = uint64(len(runs))
		runs = append(runs, r)
	}
	for i := range p.rounds {
		round(runs, p)
		slices.Reverse(runs) // nobody always comes after the same other
		fmt.Fprintf(os.Stderr, "round %d of %d done\n", i+1, p.rounds)
	}
	if p.rounds%2 != 0 {
		slices.Reverse(runs)
	}
	var results []result
	for _, r := range runs {
		results = append(results, r.result(p))
	}
	if asJSON {
		return json.NewEncoder(os.Stdout).Encode(results)
	}
	report(p, results)
	return nil
}

// round puts each subject under its share of each load, one after the other or all
// at once.
func round(runs []*run, p plan) {
	if !p.together {
		for _, r := range runs {
			r.round(p)
		}
		return
	}
	p.rate /= float64(max(len(runs), 1))
	var wg sync.WaitGroup
	for _, r := range runs {
		wg.Go(func() { r.round(p) })
	}
	wg.Wait()
}

func report(p plan, results []result) {
	fmt.Printf("%v requests/s for %v, %d events %v apart, %d prompt tokens\n\n", p.rate, p.seconds, p.events, p.pause, p.tokens)
	fmt.Printf("%-14s %9s %7s %10s %10s %10s %10s %10s %12s %11s %7s %10s\n", "", "requests", "failed",
		"first p50", "first p99", "event p50", "event p95", "event p99", "CPU/request", "CPU/event", "open", "KB/stream")
	var base *result
	for i, r := range results {
		if r.Name == "reverseproxy" {
			base = &results[i]
		}
		fmt.Printf("%-14s %9d %7d %7.2f ms %7.2f ms %7.2f ms %7.2f ms %7.2f ms %9.3f ms %8.1f µs %7d %10.1f\n",
			r.Name, r.Requests, r.Failed, r.FirstP50, r.FirstP99, r.EventP50, r.EventP95, r.EventP99, r.CPUPerRequest, r.CPUPerEvent, r.Open, r.KBPerStream)
	}
	if base == nil || base.CPUPerRequest == 0 {
		return
	}
	fmt.Printf("\nagainst reverseproxy:\n")
	for _, r := range results {
		if r.CPUPerRequest > 0 {
			more := make([]float64, len(r.Rounds))
			lower, logs := 0, 0.0
			for i := range more {
				more[i] = r.Rounds[i] - base.Rounds[i]
				logs += math.Log(r.Rounds[i] / base.Rounds[i])
				if more[i] < 0 {
					lower++
				}
			}
			fmt.Printf("%-14s CPU per request %.2fx, per event %.2fx, event p99 %+.2f ms, round by round %+.2f (quartiles %+.2f, %+.2f), %.2fx in the geometric mean, lower in %d of %d\n",
				r.Name, r.CPUPerRequest/base.CPUPerRequest, r.CPUPerEvent/base.CPUPerEvent, r.EventP99-base.EventP99,
				quantile(more, 0.5), quantile(more, 0.25), quantile(more, 0.75), math.Exp(logs/float64(len(more))), lower, len(more))
		}
	}
}
