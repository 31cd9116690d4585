package quotatest

import (
	"fmt"
	"math"
	"sort"
	"strings"
	"time"

	"github.com/expediterhq/expediter/quota"
)

// model is the contract of a store for one tenant, written as plainly as it can
// be: every reservation is kept for ever, and time passes event by event.
type model struct {
	now     int64 // nanoseconds
	windows map[string]*modelWindow
	res     map[string]*modelRes
	charged int64
}

type modelWindow struct{ spent, rate float64 }

type modelRes struct {
	state string // held, expired, settled
	taken int64  // from the windows
	used  int64
	until int64
	names []string
}

func newModel() *model {
	return &model{windows: map[string]*modelWindow{}, res: map[string]*modelRes{}}
}

func (m *model) clone() *model {
	c := newModel()
	c.now, c.charged = m.now, m.charged
	for n, w := range m.windows {
		v := *w
		c.windows[n] = &v
	}
	for id, r := range m.res {
		v := *r
		c.res[id] = &v
	}
	return c
}

// key is the same for two models in the same state.
func (m *model) key() string {
	var parts []string
	for n, w := range m.windows {
		parts = append(parts, fmt.Sprint("w", n, w.spent, w.rate))
	}
	for id, r := range m.res {
		parts = append(parts, fmt.Sprint("r", id, r.state, r.taken, r.used, r.until))
	}
	sort.Strings(parts)
	return fmt.Sprint(m.now, m.charged, strings.Join(parts, ";"))
}

// advance lets time pass up to now, and leases end on the way.
func (m *model) advance(now int64) {
	for {
		var first *modelRes
		for _, r := range m.res {
			if r.state == "held" && r.until <= now && (first == nil || r.until < first.until) {
				first = r
			}
		}
		if first == nil {
			break
		}
		m.pass(max(first.until, m.now))
		m.take(first.names, first.used-first.taken)
		m.charged += first.used
		first.state, first.taken = "expired", first.used
	}
	m.pass(now)
}

func (m *model) pass(now int64) {
	for _, w := range m.windows {
		w.spent = math.Max(0, w.spent-w.rate*float64(now-m.now)/1e9)
	}
	m.now = now
}

func (m *model) take(names []string, n int64) {
	for _, name := range names {
		w := m.window(name)
		w.spent = math.Max(0, w.spent+float64(n))
	}
}

func (m *model) window(name string) *modelWindow {
	w := m.windows[name]
	if w == nil {
		w = &modelWindow{}
		m.windows[name] = w
	}
	return w
}

func (m *model) held() (n int, tokens int64) {
	for _, r := range m.res {
		if r.state == "held" {
			n++
			tokens += r.taken
		}
	}
	return n, tokens
}

func names(l quota.Limit) []string {
	var ns []string
	for _, w := range l.Windows {
		ns = append(ns, w.Name)
	}
	return ns
}

// reserve returns the verdict and, for OverQuota, the seconds until there is
// room; infinite when there never will be.
func (m *model) reserve(r quota.Reservation) (quota.Verdict, float64) {
	for _, w := range r.Limit.Windows {
		if r.Cost > w.Burst {
			return quota.Never, 0
		}
	}
	if old := m.res[r.ID]; old != nil {
		if old.state == "held" {
			return quota.Duplicate, 0
		}
		return quota.Settled, 0
	}
	var wait float64
	for _, w := range r.Limit.Windows {
		s := m.window(w.Name)
		s.rate = w.Rate
		if lack := float64(r.Cost) - (float64(w.Burst) - s.spent); lack > 0 {
			wait = math.Max(wait, lack/w.Rate)
		}
	}
	if wait > 0 {
		return quota.OverQuota, wait
	}
	if n, _ := m.held(); r.Limit.Concurrency > 0 && n >= r.Limit.Concurrency {
		return quota.OverConcurrency, 0
	}
	m.take(names(r.Limit), r.Cost)
	m.res[r.ID] = &modelRes{state: "held", taken: r.Cost, used: r.Used, until: m.now + int64(r.Term()), names: names(r.Limit)}
	return quota.OK, 0
}

func (m *model) settle(r quota.Reservation, used int64) {
	x := m.known(r)
	if x.state == "settled" {
		return
	}
	m.take(x.names, used-x.taken)
	m.charged += used
	if x.state == "expired" {
		m.charged -= x.taken
	}
	x.state, x.taken = "settled", 0
}

func (m *model) renew(r quota.Reservation) {
	x := m.known(r)
	if x.state == "settled" {
		return
	}
	m.take(x.names, r.Cost-x.taken)
	if x.state == "expired" {
		m.charged -= x.taken
	}
	x.state, x.taken, x.used, x.until = "held", r.Cost, max(x.used, r.Used), m.now+int64(r.Term())
}

// known returns the reservation, or makes one that has taken nothing yet.
func (m *model) known(r quota.Reservation) *modelRes {
	x := m.res[r.ID]
	if x == nil {
		for _, w := range r.Limit.Windows {
			m.window(w.Name).rate = w.Rate
		}
		x = &modelRes{names: names(r.Limit)}
		m.res[r.ID] = x
	}
	return x
}

func (m *model) balance() quota.Balance {
	b := quota.Balance{Charged: m.charged}
	b.Running, b.Reserved = m.held()
	for n, w := range m.windows {
		if w.spent > 0 {
			b.Windows = append(b.Windows, quota.Level{Name: n, Spent: w.spent})
		}
	}
	return b
}

// differ says how two balances differ, but for windows that have spent nothing
// and for the rounding of the numbers involved.
func differ(got, want quota.Balance) string {
	if got.Running != want.Running || got.Reserved != want.Reserved || got.Charged != want.Charged {
		return fmt.Sprintf("balance %+v, want %+v", got, want)
	}
	spent := map[string]float64{}
	for _, w := range want.Windows {
		spent[w.Name] = w.Spent
	}
	for _, w := range got.Windows {
		spent[w.Name] -= w.Spent
	}
	for n, d := range spent {
		if math.Abs(d) > 1e-3 {
			return fmt.Sprintf("window %q differs by %v tokens: balance %+v, want %+v", n, d, got, want)
		}
	}
	return ""
}

// leases of reservations in random tests.
var leases = []time.Duration{time.Second, 5 * time.Second, 30 * time.Second, 0}
