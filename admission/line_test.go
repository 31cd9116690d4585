package admission_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/expediterhq/expediter/admission"
)

// order starts everything in the line and returns the ids in order.
func order(l *admission.Line, now time.Time) string {
	var ids []string
	for it := l.Next(now); it != nil; it = l.Next(now) {
		ids = append(ids, it.ID)
		l.Start(it, now)
	}
	return strings.Join(ids, " ")
}

func newLine(t *testing.T, cfg admission.Config) *admission.Line {
	t.Helper()
	l, err := admission.NewLine(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestOrder(t *testing.T) {
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	for _, c := range []struct {
		name  string
		works []admission.Work
		want  string
	}{
		{"arrival", []admission.Work{{ID: "a"}, {ID: "b"}, {ID: "c"}}, "a b c"},
		{"deadline first", []admission.Work{{ID: "a"}, {ID: "b", Deadline: at(9)}, {ID: "c", Deadline: at(5)}}, "c b a"},
		{"retry keeps its place", []admission.Work{{ID: "a", Arrived: at(2)}, {ID: "b", Arrived: at(1), Retry: true}}, "b a"},
		{"a retry costs its tenant nothing", []admission.Work{
			{ID: "a1", Tenant: "a", Input: 10, Retry: true}, {ID: "a2", Tenant: "a", Input: 10}, {ID: "a3", Tenant: "a", Input: 10}, {ID: "b1", Tenant: "b", Input: 10},
		}, "a1 a2 b1 a3"},
		{"tiers", []admission.Work{{ID: "a", Tier: 2}, {ID: "b", Tier: 1}, {ID: "c", Tier: 0}, {ID: "d", Tier: -1}}, "d c b a"},
		{"tenants take turns", []admission.Work{
			{ID: "a1", Tenant: "a", Input: 10}, {ID: "a2", Tenant: "a", Input: 10}, {ID: "a3", Tenant: "a", Input: 10},
			{ID: "b1", Tenant: "b", Input: 10}, {ID: "b2", Tenant: "b", Input: 10},
		}, "a1 b1 a2 b2 a3"},
		{"by cost", []admission.Work{
			{ID: "a1", Tenant: "a", Input: 10, Output: 10}, {ID: "a2", Tenant: "a", Input: 10},
			{ID: "b1", Tenant: "b", Input: 10}, {ID: "b2", Tenant: "b", Input: 10}, {ID: "b3", Tenant: "b", Input: 11}, {ID: "b4", Tenant: "b"},
		}, "a1 b1 b2 b3 a2 b4"},
		{"by weight", []admission.Work{
			{ID: "a1", Tenant: "a", Input: 10}, {ID: "a2", Tenant: "a", Input: 10}, {ID: "a3", Tenant: "a", Input: 10},
			{ID: "b1", Tenant: "b", Input: 10, Weight: 3}, {ID: "b2", Tenant: "b", Input: 10, Weight: 3}, {ID: "b3", Tenant: "b", Input: 10, Weight: 3}, {ID: "b4", Tenant: "b", Input: 10, Weight: 3},
		}, "a1 b1 b2 b3 a2 b4 a3"},
		{"bad weight counts as one", []admission.Work{
			{ID: "a1", Tenant: "a", Input: 10, Weight: math.NaN()}, {ID: "a2", Tenant: "a", Input: 10, Weight: math.Inf(1)}, {ID: "b1", Tenant: "b", Input: 10, Weight: -1},
		}, "a1 b1 a2"},
	} {
		l := newLine(t, admission.Config{TierFloor: -1})
		for _, w := range c.works {
			if _, _, err := l.Push(w, start); err != nil {
				t.Fatalf("%s: Push = %v", c.name, err)
			}
		}
		if got := order(l, start); got != c.want {
			t.Errorf("%s: order %q, want %q", c.name, got, c.want)
		}
	}
}

// TestLift: who begins to wait late cannot have saved up turns.
func TestLift(t *testing.T) {
	l := newLine(t, admission.Config{})
	push := func(tenant, id string) {
		t.Helper()
		if _, _, err := l.Push(admission.Work{ID: id, Tenant: tenant, Input: 10}, start); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 6 {
		push("old", fmt.Sprint("old", i))
	}
	for range 4 {
		l.Start(l.Next(start), start)
	}
	push("new", "new0")
	push("new", "new1")
	push("new", "new2")
	if got, want := order(l, start), "old4 new0 old5 new1 new2"; got != want {
		t.Errorf("order %q, want %q", got, want)
	}
}

func TestExpiredWorkIsNeverNext(t *testing.T) {
	l := newLine(t, admission.Config{})
	if _, _, err := l.Push(admission.Work{ID: "a", Deadline: start.Add(time.Second)}, start); err != nil {
		t.Fatal(err)
	}
	if it := l.Next(start.Add(time.Second)); it != nil {
		t.Errorf("Next at the deadline = %+v, want nil", it)
	}
	if gone := l.Expired(start.Add(time.Second)); len(gone) != 1 || l.Len() != 0 {
		t.Errorf("Expired = %v, %d left, want the one item and 0", gone, l.Len())
	}
	if _, _, err := l.Push(admission.Work{Deadline: start}, start); err == nil || err.(*admission.Error).Reason != admission.Deadline {
		t.Errorf("Push after the deadline = %v, want reason Deadline", err)
	}
}

// TestServiceGap holds the line to the bound of the VTC paper: of two tenants
// that both wait all the time, neither is ahead by more than twice the
// largest cost of one request.
func TestServiceGap(t *testing.T) {
	const tenants = 5
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		l := newLine(t, admission.Config{})
		var service, weight [tenants]float64
		var waiting [tenants]int
		largest := 0.0
		push := func(i int) {
			w := admission.Work{Tenant: string(rune('a' + i)), Weight: weight[i], Input: 1 + rnd.IntN(4000), Output: rnd.IntN(1000)}
			largest = max(largest, (float64(w.Input)+2*float64(w.Output))/weight[i])
			waiting[i]++
			if _, _, err := l.Push(w, start); err != nil {
				t.Fatal(err)
			}
		}
		for i := range tenants {
			weight[i] = float64(1 + rnd.IntN(4))
		}
		for range 3000 {
			for i := range tenants {
				if waiting[i] < 1+rnd.IntN(3) { // always backlogged
					push(i)
				}
			}
			it := l.Next(start)
			i := int(it.Tenant[0] - 'a')
			service[i] += float64(it.Input) + 2*float64(it.Output)
			waiting[i]--
			if waiting[i] == 0 {
				push(i)
			}
			l.Start(it, start)
			for i := range tenants {
				for j := range tenants {
					if gap := service[i]/weight[i] - service[j]/weight[j]; gap > 2*largest {
						t.Fatalf("seed %d: tenants %d and %d are apart by %.0f, want at most %.0f", seed, i, j, gap, 2*largest)
					}
				}
			}
		}
	}
}

func TestK1HeadOfLine(t *testing.T) {
	p := newPool(t, admission.Config{}, 1, 100_000)
	p.push(admission.Work{ID: "filler", Tokens: 95_000}, 10*time.Second)
	p.push(admission.Work{ID: "large", Tenant: "t", Tokens: 100_000, Deadline: start.Add(30 * time.Second)}, time.Second)
	for i := range 200 {
		p.push(admission.Work{ID: fmt.Sprint("small", i), Tenant: "t", Tokens: 200, Deadline: start.Add(30 * time.Second)}, 10*time.Millisecond)
	}
	p.advance(start.Add(5 * time.Second)) // long after, it has not been passed by its own size yet
	p.push(admission.Work{ID: "later", Tenant: "t", Tokens: 200, Deadline: start.Add(30 * time.Second)}, 10*time.Millisecond)
	if at, ok := p.startOf("later"); !ok || at != 5*time.Second {
		t.Errorf("later small work started after %v (%v), want 5s", at, ok)
	}
	p.advance(start.Add(29 * time.Second))
	for i := range 200 {
		if at, ok := p.startOf(fmt.Sprint("small", i)); !ok || at > 100*time.Millisecond {
			t.Fatalf("small%d started after %v (%v), want within 100ms", i, at, ok)
		}
	}
	if at, ok := p.startOf("large"); !ok || at != 10*time.Second {
		t.Errorf("large started after %v (%v), want 10s", at, ok)
	}
}

// TestLargeWorkIsNotStarved: small work keeps coming, enough to fill what it
// frees for ever.
func TestLargeWorkIsNotStarved(t *testing.T) {
	for _, backfill := range []float64{0.5, 1} {
		p := newPool(t, admission.Config{Backfill: backfill, MaxWaiting: 50}, 2, 10_000)
		rnd := rand.New(rand.NewPCG(1, 2))
		for i := range 3000 {
			p.advance(start.Add(time.Duration(i) * 10 * time.Millisecond))
			p.push(admission.Work{ID: fmt.Sprint(i), Tenant: "small", Tokens: 500}, time.Duration(500+rnd.IntN(1000))*time.Millisecond)
			if i == 500 {
				p.push(admission.Work{ID: "large", Tenant: "large", Tokens: 9000}, time.Second)
			}
		}
		at, ok := p.startOf("large")
		if backfill == 1 { // the keeping of room is start's, which here does none
			if ok && at < 20*time.Second {
				t.Errorf("without keeping room the large work started after %v: the test shows nothing", at)
			}
			continue
		}
		if !ok || at > 16*time.Second {
			t.Errorf("large work started after %v (%v), want within 11s of its arrival at 5s", at, ok)
		}
		// The fleet was not idle meanwhile, and is busy after it.
		before := 0
		for _, s := range p.started {
			if d := s.at.Sub(start); d > 5*time.Second && d < at {
				before++
			}
		}
		if before < 20 || len(p.started) < 700 {
			t.Errorf("%d small ones started while room was kept, %d in all", before, len(p.started))
		}
	}
}

// TestKeepingRoom: what is tried while room is kept for work that was passed.
func TestKeepingRoom(t *testing.T) {
	l := newLine(t, admission.Config{Backfill: 0.01})
	push := func(id string, tier, tokens int) {
		t.Helper()
		if _, _, err := l.Push(admission.Work{ID: id, Tenant: id[:1], Tier: tier, Tokens: tokens}, start); err != nil {
			t.Fatal(err)
		}
	}
	push("large", 1, 1000)
	for i := range 20 {
		push(fmt.Sprint("s", i), 1, 100)
	}
	// next opens the line, and refuses the large work if it is offered.
	next := func(now time.Time) string {
		l.Opened()
		it := l.Next(now)
		if it != nil && it.ID == "large" {
			l.Refuse(it, now)
			it = l.Next(now)
		}
		if it == nil {
			return ""
		}
		if it.ID[0] == 's' {
			l.Start(it, now)
		}
		return it.ID
	}
	for i := range 10 {
		if got, want := next(start.Add(time.Duration(i)*100*time.Millisecond)), fmt.Sprint("s", i); got != want {
			t.Fatalf("started %q, want %q", got, want)
		}
	}
	if got := next(start.Add(950 * time.Millisecond)); got != "s10" {
		t.Errorf("before it has waited long enough: %q, want s10", got)
	}
	now := start.Add(1100 * time.Millisecond)
	if got := next(now); got != "" {
		t.Errorf("while room is kept: %q, want nothing", got)
	}
	push("high", 0, 100)
	if got := next(now); got != "high" {
		t.Errorf("while room is kept: %q, want the higher tier", got)
	}
	l.Remove(l.Next(now), now)
	// After half a minute it gives way.
	if got := next(now.Add(29 * time.Second)); got != "" {
		t.Errorf("after 29s: %q, want nothing", got)
	}
	if got := next(now.Add(30 * time.Second)); got != "s11" {
		t.Errorf("after 30s: %q, want s11", got)
	}
}

func TestK2LowTierIsNotStarved(t *testing.T) {
	// One replica serves 10 requests of 1000 tokens at a time, one second each.
	for _, c := range []struct {
		floor    float64
		least    float64
		atMost   float64
		deadline time.Duration
	}{
		{0.1, 0.09, 0.2, 30 * time.Second},
		{-1, 0, 0.01, 30 * time.Second},
	} {
		p := newPool(t, admission.Config{TierFloor: c.floor, MaxWaiting: 200}, 1, 10_000)
		work := func(tier int) admission.Work {
			return admission.Work{Tenant: "t", Tier: tier, Tokens: 1000, Input: 800, Output: 100, Deadline: p.now.Add(c.deadline)}
		}
		shed := 0
		for i := range 3000 { // five minutes
			p.advance(start.Add(time.Duration(i) * 100 * time.Millisecond))
			p.push(work(0), time.Second)
			if i%5 == 0 {
				p.push(work(0), time.Second) // 12 a second: 120 percent
			}
			if !p.push(work(1), time.Second) { // 10 a second
				shed++
			}
		}
		low := 0
		for _, s := range p.started {
			low += s.Tier
		}
		share := float64(low) / float64(len(p.started))
		if share < c.least || share > c.atMost {
			t.Errorf("floor %v: low tier got %.3f, want %v to %v", c.floor, share, c.least, c.atMost)
		}
		if p.late > 0 {
			t.Errorf("floor %v: %d started after their deadline", c.floor, p.late)
		}
		if shed == 0 {
			t.Errorf("floor %v: nothing of the low tier was refused at arrival", c.floor)
		}
	}
}

func TestK6RetryAfter(t *testing.T) {
	for _, drain := range []int{4, 20, 300} {
		l := newLine(t, admission.Config{MaxWaiting: 10_000, MaxWaitingTokens: 1000 * drain})
		now := start
		for l.Tokens()+100 <= 1000*drain {
			if _, _, err := l.Push(admission.Work{Tokens: 100}, now); err != nil {
				t.Fatal(err)
			}
		}
		for range 100 { // 1000 tokens per second, for 10 s; as much comes in
			now = now.Add(100 * time.Millisecond)
			l.Start(l.Next(now), now)
			if _, _, err := l.Push(admission.Work{Tokens: 100}, now); err != nil {
				t.Fatal(err)
			}
		}
		sum, low, high := 0.0, math.Inf(1), 0.0
		for range 1000 {
			_, _, err := l.Push(admission.Work{Tokens: 100}, now)
			e, ok := err.(*admission.Error)
			if !ok || e.Reason != admission.QueueFull {
				t.Fatalf("Push = %v, want reason QueueFull", err)
			}
			d := e.RetryAfter()
			if d < time.Second || d%time.Second != 0 {
				t.Fatalf("RetryAfter = %v, want whole seconds", d)
			}
			sum += d.Seconds()
			low, high = min(low, d.Seconds()), max(high, d.Seconds())
		}
		if mean := sum / 1000; math.Abs(mean-float64(drain)) > float64(drain)/10 {
			t.Errorf("drain time %d s: mean %v s", drain, mean)
		}
		if high-low < 0.2*float64(drain) {
			t.Errorf("drain time %d s: spread from %v to %v", drain, low, high)
		}
	}
}

func TestHopelessWorkIsRefusedAtOnce(t *testing.T) {
	p := newPool(t, admission.Config{}, 1, 1000)
	for i := range 100 {
		p.push(admission.Work{ID: fmt.Sprint(i), Tenant: "a", Tokens: 1000}, 100*time.Millisecond)
	}
	p.advance(start.Add(5 * time.Second)) // 10,000 tokens a second; 50 left: 5 s
	refuse := func(w admission.Work, want bool) {
		t.Helper()
		w.Tokens = 1000
		_, _, err := p.line.Push(w, p.now)
		if (err != nil) != want {
			t.Errorf("Push(%+v) = %v, want refusal %v", w, err, want)
		}
	}
	soon, later := p.now.Add(time.Second), p.now.Add(4*time.Second)
	refuse(admission.Work{Tenant: "a", Deadline: soon}, true)
	refuse(admission.Work{Tenant: "a", Deadline: later}, false)
	refuse(admission.Work{Tenant: "b", Deadline: soon}, false) // its turn comes soon
	refuse(admission.Work{Tenant: "c", Tier: -1, Deadline: soon}, false)
	refuse(admission.Work{Tenant: "d", Tier: 1, Deadline: soon}, true)
	refuse(admission.Work{Tenant: "a", Deadline: soon, Retry: true}, false)
}

func TestFullLineMakesRoomForOthers(t *testing.T) {
	l := newLine(t, admission.Config{MaxWaiting: 10, TierFloor: -1})
	for i := range 10 {
		tier := 0
		if i == 3 {
			tier = 1
		}
		if _, _, err := l.Push(admission.Work{ID: fmt.Sprint("hog", i), Tenant: "hog", Tokens: 100, Tier: tier}, start); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		work admission.Work
		out  string
		full bool
	}{
		{admission.Work{Tenant: "late", Tokens: 100}, "hog3", false}, // the lower tier first
		{admission.Work{Tenant: "late", Tokens: 100}, "hog9", false},
		{admission.Work{Tenant: "hog", Tokens: 100}, "", true}, // it holds most itself
		{admission.Work{Tenant: "other", Tier: 1, Tokens: 100}, "", true},
		{admission.Work{Tenant: "other", Tokens: 100_000}, "", true},
	} {
		_, out, err := l.Push(c.work, start)
		if (err != nil) != c.full {
			t.Errorf("Push(%+v) = %v, want full %v", c.work, err, c.full)
		}
		if got := idOf(out); got != c.out {
			t.Errorf("Push(%+v) pushed out %q, want %q", c.work, got, c.out)
		}
	}
	if _, out, err := l.Push(admission.Work{Tenant: "hog", Retry: true}, start); err != nil || out != nil {
		t.Errorf("a retry: pushed out %v, %v, want neither", out, err)
	}
}

func idOf(it *admission.Item) string {
	if it == nil {
		return ""
	}
	return it.ID
}

func TestConfigMistakes(t *testing.T) {
	_, err := admission.NewController(admission.Config{MaxWaiting: -1, MaxWaitingTokens: -1, TierFloor: 0.5, Backfill: 2})
	for _, part := range []string{"max waiting:", "max waiting tokens:", "tier floor:", "backfill:"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("NewController = %v, want it to name %q", err, part)
		}
	}
}

// TestHugeClaims: the sum of absurd claims is still a large number.
func TestHugeClaims(t *testing.T) {
	l := newLine(t, admission.Config{MaxWaitingTokens: math.MaxInt / 2})
	for range 50 {
		if _, _, err := l.Push(admission.Work{Tokens: math.MaxInt, Retry: true}, start); err != nil {
			t.Fatal(err)
		}
	}
	if got := l.Tokens(); got < 100_000_000 {
		t.Errorf("Tokens = %d for 50 claims of %d", got, math.MaxInt)
	}
}
