// Soak sends requests to a whole gateway for a while, in open loop, while its
// replicas die, hang, reset connections and break streams off, and its
// clients are slow, stop reading and leave. Everything runs in this process,
// over loopback sockets, with a fault proxy before each replica. At the end
// it compares what clients saw, what the gateway recorded and what replicas
// really did:
//
//	go run ./soak -for 60s -rate 200
//
// It exits with status 1 if a figure whose target is zero is not zero.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"
)

func main() {
	var p plan
	flag.DurationVar(&p.length, "for", 60*time.Second, "length of the load")
	flag.Float64Var(&p.rate, "rate", 200, "requests per second")
	flag.IntVar(&p.replicas, "replicas", 6, "replicas")
	flag.DurationVar(&p.pause, "pause", 2*time.Second, "mean pause between two faults of whole replicas")
	flag.Uint64Var(&p.seed, "seed", uint64(time.Now().UnixNano()), "of the random choices")
	flag.BoolVar(&p.verbose, "v", false, "print each mistake")
	flag.Parse()
	s, err := run(p)
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
	if s.print(os.Stdout) > 0 {
		os.Exit(1)
	}
}

// plan is one run.
type plan struct {
	length   time.Duration
	rate     float64
	replicas int
	pause    time.Duration
	seed     uint64
	verbose  bool
}

// run builds the fleet and the gateway, loads them, and takes the figures.
func run(p plan) (*score, error) {
	f, err := newFleet(p)
	if err != nil {
		return nil, err
	}
	defer f.close()
	g, err := newGateway(f)
	if err != nil {
		return nil, err
	}
	defer g.close()
	load := newLoad(p, g)
	load.warmUp()
	s := newScore(p)
	stop := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.torment(stop)
	}()
	load.send()
	close(stop)
	<-ended
	load.wait()
	g.rest()
	s.take(f, g, load)
	return s, nil
}
