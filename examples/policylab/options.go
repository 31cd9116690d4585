package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/expediterhq/expediter/router"
	"github.com/expediterhq/expediter/sim"
	"github.com/expediterhq/expediter/sim/fleet"
)

// presets are workloads known by name.
var presets = map[string]fleet.Workload{
	// llm-d's benchmark 73-capacity: 150 customers with 6,000 tokens each, 5
	// prompts of 1,200 tokens per customer, asked again and again.
	"b2b": {Rate: 1, Duration: 1800 * time.Second, Groups: 150, Shared: 6000, Asked: 5, Prompt: 1200, Output: 1000},
	// 200 tenants with a system prompt each.
	"tenants": {Rate: 1, Duration: 6000 * time.Second, Groups: 200, Zipf: 1, Shared: 1536, Prompt: 224, Output: 306, Spread: 0.5},
	// Short bursts, nothing shared.
	"bursts": {Rate: 1, Duration: 3000 * time.Second, Burst: 0.9, Period: 20 * time.Second, Prompt: 2000, Output: 30, Spread: 0.8},
	// 60 adapters, unequally asked for.
	"lora": {Rate: 1, Duration: 3000 * time.Second, Adapters: 60, AdapterZip: 1, Prompt: 500, Output: 200, Spread: 0.5},
}

// options are the flags.
type options struct {
	trace, workload string
	fleet           []fleet.Replica
	fleetName       string
	speeds          []float64
	policies        []string
	seeds           int
	rows, maxPrompt int
	rate            float64
	lenient         bool
	direct          bool
	gateways        int
	scrape          time.Duration
	age, delay      time.Duration
	headroom        float64
	maxWait         time.Duration
	maxLoRAs        int
	slo             fleet.SLO
	json            bool
	html            string
	parallel        int
}

// errUsage says that the flags are wrong, and that this is printed already.
var errUsage = errors.New("wrong usage")

const about = `Usage of policylab: policylab (-trace FILE | -workload SPEC) [flags]
Compares routing rules on a trace, in simulation, and prints a line of figures per rule.
`

