package prefix

import (
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
)

// TableConfig bounds a Table. Values below zero count as zero.
type TableConfig struct {
	Blocks int // blocks remembered per slot until SetBlocks. If zero, 32768
	// MaxBytes is the memory of the whole table. If zero, 256 MiB; below 1 MiB
	// counts as 1 MiB. Each slot in use, which is one that Add was called for since
	// the last Forget, takes about 15 kB before it holds a block, and every 64 slots
	// of which one is in use take 275 kB more. Where there is no more than that for
	// all of them nothing is held, and Overlap finds nothing: 1 MiB is too little for
	// 53 slots, and 18 MiB for 1024. A block that a slot holds takes up to 129 bytes.
	MaxBytes int64
	Slots    int // slots at or above this are ignored. If zero, 1024
}

// Table is a Map of what was sent to each replica, bounded per replica like
// the replica's own cache and in all by a number of bytes. Use NewTable.
//
// All methods are safe for concurrent use. Overlap takes one read lock of
// many per 16 blocks; Add locks only its own slot and, for blocks that are new
// there or make room, one of many parts of the table at a time.
type Table struct {
	cfg TableConfig
	mixer
	slots  []atomic.Pointer[slot]
	planes []atomic.Pointer[plane]

	mu         sync.Mutex   // held to make a slot or divide the memory; before that of a slot
	made       int          // slots made
	madePlanes int          // planes made
	live       []*slot      // those slots that share the memory
	next       int          // in live, of which memory was taken last
	free       atomic.Int64 // blocks that are granted to nobody; changes under mu
}

// plane is the index of 64 slots, in shards. Up to 16 blocks of a chain, which
// are looked for together, are in one shard: that of the first.
type plane struct{ shards [shards]shard }

const (
	shards     = 64
	planeSlots = 64
	group      = 16
)

// shardOf returns the number of the shard for a group whose first mixed key this
// is.
func shardOf(mixed uint64) uint32 { return uint32(mixed >> 40 % shards) }

type shard struct {
	mu sync.RWMutex
	index
	_ [shardBytes - (24 + 24 + 6*8)]byte // a shard does not share a cache line with the next
}

const shardBytes = 128

// slot is what one replica is believed to hold.
type slot struct {
	mu      sync.Mutex
	num     int
	want    int  // blocks the replica's cache has room for
	limit   int  // blocks that it has shown to keep: at most want, less after contradictions
	share   int  // blocks of the table's memory that it has a right to
	grant   int  // blocks of the table's memory that it has
	retired bool // it shares no memory until it is used again
	list    recent
	stamp   uint32
	strike  uint32 // stamp at the first contradiction of a row
	doubts  int    // contradictions in a row
	says    bool   // the engine says what it found cached
}

const slotBytes = 256 // a slot without its list, and more

// bound returns how many blocks are kept. mu is held.
func (s *slot) bound() int { return min(s.limit, s.grant) }

// Worst-case bytes per block held by one slot: its node, its entry in the
// slot's table and a cell of the plane for itself alone. Of a table with n keys
// there are at most n/76.8+1 segments of 256 (see segments.resized), 10/3 cells for
// each key, and n/256 spills, one more. Their lists and that of the pages take
// less than a byte, also while they are copied: 24 bytes for each segment, 32 for
// each spill, 24 for each page. A segment whose spills are dealt out anew may have
// one more until that is done.
const pairBytes = nodeBytes + (entryBytes+cellBytes)*13/3 + 1

// NewTable returns an empty table.
func NewTable(cfg TableConfig) *Table {
	if cfg.Blocks <= 0 {
		cfg.Blocks = 32768
	}
	if cfg.MaxBytes <= 0 {
		cfg.MaxBytes = 256 << 20
	}
	if cfg.Slots <= 0 {
		cfg.Slots = 1024
	}
	cfg.MaxBytes = max(cfg.MaxBytes, 1<<20)
	t := &Table{
		cfg:    cfg,
		mixer:  newMixer(),
		slots:  make([]atomic.Pointer[slot], cfg.Slots),
		planes: make([]atomic.Pointer[plane], (cfg.Slots+planeSlots-1)/planeSlots),
	}
	return t
}

// Overlap sets n[i] to the number of leading blocks that slot i is believed
// to hold, for every i below len(n). It does not allocate.
func (t *Table) Overlap(n []int, blocks []uint64) {
	clear(n)
	for base := 0; base < len(n) && base < len(t.slots); base += planeSlots {
		if p := t.planes[base/planeSlots].Load(); p != nil {
			t.overlap(p, n[base:min(base+planeSlots, len(n))], blocks)
		}
	}
}

func (t *Table) overlap(p *plane, n []int, blocks []uint64) {
	alive := ^uint64(0) >> (planeSlots - len(n))
	for from := 0; from < len(blocks) && alive != 0; from += group {
		alive = t.overlapGroup(p, n, blocks, from, alive)
	}
	for ; alive != 0; alive &= alive - 1 {
		n[bits.TrailingZeros64(alive)] = len(blocks)
	}
}

