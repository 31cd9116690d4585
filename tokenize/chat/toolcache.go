package chat

import (
	"hash/maphash"
	"sync"

	"github.com/expediterhq/expediter/internal/jinja"
)

const (
	cachedSets  = 16       // sets of tools kept by one template
	cachedBytes = 32 << 10 // JSON of the largest set
	cachedSeen  = 64       // sets of which it is only known that they were seen
)

// toolCache keeps the sets of tools that come again and again, decoded and in
// the engine's order, so that the template's texts for them are found too. A
// set is kept from the second time on that it is seen.
type toolCache struct {
	mu   sync.RWMutex
	sets map[string]jinja.Value // by the JSON as it came
	seen map[uint64]bool
	seed maphash.Seed
}

// find returns the set with exactly this JSON.
func (t *toolCache) find(raw []byte) (jinja.Value, bool) {
	if len(raw) == 0 || len(raw) > cachedBytes {
		return jinja.Value{}, false
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	v, ok := t.sets[string(raw)]
	return v, ok
}

// offer is told of a set that was not found. forget is called when older sets
// are dropped.
func (t *toolCache) offer(raw []byte, forget func()) {
	if len(raw) == 0 || len(raw) > cachedBytes || !t.again(raw) {
		return
	}
	key := string(raw)
	c := new(conversation) // its memory is never given back
	v, err := c.slab.DecodeString(key)
	if err != nil {
		return
	}
	c.tools = v
	if c.orderTools() != nil || c.tools.Kind() != jinja.List {
		return
	}
	v = jinja.Durable(c.tools)
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.sets[key]; ok {
		return
	}
	if t.sets == nil || len(t.sets) >= cachedSets {
		t.sets = map[string]jinja.Value{}
		forget()
	}
	t.sets[key] = v
}

// again reports whether the set was seen before.
func (t *toolCache) again(raw []byte) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.seen == nil {
		t.seed = maphash.MakeSeed()
	}
	if t.seen == nil || len(t.seen) >= cachedSeen {
		t.seen = map[uint64]bool{}
	}
	h := maphash.Bytes(t.seed, raw)
	before := t.seen[h]
	t.seen[h] = true
	return before
}
