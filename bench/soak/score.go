package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"sort"
	"time"

	"github.com/expediterhq/expediter"
	"github.com/expediterhq/expediter/internal/faultbench"
	"github.com/expediterhq/expediter/internal/rawio"
	"github.com/expediterhq/expediter/registry"
)

// score is the board.
type score struct {
	plan     plan
	requests int
	accepted int
	byStatus map[expediter.Status]int
	faults   map[string]int
	total    int // faults

	lostToOne     int // failed without a token although one replica at most failed them
	lostToken     int // failed without a token at all
	duplicates    int
	falseSuccess  int
	foreign       int // answers with bytes of another request
	tokens        int // absolute difference between ledgers, records and quota
	recordsWrong  int // requests without exactly one record
	leaked        int
	amplification float64
	cancel        map[string][]time.Duration
	delays        []time.Duration
	late          time.Duration

	goroutines, files int // before; then the drift
	heap              int64
}

func newScore(p plan) *score {
	s := &score{plan: p, byStatus: make(map[expediter.Status]int), cancel: make(map[string][]time.Duration)}
	rawio.Yield() // takes the descriptors that it keeps for as long as the process lives
	s.goroutines, s.files, s.heap = runtime.NumGoroutine(), openFiles(), heap()
	return s
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func openFiles() int {
	d, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(d)
}

// mistake reports one in words, if that was asked for.
func (s *score) mistake(what string, args ...any) {
	if s.plan.verbose {
		fmt.Fprintln(os.Stderr, append([]any{what + ":"}, args...)...)
	}
}

// take compares everybody's accounts.
func (s *score) take(f *fleet, g *gateway, l *load) {
	s.faults, s.late, s.requests = f.faults, l.late, len(l.outcomes)
	for _, n := range s.faults {
		s.total += n
	}
	ledger := f.ledger.ByID()
	ids := make(map[string]string) // by nonce, for clients that left before they heard of their id
	for id, got := range ledger {
		ids[got[0].Nonce] = id
	}
	for i := range l.outcomes {
		if o := &l.outcomes[i]; o.id == "" {
			o.id = ids[o.own]
		}
	}
	for i := range l.outcomes {
		s.outcome(f, g, &l.outcomes[i], ledger)
	}
	s.accounts(g, ledger)
	s.leaks(f, g)
	slices.Sort(s.delays)
	for _, c := range s.cancel {
		slices.Sort(c)
	}
	// What the soak itself remembers is not the gateway's.
	clear(ledger)
	clear(g.records)
	clear(g.failed)
	f.ledger.Forget()
	l.outcomes = nil
	s.drift()
}

// outcome judges what one client saw.
func (s *score) outcome(f *fleet, g *gateway, o *outcome, ledger map[string][]faultbench.Got) {
	if !o.sound {
		s.foreign++
		s.mistake("foreign bytes", o)
	}
	rec := g.records[o.id]
	if o.kind == hostile {
		if rec != nil || o.answer.OK() {
			s.recordsWrong++
			s.mistake("hostile request accepted", o)
		}
		return
	}
	if rec == nil {
		if o.kind != leaving {
			s.recordsWrong++
			s.mistake("no record", o)
		}
		return
	}
	if o.answer.OK() && (o.answer.Finish == "" || o.ask.Stream && !o.answer.Done || o.tokens != o.ask.MaxTokens) {
		s.falseSuccess++
		s.mistake("false success", o)
	}
	if lost(o, rec) {
		s.lostToken++
		if len(g.failed[o.id]) <= 1 {
			s.lostToOne++
			s.mistake("lost to one replica", o, *rec)
		} else {
			s.mistake("lost to several replicas", o, *rec)
		}
	}
	got := ledger[o.id]
	if len(got) == 0 {
		return
	}
	last := got[len(got)-1]
	if f.well(last.Replica, o.began, last.Ended) {
		s.delays = append(s.delays, o.delays...)
		s.cancelled(o, last)
	}
}

// lost reports whether a request that should have been answered ended without a
// token. Of those whose clients leave or stop reading only the record tells.
func lost(o *outcome, rec *expediter.Record) bool {
	if o.kind == patient || o.kind == slow {
		return !o.answer.OK() && o.tokens == 0 && rec.Status != expediter.StatusRefused
	}
	return rec.Status == expediter.StatusFailed && rec.TTFT == 0
}

// cancelled notes how soon the replica saw a client leave.
func (s *score) cancelled(o *outcome, last faultbench.Got) {
	if o.left.IsZero() || last.Gone.IsZero() || o.answer.Err == nil {
		return
	}
	state := "streaming"
	if last.Tokens == 0 {
		state = "waiting"
	}
	s.cancel[state] = append(s.cancel[state], max(last.Gone.Sub(o.left), 0))
}

// accounts compares records, ledgers and the quota store.
func (s *score) accounts(g *gateway, ledger map[string][]faultbench.Got) {
	s.recordsWrong += g.twice
	var charged int64
	tries := 0
	for id, r := range g.records {
		s.accepted++
		s.byStatus[r.Status]++
		charged += r.Charged
		tries += r.Attempts
		got := ledger[id]
		if len(got) > r.Attempts {
			s.duplicates += len(got) - r.Attempts
			s.mistake("attempts that were not counted", len(got), *r)
		}
		s.charges(r, got)
	}
	for id, got := range ledger {
		if g.records[id] == nil && id != "" {
			s.duplicates += len(got)
			s.mistake("a request that nobody made", id)
		}
	}
	b, err := g.quota.Balance(context.Background(), tenantID)
	if err != nil || b.Charged != charged {
		s.tokens += int(max(b.Charged-charged, charged-b.Charged))
		s.mistake("quota store and records", b.Charged, charged)
	}
	s.leaked += b.Running + int(b.Reserved)
	if s.accepted > 0 {
		s.amplification = float64(tries) / float64(s.accepted)
	}
}

// charges compares what a request was charged with what was produced.
func (s *score) charges(r *expediter.Record, got []faultbench.Got) {
	if r.Charged != 0 && r.Charged != int64(r.Input+r.Output) {
		s.tokens += int(r.Charged)
		s.mistake("charge", *r)
	}
	if len(got) == 0 {
		return
	}
	sent := 0 // by the attempt that got furthest: one that was held up may have come last
	for _, e := range got {
		sent = max(sent, e.Tokens)
	}
	if off := r.Output - sent; off > 0 || off != 0 && r.Status == expediter.StatusOK {
		s.tokens += max(off, -off)
		s.mistake("tokens", sent, *r)
	}
}

func (s *score) leaks(f *fleet, g *gateway) {
	for _, m := range g.pool.Replicas() {
		if l := m.Load(); l != (registry.Load{}) {
			s.leaked++
			s.mistake("load at rest", m.Name(), l)
		}
	}
	for _, line := range g.handler.Lines() {
		s.leaked += line.Waiting + line.WaitingTokens
	}
	s.leaked += g.handler.InFlight()
}

// drift waits a little for connections to be let go, and compares.
func (s *score) drift() {
	before, files, was := s.goroutines, s.files, s.heap
	for range 100 {
		if runtime.NumGoroutine() <= before && openFiles() <= files {
			break
		}
		wait(nil, 100*time.Millisecond)
	}
	s.goroutines, s.files, s.heap = runtime.NumGoroutine()-before, openFiles()-files, heap()-was
}

// keptUp reports whether this process had the CPU time for the load, without
// which time limits pass before anybody has done anything wrong.
func (s *score) keptUp() bool {
	return s.late < 2*time.Second && quantile(s.delays, 0.5) < 500*time.Millisecond
}

// print writes the board and returns how many zero targets were missed.
func (s *score) print(w io.Writer) int {
	missed := 0
	zero := func(name string, n int) {
		mark := ""
		if n != 0 {
			mark = "   <- target 0"
			missed++
		}
		fmt.Fprintf(w, "%-52s %10d%s\n", name, n, mark)
	}
	fmt.Fprintf(w, "%d requests in %v at %.0f/s, %d accepted, seed %d, sent at most %v late\n", s.requests, s.plan.length, s.plan.rate, s.accepted, s.plan.seed, s.late.Round(time.Millisecond))
	fmt.Fprintf(w, "ended as: %v\n", s.byStatus)
	fmt.Fprintf(w, "%d faults:\n", s.total)
	classes := make([]string, 0, len(s.faults))
	for c := range s.faults {
		classes = append(classes, c)
	}
	sort.Strings(classes)
	for _, c := range classes {
		fmt.Fprintf(w, "    %-48s %10d\n", c, s.faults[c])
	}
	if s.keptUp() {
		zero("requests without a token lost to one replica", s.lostToOne)
		zero("requests without a token lost to several", s.lostToken-s.lostToOne)
	} else {
		fmt.Fprintln(w, "THE MACHINE COULD NOT KEEP UP: time limits ended requests that no replica had failed")
		fmt.Fprintf(w, "%-52s %10d (not judged)\n", "requests without a token lost", s.lostToken)
	}
	zero("duplicate generations, attempts not counted", s.duplicates)
	zero("false successes", s.falseSuccess)
	zero("answers with bytes of another request", s.foreign)
	zero("double-charged and lost tokens", s.tokens)
	zero("requests without exactly one record", s.recordsWrong)
	zero("leaked slots, tokens and places in line", s.leaked)
	for _, state := range []string{"waiting", "streaming"} {
		c := s.cancel[state]
		fmt.Fprintf(w, "%-52s %10v p50 %v p99 %v (%d)\n", "cancel latency, "+state, "", quantile(c, 0.5), quantile(c, 0.99), len(c))
	}
	fmt.Fprintf(w, "%-52s %10v p50 %v p99 %v (%d)\n", "delay of an event, replica to client", "", quantile(s.delays, 0.5), quantile(s.delays, 0.99), len(s.delays))
	fmt.Fprintf(w, "%-52s %10.3f\n", "attempts per accepted request", s.amplification)
	zero("goroutine drift above 5", max(s.goroutines-5, 0))
	zero("file descriptor drift above 5", max(s.files-5, 0))
	fmt.Fprintf(w, "%-52s %10.1f MB\n", "heap, after less before", float64(s.heap)/(1<<20))
	return missed
}

func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)].Round(10 * time.Microsecond)
}