// parse reads the flags; help goes to usage.
func parse(args []string, usage io.Writer) (options, error) {
	var o options
	var speeds, policies string
	fs := flag.NewFlagSet("policylab", flag.ContinueOnError)
	fs.SetOutput(usage)
	fs.Usage = func() {
		fmt.Fprint(usage, about)
		fs.PrintDefaults()
	}
	fs.StringVar(&o.trace, "trace", "", "file of requests, may be gzip-compressed; see package sim/trace for the formats")
	fs.StringVar(&o.workload, "workload", "", "instead of a trace: "+names(presets)+"; or name=value pairs such as groups=50,shared=1024,rate=10,duration=60s, of "+settings())
	fs.StringVar(&o.fleetName, "fleet", "16x8b-a100", "replicas as NxPROFILE[*SLOW], separated by commas; a profile is a .json file or one of "+strings.Join(sim.ProfileNames(), ", "))
	fs.StringVar(&speeds, "speed", "1", "how much faster than recorded requests arrive; several, separated by commas, give a load curve")
	fs.StringVar(&policies, "policies", strings.Join(router.Names(), ","), "rules to compare")
	fs.IntVar(&o.seeds, "seeds", 1, "runs per rule and speed")
	fs.IntVar(&o.rows, "rows", 0, "rows of the trace to use (default: all)")
	fs.IntVar(&o.maxPrompt, "max-prompt", 0, "leave out longer prompts, in tokens (default: half of the smallest KV cache)")
	fs.Float64Var(&o.rate, "rate", 1, "arrivals per second, for traces without times")
	fs.BoolVar(&o.lenient, "lenient", false, "leave bad rows out and count them")
	fs.BoolVar(&o.direct, "direct", false, "send every request at once: no line, no leases refused, as behind a plain load balancer")
	fs.IntVar(&o.gateways, "gateways", 1, "gateways that do not know of each other")
	fs.DurationVar(&o.scrape, "scrape", 500*time.Millisecond, "time between two looks at a replica's metrics")
	fs.DurationVar(&o.age, "age", 0, "how old metrics are when they arrive")
	fs.DurationVar(&o.delay, "delay", 0, "network delay, one way")
	fs.Float64Var(&o.headroom, "headroom", 0.15, "share of each KV cache that stays free")
	fs.DurationVar(&o.maxWait, "max-wait", 0, "longest wait in line before a request is turned away (default: an hour)")
	fs.IntVar(&o.maxLoRAs, "max-loras", 8, "adapter slots per replica")
	fs.DurationVar(&o.slo.TTFT, "ttft", 2*time.Second, "objective for the time to first token")
	fs.DurationVar(&o.slo.TPOT, "tpot", 100*time.Millisecond, "objective for the time per output token")
	fs.BoolVar(&o.json, "json", false, "print JSON")
	fs.StringVar(&o.html, "html", "", "write a page with plots to this file")
	fs.IntVar(&o.parallel, "parallel", runtime.GOMAXPROCS(0), "runs at a time")
	if err := fs.Parse(args); errors.Is(err, flag.ErrHelp) {
		return o, err
	} else if err != nil {
		return o, errUsage
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	return o, errors.Join(o.lists(speeds, policies), o.check())
}

// lists reads the flags that hold several values.
func (o *options) lists(speeds, policies string) (err error) {
	var errs []error
	for s := range strings.SplitSeq(speeds, ",") {
		x, err := strconv.ParseFloat(s, 64)
		if err != nil || !(x > 0 && x < 1e6) {
			errs = append(errs, fmt.Errorf("-speed has %q, want a number above 0", s))
			continue
		}
		o.speeds = append(o.speeds, x)
	}
	for name := range strings.SplitSeq(policies, ",") {
		if _, err := router.ByName(name, 0); err != nil {
			errs = append(errs, fmt.Errorf("-policies: %w", err))
		}
		o.policies = append(o.policies, name)
	}
	o.fleet, err = parseFleet(o.fleetName)
	return errors.Join(append(errs, err)...)
}

func (o *options) check() error {
	var errs []error
	if (o.trace == "") == (o.workload == "") {
		errs = append(errs, errors.New("want either -trace or -workload"))
	}
	if o.seeds < 1 || o.parallel < 1 || o.gateways < 1 || o.maxLoRAs < 1 {
		errs = append(errs, errors.New("-seeds, -parallel, -gateways and -max-loras must be 1 or more"))
	}
	if o.scrape <= 0 || o.age < 0 || o.delay < 0 || o.maxWait < 0 {
		errs = append(errs, errors.New("-scrape must be above 0, -age, -delay and -max-wait not below"))
	}
	if !(o.headroom >= 0 && o.headroom < 1) {
		errs = append(errs, fmt.Errorf("-headroom is %v, want a share below 1", o.headroom))
	}
	if o.html != "" {
		if err := checkPage(o.html); err != nil {
			errs = append(errs, fmt.Errorf("-html: %w", err))
		}
	}
	return errors.Join(errs...)
}

// parseFleet reads 16x8b-a100,2x8b-a100*3.
func parseFleet(s string) ([]fleet.Replica, error) {
	var rs []fleet.Replica
	for part := range strings.SplitSeq(s, ",") {
		spec, slow, hasSlow := strings.Cut(part, "*")
		count, name, ok := strings.Cut(spec, "x")
		n, err := strconv.Atoi(count)
		if !ok || err != nil || n < 1 || n > 10_000 {
			return nil, fmt.Errorf("-fleet has %q, want something like 16x8b-a100", part)
		}
		p, err := sim.FindProfile(name)
		if err != nil {
			return nil, fmt.Errorf("-fleet has %q: %w", part, err)
		}
		group := fleet.Uniform(n, p)
		if hasSlow {
			x, err := strconv.ParseFloat(slow, 64)
			if err != nil || !(x > 0) {
				return nil, fmt.Errorf("-fleet has %q, want a factor behind the star", part)
			}
			for i := range group {
				group[i].Slow = x
			}
		}
		rs = append(rs, group...)
	}
	return rs, nil
}

// workloadFields are the settings of a workload by name.
func workloadFields(wl *fleet.Workload) map[string]any {
	return map[string]any{
		"groups": &wl.Groups, "shared": &wl.Shared, "asked": &wl.Asked, "prompt": &wl.Prompt, "output": &wl.Output,
		"most": &wl.Most, "tenants": &wl.Tenants, "adapters": &wl.Adapters,
		"rate": &wl.Rate, "burst": &wl.Burst, "zipf": &wl.Zipf, "spread": &wl.Spread,
		"tenantzipf": &wl.TenantZipf, "adapterzipf": &wl.AdapterZip,
		"duration": &wl.Duration, "period": &wl.Period,
	}
}

func settings() string { return names(workloadFields(new(fleet.Workload))) }

// names returns the keys of m, sorted.
func names[V any](m map[string]V) string {
	return strings.Join(slices.Sorted(maps.Keys(m)), ", ")
}

// parseWorkload reads a preset's name, or name=value pairs.
func parseWorkload(s string) (fleet.Workload, error) {
	if wl, ok := presets[s]; ok {
		return wl, nil
	}
	var wl fleet.Workload
	fields := workloadFields(&wl)
	for pair := range strings.SplitSeq(s, ",") {
		k, v, _ := strings.Cut(pair, "=")
		var err error
		switch field := fields[k].(type) {
		case *int:
			*field, err = strconv.Atoi(v)
		case *float64:
			*field, err = strconv.ParseFloat(v, 64)
		case *time.Duration:
			*field, err = time.ParseDuration(v)
		default:
			err = fmt.Errorf("no such setting or preset; presets are %s, settings %s", names(presets), settings())
		}
		if err != nil {
			return wl, fmt.Errorf("-workload has %q: %w", pair, err)
		}
	}
	return wl, wl.Validate()
}
