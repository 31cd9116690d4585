package prefix

import "sync"

// shard finds the records of a plane by their first blocks. Those of up to 16
// blocks of a chain, which are looked for together, are in one shard: that of the
// first of them.
//
// A record ends where a chain that shares its beginning goes another way: the
// rest of that one is a record of its own, which its first block finds.
type shard struct {
	mu    sync.RWMutex
	table segments
	_     [shardBytes - (24 + 24 + 6*8)]byte // a shard does not share a cache line with the next
}

const shardBytes = 128

// shardOf returns the number of the shard for a group whose first mixed key this
// is.
func shardOf(mixed uint64) uint8 { return uint8(mixed >> 40 % shards) }

// find returns the number of the record that begins with a mixed key, or 0.
func (sh *shard) find(r *records, mixed uint64) uint32 {
	p, i := sh.table.find(mixed, func(number uint32) bool { return r.at(number).keys[0] == mixed })
	if p == nil {
		return 0
	}
	return p[i].number()
}

// piece is the part of a group of blocks that one record has: its first blocks.
type piece struct {
	record uint32
	n      uint8
	mixed  uint64 // key of the first
}

// add adds a slot to those that hold each of keys, and returns the pieces that
// they are in. Where the slot would need more than room runs for that nothing
// changes, and add returns how many more.
func (sh *shard) add(r *records, keys []uint64, slot uint64, room int, into *[group]piece) (pieces []piece, lack int) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	pieces = into[:0]
	rest := keys
	for len(rest) > 0 {
		number := sh.find(r, rest[0])
		if number == 0 {
			break
		}
		n := r.at(number).match(rest)
		pieces = append(pieces, piece{number, uint8(n), rest[0]})
		rest = rest[n:]
	}
	grown := len(rest) > 0 && len(pieces) > 0 && r.at(pieces[len(pieces)-1].record).endsAt(pieces[len(pieces)-1].n)
	need := r.runs(pieces, slot)
	if len(rest) > 0 && !grown {
		need++
	}
	if need > room {
		return nil, need - room
	}
	if grown {
		last := &pieces[len(pieces)-1]
		copy(r.at(last.record).keys[last.n:], rest)
		last.n += uint8(len(rest))
	} else if number := sh.begin(r, rest); number != 0 {
		pieces = append(pieces, piece{number, uint8(len(rest)), rest[0]})
	}
	for _, p := range pieces {
		for i := range p.n {
			r.at(p.record).slots[i] |= slot
		}
	}
	return pieces, 0
}

// begin makes a record of keys, and returns its number, or 0 where there are none.
func (sh *shard) begin(r *records, keys []uint64) uint32 {
	if len(keys) == 0 {
		return 0
	}
	number := r.take()
	if number != 0 {
		copy(r.at(number).keys[:], keys)
		sh.table.add(newEntry(keys[0], number))
	}
	return number
}

// remove takes a slot from those that hold the blocks of a record from one to
// another, of which the slot holds none further on.
func (sh *shard) remove(r *records, e evicted, slot uint64) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	rec := r.at(e.record)
	for i := e.from; i < e.to; i++ {
		rec.slots[i] &^= slot
	}
	if rec.slots[0] != 0 {
		return
	}
	p, i := sh.table.find(rec.keys[0], func(number uint32) bool { return number == e.record })
	sh.table.remove(p, i)
	r.put(e.record)
}