// overlapGroup looks for the blocks of one group and returns which of the slots
// that were alive hold all of them.
func (t *Table) overlapGroup(p *plane, n []int, blocks []uint64, from int, alive uint64) uint64 {
	blocks = blocks[from:min(from+group, len(blocks))]
	var room [group]uint64
	keys := room[:len(blocks)]
	keys[0] = t.mix(blocks[0])
	sh := &p.shards[shardOf(keys[0])]
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	for i := range keys {
		held := alive & sh.slots(keys[i])
		for gone := alive &^ held; gone != 0; gone &= gone - 1 {
			n[bits.TrailingZeros64(gone)] = from + i
		}
		if alive = held; alive == 0 {
			break
		}
		if i == 0 { // who has the first often has the rest
			for j := 1; j < len(keys); j++ {
				keys[j] = t.mix(blocks[j])
			}
			sh.fetch(keys[1:])
		}
	}
	return alive
}

// Add says that the replica in slot holds blocks, a chain from its start, and
// used them now. Of a chain longer than the slot's bound the end is dropped.
func (t *Table) Add(slot int, blocks []uint64) {
	if slot < 0 || slot >= len(t.slots) || len(blocks) == 0 {
		return
	}
	s := t.slotOf(slot)
	p := t.planes[slot/planeSlots].Load()
	s.mu.Lock()
	defer s.mu.Unlock()
	if lack := t.short(s, len(blocks)); lack > 0 {
		s.mu.Unlock()
		t.provide(s, lack)
		s.mu.Lock()
	}
	s.stamp++
	blocks = blocks[:min(len(blocks), s.bound())]
	if len(blocks) == 0 { // there is no memory for this slot
		return
	}
	// From the end to the start, so that the start is evicted last.
	for from := (len(blocks) - 1) / group * group; from >= 0; from -= group {
		t.addLocked(p, s, blocks[from:min(from+group, len(blocks))])
	}
}

// addLocked adds the blocks of one group, the last first.
func (t *Table) addLocked(p *plane, s *slot, blocks []uint64) {
	var room, added [group]uint64
	keys := room[:len(blocks)]
	for i, b := range blocks {
		keys[i] = t.mix(b)
	}
	s.list.table.fetch(keys)
	if absent := s.list.absent(keys); absent > 0 {
		if over := s.list.n + absent - s.bound(); over > 0 {
			s.list.renew(keys, s.stamp) // they are not what makes room
			t.evictSomeLocked(p, s, over)
		}
	}
	n, shard := 0, shardOf(keys[0])
	for _, key := range slices.Backward(keys) {
		if s.list.touch(key, s.stamp, shard) {
			added[n] = key
			n++
		}
	}
	if n > 0 {
		p.shards[shard].add(added[:n], 1<<(s.num%planeSlots))
	}
}

// add adds slots to those that hold each of keys.
func (sh *shard) add(keys []uint64, slots uint64) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.fetch(keys)
	for _, key := range keys {
		sh.set(key, slots)
	}
}

// remove takes slots from those that hold each key of list.
func (sh *shard) remove(list []evicted, slots uint64) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.n == 0 {
		return
	}
	var keys [group]uint64
	for i, e := range list {
		keys[i] = e.key
	}
	sh.fetch(keys[:len(list)])
	for _, e := range list {
		sh.clear(e.key, slots)
	}
}

// evictSomeLocked forgets the slot's n least recently used blocks, or all if it
// has fewer.
func (t *Table) evictSomeLocked(p *plane, s *slot, n int) {
	var room [group]evicted
	for n > 0 && s.list.n > 0 {
		out := s.list.evict(room[:min(n, group)])
		n -= len(out)
		for len(out) > 0 { // most were added together, to one shard
			same := 1
			for same < len(out) && out[same].shard == out[0].shard {
				same++
			}
			p.shards[out[0].shard].remove(out[:same], 1<<(s.num%planeSlots))
			out = out[same:]
		}
	}
}

// Forget drops everything believed of the slot and its contradictions. Its part
// of the memory is for the others until it is used again.
func (t *Table) Forget(slot int) {
	if slot < 0 || slot >= len(t.slots) {
		return
	}
	s := t.slots[slot].Load()
	if s == nil {
		return
	}
	s.mu.Lock()
	t.evictLocked(s, 0)
	s.doubts, s.says = 0, false
	s.limit = s.want
	s.mu.Unlock()
	t.retire(s)
}

// evictLocked evicts until at most n blocks remain. s.mu is held.
func (t *Table) evictLocked(s *slot, n int) {
	t.evictSomeLocked(t.planes[s.num/planeSlots].Load(), s, s.list.n-n)
}
