package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/expediterhq/expediter/registry"
	"github.com/expediterhq/expediter/router"
	"github.com/expediterhq/expediter/sim/fleet"
	"github.com/expediterhq/expediter/sim/trace"
)

// lab is one comparison: what is replayed, and by which rules.
type lab struct {
	o        options
	file     *trace.Result // nil for a workload
	workload fleet.Workload
}

// cell is one run.
type cell struct {
	policy string
	speed  float64
	seed   int
	report *fleet.Report
	took   time.Duration
}

// result is a finished comparison.
type result struct {
	Title     string
	Took      time.Duration
	lab       *lab
	cells     []*cell
	bad, long int // requests of the file that were left out
}

func newLab(o options) (*lab, error) {
	l := &lab{o: o}
	var err error
	if o.workload != "" {
		l.workload, err = parseWorkload(o.workload)
		return l, err
	}
	if o.maxPrompt == 0 {
		o.maxPrompt = math.MaxInt
		for _, r := range o.fleet {
			o.maxPrompt = min(o.maxPrompt, r.Profile.KVTokens/2)
		}
	}
	l.file, err = trace.Open(o.trace, trace.Options{Lenient: o.lenient, MaxPrompt: o.maxPrompt, Rows: o.rows, Rate: o.rate})
	if err != nil {
		return nil, err
	}
	if len(l.file.Requests) == 0 {
		return nil, fmt.Errorf("%s: no request is left: %d bad, %d too long", o.trace, l.file.Bad, l.file.Long)
	}
	return l, nil
}

func (l *lab) describe() string {
	s := fmt.Sprintf("%s on %s", filepath.Base(l.o.trace), l.o.fleetName)
	if l.file == nil {
		return fmt.Sprintf("workload %s on %s", l.o.workload, l.o.fleetName)
	}
	s += fmt.Sprintf(": %d requests in %v, format %s", len(l.file.Requests), l.file.Duration().Round(time.Second), l.file.Format)
	if l.file.Long > 0 {
		s += fmt.Sprintf(", %d left out for their length", l.file.Long)
	}
	if l.file.Bad > 0 {
		s += fmt.Sprintf(", %d bad rows left out (first: %v)", l.file.Bad, l.file.Example)
	}
	return s
}

// trace is what is replayed at a speed, as a seed has it.
func (l *lab) trace(speed float64, seed int) *fleet.Trace {
	if l.file == nil {
		wl := l.workload
		wl.Rate *= speed
		wl.Duration = time.Duration(float64(wl.Duration) / speed)
		wl.Period = time.Duration(float64(wl.Period) / speed)
		return wl.Trace(uint64(seed) + 1)
	}
	t := l.file.Speed(speed)
	if seed == 0 {
		return t
	}
	return t.Jitter(t.Duration()/time.Duration(len(t.Requests)), uint64(seed))
}

func (l *lab) config(policy string, seed int) fleet.Config {
	o := l.o
	rs := slices.Clone(o.fleet)
	for i := range rs {
		rs[i].Engine.MaxLoRAs = o.maxLoRAs
	}
	c := fleet.Config{
		Replicas: rs, Gateways: o.gateways, Direct: o.direct, Scrape: o.scrape, MetricAge: o.age, Delay: o.delay,
		Pool: registry.PoolConfig{Headroom: o.headroom, MaxLoRA: o.maxLoRAs}, MaxWait: o.maxWait, SLO: o.slo, Seed: uint64(seed),
		FirstToken: 24 * time.Hour, // rules are compared, not time-outs
		Router: func(seed uint64) *router.Router {
			rt, err := router.ByName(policy, seed)
			if err != nil {
				panic(err) // names were checked with the flags
			}
			return rt
		},
	}
	if c.Pool.Headroom == 0 {
		c.Pool.Headroom = -1
	}
	if c.MaxWait == 0 {
		c.MaxWait = time.Hour
	}
	c.Line.MaxWaiting, c.Line.MaxWaitingTokens = math.MaxInt32, math.MaxInt/2
	return c
}

// run plays all cells, several at a time, and tells how far it is.
func (l *lab) run(ctx context.Context, progress io.Writer) (*result, error) {
	start := time.Now()
	var cells []*cell
	for _, speed := range l.o.speeds {
		for seed := range l.o.seeds {
			for _, policy := range l.o.policies {
				cells = append(cells, &cell{policy: policy, speed: speed, seed: seed})
			}
		}
	}
	var (
		mu    sync.Mutex
		wg    sync.WaitGroup
		done  int
		first error
	)
	next := make(chan *cell)
	for range min(l.o.parallel, len(cells)) {
		wg.Go(func() {
			for c := range next {
				err := l.play(c)
				mu.Lock()
				done++
				if err != nil && first == nil {
					first = fmt.Errorf("%s at speed %v: %w", c.policy, c.speed, err)
				}
				left := time.Since(start) / time.Duration(done) * time.Duration(len(cells)-done)
				fmt.Fprintf(progress, "%3d/%d  %-12s speed %-5v seed %d  %v, about %v left\n",
					done, len(cells), c.policy, c.speed, c.seed, c.took.Round(time.Millisecond), left.Round(time.Second))
				mu.Unlock()
			}
		})
	}
	for _, c := range cells {
		if ctx.Err() != nil {
			break
		}
		next <- c
	}
	close(next)
	wg.Wait()
	if first == nil {
		first = ctx.Err()
	}
	res := &result{Title: l.describe(), lab: l, cells: cells, Took: time.Since(start)}
	if l.file != nil {
		res.bad, res.long = l.file.Bad, l.file.Long
	}
	return res, first
}

func (l *lab) play(c *cell) error {
	start := time.Now()
	r, err := fleet.Run(l.config(c.policy, c.seed), l.trace(c.speed, c.seed))
	c.report, c.took = r, time.Since(start)
	return err
}
