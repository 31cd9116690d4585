package router

import (
	"time"

	"github.com/expediterhq/expediter/registry"
)

// Trace explains one Pick.
type Trace struct {
	Replicas []Verdict // in the order the replicas were given
}

// Verdict says how one replica fared in a Pick.
type Verdict struct {
	Replica *registry.Replica
	Outcome Outcome
	Load    registry.Load // as the scorers saw it
	Cached  int           // prompt tokens it was believed to hold
	Cost    float64       // sum of Costs
	Costs   []float64     // by scorer, in seconds; nil if it was not scored
}

// Outcome is what became of a replica in a Pick.
type Outcome string

// The outcomes.
const (
	Chosen    Outcome = "chosen"
	Dearer    Outcome = "dearer"     // another cost less
	NoRoom    Outcome = "no room"    // its lease was refused
	RuledOut  Outcome = "ruled out"  // a scorer said Never
	Tried     Outcome = "tried"      // it is in Request.Tried
	Stale     Outcome = "stale"      // its reports stopped, and others had room
	Unhealthy Outcome = "unroutable" // ejected, draining or asleep
)

func (t *Trace) begin(req *Request, replicas []*registry.Replica, now time.Time) {
	t.Replicas = make([]Verdict, len(replicas))
	for i, r := range replicas {
		t.Replicas[i] = Verdict{Replica: r, Outcome: Stale, Cached: req.CachedOn(r)}
		for _, tried := range req.Tried {
			if tried == r {
				t.Replicas[i].Outcome = Tried
			}
		}
		if !r.Routable(now) {
			t.Replicas[i].Outcome = Unhealthy
		}
	}
}

func (t *Trace) verdict(r *registry.Replica) *Verdict {
	for i := range t.Replicas {
		if t.Replicas[i].Replica == r {
			return &t.Replicas[i]
		}
	}
	return new(Verdict) // became routable since begin
}

func (t *Trace) chosen(r *registry.Replica)  { t.verdict(r).Outcome = Chosen }
func (t *Trace) refused(r *registry.Replica) { t.verdict(r).Outcome = NoRoom }

// score runs the scorers one by one, so that each one's part is seen.
func (t *Trace) score(cost []float64, scorers []Scorer, req *Request, replicas []*registry.Replica) {
	part := make([]float64, len(cost))
	for i, r := range replicas {
		v := t.verdict(r)
		v.Load = *req.Load(i, r)
		v.Outcome = Dearer
		v.Costs = make([]float64, 0, len(scorers))
	}
	for _, s := range scorers {
		clear(part)
		s.Score(part, req, replicas)
		for i, r := range replicas {
			cost[i] += part[i]
			v := t.verdict(r)
			v.Costs = append(v.Costs, part[i])
			if v.Cost = cost[i]; !(cost[i] < Never) {
				v.Outcome = RuledOut
			}
		}
	}
}
