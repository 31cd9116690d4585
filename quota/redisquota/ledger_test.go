package redisquota_test

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/expediterhq/expediter/quota"
)

// processTenant is a tenant of the test with several processes.
type processTenant struct {
	id    string
	limit quota.Limit
	exact bool // all of every cost is used
}

const processLease = 5 * time.Second

func budget(burst int64, slots int) quota.Limit {
	return quota.Limit{Concurrency: slots, Windows: []quota.Window{{Name: "w", Burst: burst}}}
}

func perSecond(rate float64, burst int64) quota.Limit {
	return quota.Limit{Windows: []quota.Window{{Name: "w", Burst: 1 << 40}, {Name: "second", Rate: rate, Burst: burst}}}
}

// Two with slots that are short, two with a budget that runs out, two with a rate
// that is short.
var tenants = []processTenant{
	{"slots {1}", budget(1<<40, 5), false},
	{"slots {2}", budget(1<<40, 30), false},
	{"budget {1}", budget(20_000, 0), false},
	{"budget {2}", budget(50_000, 0), false},
	{"rate 1", perSecond(200_000, 20_000), true},
	{"rate 2", perSecond(5_000, 20_000), true},
}

// ledgerEntry is what the processes know of one reservation.
type ledgerEntry struct {
	tenant         string
	cost           int64
	t0, t1         int64 // Reserve began and ended
	settle         int64 // Settle began, or 0
	used           int64
	settled        bool
	noted, mayNote int64 // used as the last Renew said: accepted, tried
}

// ledger is the truth to compare the store with.
type ledger struct {
	mu      sync.Mutex
	entries map[string]*ledgerEntry
	ops     int
	wrong   []string
	ended   int
	renewed int64
}

func (l *ledger) read(r io.Reader) {
	sc := bufio.NewScanner(r)
	for sc.Scan() {
		l.line(sc.Text())
	}
}

func (l *ledger) line(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	kind, rest, _ := strings.Cut(text, " ")
	var id string
	var a, b, c int64
	switch kind {
	case "G":
		// The tenant has a space in its name.
		var t1, t2 string
		fmt.Sscan(rest, &id, &t1, &t2, &a, &b, &c)
		l.entries[id] = &ledgerEntry{tenant: t1 + " " + t2, cost: a, t0: b, t1: c}
	case "N":
		fmt.Sscan(rest, &a)
		l.ops += int(a)
	case "E":
		l.ended++
	case "R":
		fmt.Sscan(rest, &l.renewed)
	case "X":
		l.wrong = append(l.wrong, rest)
	case "U", "u", "s", "S", "A":
		fmt.Sscan(rest, &id, &a, &b)
		e := l.entries[id]
		switch kind {
		case "U":
			e.mayNote = max(e.mayNote, a)
		case "u":
			e.noted = max(e.noted, a)
		case "s":
			e.used, e.settle = a, b
		case "A":
			e.settle = a
		case "S":
			e.settled = true
		}
	default:
		l.wrong = append(l.wrong, text)
	}
}

func (l *ledger) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ops
}

// of returns the tenant's entries in the order their Reserve ended.
func (l *ledger) of(tenant string) []*ledgerEntry {
	var es []*ledgerEntry
	for _, e := range l.entries {
		if e.tenant == tenant {
			es = append(es, e)
		}
	}
	slices.SortFunc(es, func(a, b *ledgerEntry) int { return cmp.Compare(a.t1, b.t1) })
	return es
}

// charge returns the least and the most that the store may have charged: the two
// differ by what a killed process had asked for and not heard about.
func charge(es []*ledgerEntry) (least, most int64) {
	for _, e := range es {
		switch {
		case e.settled:
			least, most = least+e.used, most+e.used
		case e.settle > 0:
			least, most = least+min(e.noted, e.used), most+max(e.mayNote, e.used)
		default:
			least, most = least+e.noted, most+e.mayNote
		}
	}
	return least, most
}

// overlap returns the most reservations that were surely held at once.
func overlap(es []*ledgerEntry) int {
	type edge struct {
		at    int64
		delta int
	}
	var edges []edge
	for _, e := range es {
		end := e.t0 + int64(processLease)
		if e.settle > 0 {
			end = min(end, e.settle)
		}
		if end > e.t1 {
			edges = append(edges, edge{e.t1, 1}, edge{end, -1})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.delta, b.delta)) })
	n, most := 0, 0
	for _, e := range edges {
		n += e.delta
		most = max(most, n)
	}
	return most
}

// checkRate fails if more was granted than the window allows, counting only what
// was used in full: between any two moments, or, where reservations were given
// back, which may be used later, from the start to any moment.
func checkRate(t *testing.T, tenant string, es []*ledgerEntry, w quota.Window, givenBack bool) {
	t.Helper()
	es = slices.DeleteFunc(slices.Clone(es), func(e *ledgerEntry) bool { return !e.settled })
	worst := 0.0
	for i := range es {
		if i > 0 && givenBack {
			break
		}
		var sum int64
		first := es[i].t0
		if givenBack {
			for _, e := range es {
				first = min(first, e.t0)
			}
		}
		for _, e := range es[i:] {
			sum += e.cost
			first = min(first, e.t0)
			allowed := float64(w.Burst) + w.Rate*float64(e.t1-first)/1e9
			worst = max(worst, float64(sum)/allowed)
			if float64(sum) > allowed+1 {
				t.Errorf("%s: %d tokens granted within %v, allowed %.0f", tenant, sum, time.Duration(e.t1-first), allowed)
				return
			}
		}
	}
	t.Logf("%s: %d grants, at most %.1f %% of what a span allows", tenant, len(es), 100*worst)
}
