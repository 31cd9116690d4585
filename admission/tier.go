package admission

import "slices"

// maxIdle is the number of tenants without waiting work whose counters are
// remembered in a tier.
const maxIdle = 1 << 14

// A tier is the waiting work of one tier.
type tier struct {
	n       int
	tenants map[string]*tenant
	active  []*tenant // those with waiting work, smallest counter first
	last    float64   // counter of the last tenant to leave, once none waits
	items   int
	tokens  int
	credit  float64 // cost it may start ahead of higher tiers
}

// A tenant is the waiting work of one tenant in one tier.
type tenant struct {
	id      string
	weight  float64
	counter float64 // cost started, by weight
	since   uint64  // decides between equal counters
	items   []*Item // in the order of service
	tokens  int
}

// place is the index of an item in the tenant's order, or where it belongs.
func (t *tenant) place(it *Item) int {
	i, _ := slices.BinarySearchFunc(t.items, it, func(a, b *Item) int {
		if a.before(b) {
			return -1
		}
		return 1
	})
	return i
}

// add puts an item into the tenant's order; it reports whether the tenant
// had none.
func (t *tenant) add(it *Item) bool {
	i := t.place(it)
	t.items = slices.Insert(t.items, i, it)
	t.tokens += it.Tokens
	return len(t.items) == 1
}

// remove takes out an item that is there.
func (t *tenant) remove(it *Item) {
	i := t.place(it)
	t.items = slices.Delete(t.items, i, i+1)
	t.tokens -= it.Tokens
}

func compareTenants(a, b *tenant) int {
	switch {
	case a.counter < b.counter:
		return -1
	case a.counter > b.counter:
		return 1
	case a.since < b.since:
		return -1
	}
	return 1
}

// insert puts a tenant among the active ones by its counter.
func (tr *tier) insert(t *tenant) {
	i, _ := slices.BinarySearchFunc(tr.active, t, compareTenants)
	tr.active = slices.Insert(tr.active, i, t)
}

func (tr *tier) take(t *tenant) {
	i := slices.Index(tr.active, t)
	tr.active = slices.Delete(tr.active, i, i+1)
}

// head is the item that is first in the tier's order. There must be one.
func (tr *tier) head() *Item { return tr.active[0].items[0] }

// floor is the counter that a tenant is lifted to when it begins to wait: it
// cannot have saved up from a time when it wanted nothing.
func (tr *tier) floor() float64 {
	if len(tr.active) > 0 {
		return tr.active[0].counter
	}
	return tr.last
}

// join adds an item.
func (tr *tier) join(it *Item, weight float64, seq uint64) {
	t := tr.tenants[it.Tenant]
	if t == nil {
		t = &tenant{id: it.Tenant}
		tr.tenants[it.Tenant] = t
	}
	t.weight = weight
	it.tenant = t
	if t.add(it) {
		t.counter = max(t.counter, tr.floor())
		t.since = seq
		tr.insert(t)
	}
	tr.items++
	tr.tokens += it.Tokens
}

// leave takes an item out.
func (tr *tier) leave(it *Item) {
	t := it.tenant
	t.remove(it)
	tr.items--
	tr.tokens -= it.Tokens
	if len(t.items) == 0 {
		tr.take(t)
		if len(tr.active) == 0 {
			tr.last = t.counter
		}
		tr.forget(t)
	}
	if tr.items == 0 {
		tr.credit = 0
	}
}

// charge adds the cost of an item that starts to its tenant's counter. It is
// called before the item leaves.
func (tr *tier) charge(it *Item) {
	t := it.tenant
	tr.take(t)
	t.counter += it.cost() / t.weight
	tr.insert(t)
}

// forget drops the counters that a tenant would be lifted above anyway, and,
// if there are far too many, others.
func (tr *tier) forget(t *tenant) {
	if t.counter <= tr.floor() {
		delete(tr.tenants, t.id)
	}
	if len(tr.tenants)-len(tr.active) <= maxIdle {
		return
	}
	floor := tr.floor()
	for id, t := range tr.tenants {
		if len(t.items) == 0 && (t.counter <= floor || len(tr.tenants)-len(tr.active) > maxIdle/2) {
			delete(tr.tenants, id)
		}
	}
}
