// Customscorer shows a scoring rule of one's own, its unit test, and how it
// is put beside the default one.
//
//	go test ./examples/customscorer
//	go run ./examples/customscorer
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/expediterhq/expediter/registry"
	"github.com/expediterhq/expediter/router"
)

// spotTax makes replicas in the zone "spot" cost more the longer a request
// will hold them: they may be taken away, and then its work is lost.
type spotTax struct {
	perToken float64 // seconds of expected loss per token of prompt and output
}

// Score implements router.Scorer.
func (s spotTax) Score(cost []float64, req *router.Request, replicas []*registry.Replica) {
	for i, r := range replicas {
		if r.Zone() == "spot" {
			cost[i] += s.perToken * float64(req.Prompt+req.Output)
		}
	}
}

const about = `Usage of customscorer: customscorer
Shows what a scoring rule of one's own adds to the cost of each replica, and which is picked.
`

func main() {
	flags := flag.NewFlagSet("customscorer", flag.ExitOnError)
	flags.Usage = func() { fmt.Fprint(flags.Output(), about) }
	_ = flags.Parse(os.Args[1:]) // it exits
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "customscorer:", err)
		os.Exit(1)
	}
}

func run() error {
	pool, err := registry.NewPool(registry.PoolConfig{Name: "demo"})
	if err != nil {
		return err
	}
	for _, r := range []registry.ReplicaConfig{
		{Name: "steady", URL: "http://10.0.0.1:8000", Zone: "on-demand"},
		{Name: "cheap", URL: "http://10.0.0.2:8000", Zone: "spot"},
	} {
		if _, err := pool.Add(r); err != nil {
			return err
		}
	}
	// Scorers replaces the default rule, so that the rule goes beside it.
	rt := router.New(router.Config{Scorers: append(router.Default(), spotTax{perToken: 100e-6})})
	busy, err := rt.Pick(&router.Request{Prompt: 1500, Output: 200}, pool.Replicas()[:1])
	if err != nil {
		return err
	}
	defer busy.Lease.Release()
	fmt.Println("one prompt of 1500 tokens is under way on steady; costs in seconds of delay")
	for i := range 6 {
		trace := new(router.Trace)
		req := router.Request{Key: uint64(i), Prompt: 500 * (i + 1), Output: 200, Trace: trace}
		d, err := rt.Pick(&req, pool.Replicas())
		if err != nil {
			return err
		}
		d.Lease.Release() // the answer came, and the next prompt meets the same fleet
		fmt.Printf("prompt of %4d tokens:", req.Prompt)
		for _, v := range trace.Replicas {
			tax := v.Costs[len(v.Costs)-1]
			fmt.Printf("  %s %.3f + %.3f tax", v.Replica.Name(), v.Cost-tax, tax)
		}
		fmt.Printf("  -> %s\n", d.Replica.Name())
	}
	return nil
}
