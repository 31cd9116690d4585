package fleet

import (
	"strconv"

	"github.com/expediterhq/expediter/admission"
	"github.com/expediterhq/expediter/quota"
	"github.com/expediterhq/expediter/registry"
	"github.com/expediterhq/expediter/sim"
)

// job is one request under way. Jobs are used again; attempt grows with every
// dispatch, failure and use, so that late events of an earlier one are void.
type job struct {
	n       int // its place in the trace
	req     *Request
	tenant  *tenant
	gateway *gateway
	blocks  []uint64 // names of the prompt's full KV blocks
	expect  int      // output tokens
	held    *quota.Reservation

	state     jobState
	attempt   int32
	tries     int
	tried     []*registry.Replica
	item      *admission.Item
	replica   *registry.Replica
	lease     registry.Lease
	overlap   []int   // prompt tokens each slot was believed to hold, as of overlapAt
	overlapAt int     // gateway.changes
	guess     int     // prompt tokens the prefix map expected to be cached
	flight    *flight // its attempt, from arrival at the replica

	arrived   int64 // at the gateway
	sentAt    int64 // by the gateway, the latest attempt
	first     int64 // first token at the gateway; 0 = none
	cached    int   // prompt tokens the engine found cached
	generated int   // tokens received
}

type jobState uint8

const (
	unused jobState = iota
	inLine
	sent
)

// flight is one attempt of a job as its replica sees it. The engine may hold
// it for longer than the job lives.
type flight struct {
	job     *job
	attempt int32 // of the job; another one means that the client has left
	n       int   // the job's place in the trace
	claimed int   // output tokens the lease covers
	blocks  []uint64
	seq     sim.Sequence
}

// live reports whether somebody still waits for the answer.
func (f *flight) live() bool { return f.job.attempt == f.attempt }

// job returns a job for request n of the trace.
func (w *world) job(n int) *job {
	j := &job{}
	if k := len(w.spareJobs); k > 0 {
		j = w.spareJobs[k-1]
		w.spareJobs = w.spareJobs[:k-1]
	}
	r := &w.trace.Requests[n]
	*j = job{
		n: n, req: r, tenant: w.tenant(r.Tenant), attempt: j.attempt + 1, arrived: w.now,
		blocks: w.trace.appendBlocks(j.blocks[:0], n, w.size), tried: j.tried[:0], overlap: j.overlap[:0], overlapAt: -1,
	}
	return j
}

// finish lets the requests come that waited for a job's end, and puts it aside
// for another use.
func (w *world) finish(j *job) {
	j.attempt++
	j.state = unused
	w.left--
	for _, i := range w.after[j.n] {
		w.cal.push(event{at: w.now + int64(w.trace.Requests[i].At), kind: arriveDue, who: int32(i)})
	}
	w.spareJobs = append(w.spareJobs, j)
}

// flight returns the present attempt of a job.
func (w *world) flight(j *job) *flight {
	f := &flight{}
	if k := len(w.spareFlights); k > 0 {
		f = w.spareFlights[k-1]
		w.spareFlights = w.spareFlights[:k-1]
	}
	f.job, f.attempt, f.n, f.claimed = j, j.attempt, j.n, j.expect
	f.blocks = append(f.blocks[:0], j.blocks...)
	f.seq.Prompt, f.seq.Output, f.seq.Blocks = j.req.Prompt, j.req.Output, f.blocks
	f.seq.Adapter, f.seq.Stop, f.seq.Value = j.req.Adapter, j.req.MaxTokens > j.req.Output, f
	j.flight = f
	return f
}

// limit is the most output the client asked for, or the engine could make, which
// is what a gateway knows beforehand.
func (j *job) limit(w *world) int {
	if j.req.MaxTokens > 0 {
		return j.req.MaxTokens
	}
	return max(w.longest-j.req.Prompt, 1)
}

func (j *job) reservation(w *world) quota.Reservation {
	return quota.Reservation{
		ID: strconv.Itoa(j.n), Tenant: j.req.Tenant, Limit: j.tenant.Limit,
		Cost: int64(j.req.Prompt + max(j.req.MaxTokens, j.req.Output)), Lease: maxLease,
	}
}
