package fleet

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// Workload describes requests to be made up: groups of users that share the
// beginning of their prompts. Its zero fields mean what they say; Rate and
// Duration must be set.
type Workload struct {
	Rate     float64       // requests per second, mean
	Duration time.Duration // of arrivals, which are a Poisson process
	Burst    float64       // the rate swings by this share around its mean, from 0 to 1
	Period   time.Duration // of the swing; if zero, 30 s

	Groups int     // that share a system prompt each; if zero, nothing is shared
	Zipf   float64 // skew of groups: the k-th gets 1/k^Zipf of the traffic; if zero, all the same
	Shared int     // tokens of the shared system prompt
	Asked  int     // different prompts of a group, each asked again and again; if zero, no prompt comes twice

	Prompt int     // tokens behind the shared part, mean; if zero, 256
	Output int     // mean; if zero, 256
	Spread float64 // of both: standard deviation of the logarithm; if zero, all the same
	Most   int     // bound of prompt and output each; if zero, 16 times the mean

	Tenants    int     // if zero, 1
	TenantZipf float64 // skew of tenants
	Adapters   int     // LoRA adapters, requests go to one each; if zero, the base model
	AdapterZip float64 // skew of adapters
}

// Validate reports what makes no sense.
func (wl Workload) Validate() error {
	var errs []error
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("fleet: workload: "+format, args...))
		}
	}
	bad(wl.Rate > 0 && wl.Rate < 1e6, "rate is %v, want more than 0", wl.Rate)
	bad(wl.Duration > 0, "duration is %v, want more than 0", wl.Duration)
	bad(wl.Burst >= 0 && wl.Burst <= 1, "burst is %v, want a share from 0 to 1", wl.Burst)
	bad(wl.Rate*wl.Duration.Seconds() <= 1e7, "%v requests, want at most 10 million", wl.Rate*wl.Duration.Seconds())
	for _, f := range []struct {
		name string
		n    int
	}{
		{"groups", wl.Groups}, {"shared", wl.Shared}, {"asked", wl.Asked}, {"prompt", wl.Prompt}, {"output", wl.Output},
		{"most", wl.Most}, {"tenants", wl.Tenants}, {"adapters", wl.Adapters},
	} {
		bad(f.n >= 0 && f.n <= maxTokens, "%s is %d, want 0 to %d", f.name, f.n, maxTokens)
	}
	for _, f := range []struct {
		name string
		x    float64
	}{{"zipf", wl.Zipf}, {"spread", wl.Spread}, {"tenant zipf", wl.TenantZipf}, {"adapter zipf", wl.AdapterZip}} {
		bad(f.x >= 0 && f.x <= 10, "%s is %v, want 0 to 10", f.name, f.x)
	}
	return errors.Join(errs...)
}

// Trace makes the requests up. The same seed gives the same trace. That of a
// Workload that is not valid is empty, and its Validate, like Run, says why.
func (wl Workload) Trace(seed uint64) *Trace {
	if err := wl.Validate(); err != nil {
		return &Trace{mistake: err}
	}
	rnd := rand.New(rand.NewPCG(seed, 0x5eed))
	t := &Trace{Block: 16}
	group, tenant, adapter := zipf(wl.Groups, wl.Zipf), zipf(max(wl.Tenants, 1), wl.TenantZipf), zipf(wl.Adapters, wl.AdapterZip)
	at := 0.0
	for {
		at += rnd.ExpFloat64() / wl.rate(at)
		if at >= wl.Duration.Seconds() {
			return t
		}
		r := Request{
			At:     time.Duration(at * 1e9),
			Tenant: fmt.Sprintf("tenant-%d", draw(tenant, rnd)),
			Prompt: wl.size(wl.Prompt, rnd),
			Output: wl.size(wl.Output, rnd),
		}
		if wl.Adapters > 0 {
			r.Adapter = fmt.Sprintf("adapter-%d", draw(adapter, rnd))
		}
		if wl.Groups > 0 {
			wl.fill(&r, uint64(draw(group, rnd)+1), rnd)
		}
		t.Requests = append(t.Requests, r)
	}
}

// fill puts the shared part of group g in front of the prompt, and one of the
// group's own prompts behind it if those are limited.
func (wl Workload) fill(r *Request, g uint64, rnd *rand.Rand) {
	r.Prompt += wl.Shared
	for i := range wl.Shared / 16 {
		r.Content = append(r.Content, g<<40+uint64(i))
	}
	if wl.Asked == 0 {
		return
	}
	q := uint64(rnd.IntN(wl.Asked) + 1)
	for i := len(r.Content); i < (r.Prompt+15)/16; i++ {
		r.Content = append(r.Content, g<<40+q<<20+uint64(i))
	}
}

// rate is the requests per second at a moment.
func (wl Workload) rate(at float64) float64 {
	period := wl.Period.Seconds()
	if period == 0 {
		period = 30
	}
	return max(wl.Rate*(1+wl.Burst*math.Sin(2*math.Pi*at/period)), wl.Rate/100)
}

// size draws a length of the given mean.
func (wl Workload) size(mean int, rnd *rand.Rand) int {
	if mean == 0 {
		mean = 256
	}
	most := wl.Most
	if most == 0 {
		most = 16 * mean
	}
	n := float64(mean)
	if s := wl.Spread; s > 0 {
		n *= math.Exp(s*rnd.NormFloat64() - s*s/2)
	}
	return min(max(int(math.Round(n)), 1), most)
}

// zipf returns the cumulative shares of n ranks.
func zipf(n int, skew float64) []float64 {
	shares := make([]float64, n)
	sum := 0.0
	for i := range shares {
		sum += math.Pow(float64(i+1), -skew)
		shares[i] = sum
	}
	for i := range shares {
		shares[i] /= sum
	}
	return shares
}

// draw returns a rank.
func draw(shares []float64, rnd *rand.Rand) int {
	x := rnd.Float64()
	for i, s := range shares {
		if x < s {
			return i
		}
	}
	return len(shares) - 1
}
