package fleet

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Trace is a stream of requests. It is not changed by a run, so several may
// use it.
type Trace struct {
	Requests []Request // those with After == 0 by time
	Block    int       // tokens that one entry of Request.Content stands for; if zero, 16

	mistake error // of the Workload it was made of
}

// Request is one request of a Trace.
type Request struct {
	At        time.Duration
	After     int // 1 + the place of an earlier request for whose end, plus At, it waits; if zero, it comes at At
	Tenant    string
	Adapter   string // LoRA adapter; empty is the base model
	Prompt    int    // tokens
	Output    int    // tokens the model will generate
	MaxTokens int    // the limit the client asked for, which quota reserves; if zero, Output

	// Content names what the prompt says, Block tokens per entry from its
	// start: prompts whose first entries are equal begin with the same tokens.
	// What the entries do not cover is like no other prompt.
	Content []uint64
}

// maxTokens bounds one request; beyond it a row is taken for a mistake.
const maxTokens = 1 << 24

// Validate reports the first requests that make no sense, or why the Workload
// that the trace was made of makes none.
func (t *Trace) Validate() error {
	if t.mistake != nil {
		return t.mistake
	}
	var errs []error
	if t.Block < 0 {
		errs = append(errs, fmt.Errorf("fleet: trace: block is %d, want 0 or more", t.Block))
	}
	last := time.Duration(0)
	for i, r := range t.Requests {
		switch {
		case r.Prompt < 1 || r.Prompt > maxTokens:
			errs = append(errs, fmt.Errorf("fleet: trace: request %d: prompt is %d tokens, want 1 to %d", i, r.Prompt, maxTokens))
		case r.Output < 1 || r.Output > maxTokens:
			errs = append(errs, fmt.Errorf("fleet: trace: request %d: output is %d tokens, want 1 to %d", i, r.Output, maxTokens))
		case r.MaxTokens != 0 && r.MaxTokens < r.Output:
			errs = append(errs, fmt.Errorf("fleet: trace: request %d: max tokens is %d, less than the output of %d", i, r.MaxTokens, r.Output))
		case r.After < 0 || r.After > i:
			errs = append(errs, fmt.Errorf("fleet: trace: request %d: it waits for request %d, which is not before it", i, r.After-1))
		case r.At < 0 || r.After == 0 && r.At < last:
			errs = append(errs, fmt.Errorf("fleet: trace: request %d: time %v is negative or before the one ahead", i, r.At))
		}
		if r.After == 0 {
			last = r.At
		}
		if len(errs) == 10 {
			break
		}
	}
	return errors.Join(errs...)
}

// Speed returns the trace with arrivals so many times as fast. What waits for
// another request's end keeps its pause.
func (t *Trace) Speed(times float64) *Trace {
	out := t.clone()
	for i := range out.Requests {
		if r := &out.Requests[i]; r.After == 0 {
			r.At = time.Duration(float64(r.At) / times)
		}
	}
	return out
}

// clone returns a copy whose requests can be moved.
func (t *Trace) clone() *Trace {
	return &Trace{Block: t.Block, Requests: slices.Clone(t.Requests), mistake: t.mistake}
}

// Duration is the time of the last request that does not wait for another.
func (t *Trace) Duration() time.Duration {
	last := time.Duration(0)
	for i := range t.Requests {
		if r := &t.Requests[i]; r.After == 0 {
			last = max(last, r.At)
		}
	}
	return last
}

// Sort puts the requests in order of time, each one that waits for another
// behind that one, and keeps the order of equal times.
func (t *Trace) Sort() {
	rs := t.Requests
	order := make([]int, len(rs))
	begin := make([]time.Duration, len(rs)) // when the first of each one's chain comes
	for i := range rs {
		order[i], begin[i] = i, rs[i].At
		if a := rs[i].After; a > 0 {
			begin[i] = begin[a-1]
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(begin[a], begin[b]) })
	place := make([]int, len(rs))
	sorted := make([]Request, len(rs))
	for to, from := range order {
		place[from] = to
		sorted[to] = rs[from]
	}
	for i := range sorted {
		if a := sorted[i].After; a > 0 {
			sorted[i].After = place[a-1] + 1
		}
	}
	t.Requests = sorted
}

// Jitter returns the trace with every arrival put off at random by up to by.
// The same seed gives the same trace.
func (t *Trace) Jitter(by time.Duration, seed uint64) *Trace {
	rnd := rand.New(rand.NewPCG(seed, 0x71773))
	out := t.clone()
	for i := range out.Requests {
		if r := &out.Requests[i]; r.After == 0 {
			r.At += time.Duration(rnd.Float64() * float64(by))
		}
	}
	out.Sort()
	return out
}

// mix is the finalizer of splitmix64.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

func hashString(h uint64, s string) uint64 {
	h = mix(h + uint64(len(s)) + 0x9e3779b97f4a7c15)
	for i := range len(s) {
		h = mix(h ^ uint64(s[i]))
	}
	return h
}

// appendBlocks appends the names of the request's full KV blocks of size
// tokens: each depends on all before it and on the adapter. A KV block that
// Content does not cover whole is private to the request, which is number n.
func (t *Trace) appendBlocks(dst []uint64, n, size int) []uint64 {
	r := &t.Requests[n]
	per := cmp.Or(t.Block, 16)
	h := hashString(1, r.Adapter)
	for i := range r.Prompt / size {
		first, last := i*size/per, ((i+1)*size-1)/per
		if last < len(r.Content) {
			for c := first; c <= last; c++ {
				h = mix(h ^ r.Content[c])
			}
			h = mix(h + uint64(i) + 1)
		} else {
			h = mix(h ^ mix(uint64(n)<<32+uint64(i)+0x51ed270b))
		}
		dst = append(dst, h)
	}
	return dst
}
