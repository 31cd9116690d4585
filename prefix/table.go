package prefix

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

// TableConfig bounds a Table. Values below zero count as zero.
type TableConfig struct {
	Blocks int // blocks remembered per slot until SetBlocks. If zero, 32768
	// MaxBytes is the memory of the whole table. If zero, 256 MiB; below 1 MiB
	// counts as 1 MiB. Each slot in use, which is one that Add was called for since
	// the last Forget, takes about 6 kB before it holds a block, and every 64 slots
	// of which one is in use take 144 kB more. Where there is no more than that for
	// all of them nothing is held, and Overlap finds nothing: 1 MiB is too little for
	// 125 slots, and 8 MiB for 1024. 16 blocks of a chain that a slot holds take up
	// to 354 bytes. Where chains part within these, or a part was used later than the
	// rest, each part takes as much.
	MaxBytes int64
	Slots    int // slots at or above this are ignored. If zero, 1024
}

// Table is a Map of what was sent to each replica, bounded per replica like
// the replica's own cache and in all by a number of bytes. Use NewTable.
//
// All methods are safe for concurrent use. For 64 slots Overlap takes one read
// lock of many per 16 blocks; Add locks only its own slot and, for 16 blocks or what
// makes room for them, one of many parts of the table at a time.
type Table struct {
	cfg TableConfig
	mixer
	slots   []atomic.Pointer[slot]
	planes  []atomic.Pointer[plane]
	records records

	mu         sync.Mutex   // held to make a slot or divide the memory; before that of a slot
	made       int          // slots made
	madePlanes int          // planes made
	live       []*slot      // those slots that share the memory
	next       int          // in live, of which memory was taken last
	budget     int          // runs for which there is memory
	free       atomic.Int64 // runs that are granted to nobody; changes under mu
}

// plane finds the blocks of 64 slots, in shards. Up to 16 blocks of a chain, which
// are looked for together, are in one shard.
type plane struct{ shards [shards]shard }

const (
	shards     = 64
	planeSlots = 64
	group      = 16
)

// slot is what one replica is believed to hold.
type slot struct {
	mu      sync.Mutex
	num     int
	bit     uint64 // of the slot in its plane
	want    int    // blocks the replica's cache has room for
	limit   int    // blocks that it has shown to keep: at most want, less after contradictions
	share   int    // runs of the table's memory that it has a right to
	grant   int    // runs of the table's memory that it has
	retired bool   // it shares no memory until it is used again
	list    runs
	stamp   uint32
	strike  uint32 // stamp at the first contradiction of a row
	doubts  int    // contradictions in a row
	says    bool   // the engine says what it found cached
}

const slotBytes = 256 // a slot without its list, and more

// maxBlocks is more than any slot has memory for.
const maxBlocks = 1 << 30

// runsFor returns how many runs blocks may need: one each, and those of a group
// that comes before others go.
func runsFor(blocks int) int { return blocks + group }

// room returns how many runs more the slot may have.
func (s *slot) room() int { return s.grant - s.list.taken }

// Worst-case bytes per run of one slot: itself, its entry in the slot's table,
// and a record for it alone with an entry in the table of a shard. Of a table with
// n entries there are at most n/76.8+1 segments of 256 (see segments.resized), 10/3
// cells for each, and n/256 spills, one more. Their lists and that of the
// pages take less than a byte, also while they are copied: 24 bytes for each
// segment, 32 for each spill, 24 for each page. A segment whose spills are dealt out
// anew may have one more until that is done.
const (
	ownBytes   = runBytes + 2*entryBytes*13/3 + 1
	grantBytes = ownBytes + recordBytes
)

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
	cfg.Blocks = min(cfg.Blocks, maxBlocks)
	cfg.MaxBytes = max(cfg.MaxBytes, 1<<20)
	return &Table{
		cfg:     cfg,
		mixer:   newMixer(),
		slots:   make([]atomic.Pointer[slot], cfg.Slots),
		planes:  make([]atomic.Pointer[plane], (cfg.Slots+planeSlots-1)/planeSlots),
		records: newRecords(cfg.MaxBytes),
	}
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
	first := t.mix(blocks[0])
	sh := &p.shards[shardOf(first)]
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	i, number := 0, sh.find(&t.records, first)
	for number != 0 {
		rec := t.records.at(number)
		for j := 0; j < group && i < len(blocks) && rec.slots[j] != 0 && rec.keys[j] == t.mix(blocks[i]); j++ {
			end(n, alive&^rec.slots[j], from+i)
			if alive &= rec.slots[j]; alive == 0 {
				return 0
			}
			i++
		}
		if i == len(blocks) {
			return alive
		}
		number = sh.find(&t.records, t.mix(blocks[i]))
	}
	end(n, alive, from+i)
	return 0
}

// end sets n of each of slots.
func end(n []int, slots uint64, blocks int) {
	for ; slots != 0; slots &= slots - 1 {
		n[bits.TrailingZeros64(slots)] = blocks
	}
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
	for {
		lack := t.addLocked(p, s, blocks)
		if lack == 0 {
			return
		}
		s.mu.Unlock()
		t.provide(s, lack)
		s.mu.Lock()
	}
}

// addLocked adds blocks, unless the slot should have lack runs more first: what it
// needs for a group, and one for each of those before it.
func (t *Table) addLocked(p *plane, s *slot, blocks []uint64) (lack int) {
	s.stamp++
	blocks = blocks[:min(len(blocks), s.limit)]
	// From the end to the start, so that the start is evicted last.
	for from := (len(blocks) - 1) / group * group; from >= 0; from -= group {
		if lack := t.addGroupLocked(p, s, blocks[from:min(from+group, len(blocks))]); lack > 0 {
			return lack + from/group
		}
	}
	t.evictLocked(s, s.limit)
	return 0
}

// addGroupLocked adds the blocks of one group. If there is no more memory for the
// slot, what it has not used for longest makes room.
func (t *Table) addGroupLocked(p *plane, s *slot, blocks []uint64) (lack int) {
	var mixed [group]uint64
	keys := mixed[:len(blocks)]
	for i, b := range blocks {
		keys[i] = t.mix(b)
	}
	shard := shardOf(keys[0])
	var room [group]piece
	for {
		pieces, lack := p.shards[shard].add(&t.records, keys, s.bit, s.room(), &room)
		if lack == 0 {
			for i := len(pieces) - 1; i >= 0; i-- {
				s.list.touch(pieces[i], s.stamp, shard)
			}
			return 0
		}
		if t.mayHave(s, lack) {
			return lack
		}
		if s.list.n == 0 { // there is no memory for this slot
			return 0
		}
		t.evictRunsLocked(s, s.list.taken-lack)
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
	for s.list.n > n {
		t.evictRunLocked(s, s.list.n-n)
	}
}

// evictRunsLocked evicts until at most n runs remain. s.mu is held.
func (t *Table) evictRunsLocked(s *slot, n int) {
	for s.list.taken > max(n, 0) {
		t.evictRunLocked(s, group)
	}
}

// evictRunLocked forgets up to n of the slot's least recently used blocks.
func (t *Table) evictRunLocked(s *slot, n int) {
	e := s.list.evict(n)
	t.planes[s.num/planeSlots].Load().shards[e.shard].remove(&t.records, e, s.bit)
}
