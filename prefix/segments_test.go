package prefix

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// check fails unless what x says of itself is so.
func check(t *testing.T, x *index) {
	t.Helper()
	var own []*cells[cell]
	for i, p := range x.first {
		if !slices.Contains(own, p) {
			own = append(own, p)
		}
		if alone := i/2 >= x.count-len(x.first)/2; alone && p != x.first[i&^1] {
			t.Fatalf("of %d segments for %d places, place %d is divided", x.count, len(x.first), i)
		}
	}
	if len(own) != x.count || x.n > x.most || x.n < x.least || x.n == 0 && x.count > 0 {
		t.Fatalf("%d segments, want %d for %d cells, which is to be from %d to %d", len(own), x.count, x.n, x.least, x.most)
	}
	n := 0
	for i := range x.first {
		if i == 0 || x.first[i] != x.first[i-1] {
			n += count(x.first[i])
		}
	}
	first := map[*cells[cell]]bool{}
	for l := x.spills; l != nil; l = l.next {
		if l.n != count(l.cells) || l.n < segmentCells && first[l.home] || l.n == 0 || count(l.home) < segmentCells {
			t.Fatalf("a spill says %d cells, has %d, and %d are at home", l.n, count(l.cells), count(l.home))
		}
		n += l.n
		first[l.home] = true
	}
	if n != x.n {
		t.Fatalf("%d cells are taken, want %d", n, x.n)
	}
	// What pairBytes and budgetLocked suppose, for cells alone.
	if got, most := x.bytes(), int64(x.n)*(cellBytes*13/3+1)+segmentCells*cellBytes+listBytes; x.n > 0 && got > most {
		t.Fatalf("%d cells take %d bytes, want at most %d", x.n, got, most)
	}
}

func count(p *cells[cell]) (n int) {
	for i := range p {
		if p.taken(uint8(i)) {
			n++
		}
	}
	return n
}

// keySets are keys, mixed already, that are even and that are not.
var keySets = []struct {
	name string
	key  func(r uint64) uint64
}{
	{"even", func(r uint64) uint64 { return r }},
	{"two of many segments", func(r uint64) uint64 { return r &^ (1<<62 - 1<<40) }},
	{"one segment", func(r uint64) uint64 { return r % (1 << 40) }},
	{"few places", func(r uint64) uint64 { return r &^ (252 << 32) }},
	{"one place of one segment", func(r uint64) uint64 { return r % (1 << 32) }},
}

// TestIndexAgainstMap grows and shrinks an index, several times and less far
// each time but the last, and compares it with a map.
func TestIndexAgainstMap(t *testing.T) {
	for _, set := range keySets {
		t.Run(set.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 3))
			var x index
			want := map[uint64]uint64{}
			var keys []uint64
			for _, size := range []int{5000, 1200, 3000, 500, 2000, 0} {
				for len(keys) != size {
					if rng.IntN(4) > 0 == (len(keys) < size) {
						key := set.key(rng.Uint64())
						if len(keys) > 0 && rng.IntN(4) == 0 {
							key = keys[rng.IntN(len(keys))]
						}
						if want[key] == 0 {
							keys = append(keys, key)
						}
						slots := uint64(1) << rng.IntN(64)
						x.set(key, slots)
						want[key] |= slots
					} else if len(keys) > 0 {
						keys = clearOne(t, &x, want, keys, rng)
					}
					if rng.IntN(100) == 0 {
						check(t, &x)
					}
				}
				check(t, &x)
				for key, slots := range want {
					if got := x.slots(key); got != slots {
						t.Fatalf("with %d keys %x has slots %x, want %x", len(keys), key, got, slots)
					}
				}
			}
			if got := x.bytes(); got != 0 {
				t.Errorf("an empty index takes %d bytes", got)
			}
		})
	}
}

// clearOne takes slots from one of keys, and returns those that are left.
func clearOne(t *testing.T, x *index, want map[uint64]uint64, keys []uint64, rng *rand.Rand) []uint64 {
	i := rng.IntN(len(keys))
	key := keys[i]
	slots := rng.Uint64() | rng.Uint64()
	if rng.IntN(3) > 0 {
		slots = ^uint64(0)
	}
	x.clear(key, slots)
	want[key] &^= slots
	if got := x.slots(key); got != want[key] {
		t.Fatalf("%x has slots %x after clear, want %x", key, got, want[key])
	}
	if want[key] == 0 {
		delete(want, key)
		keys[i] = keys[len(keys)-1]
		keys = keys[:len(keys)-1]
		x.clear(key, slots) // there is nothing to clear
	}
	return keys
}

// TestOneSegmentAtATime: whatever is in an index, one key more or less changes a
// few segments at most and makes one.
func TestOneSegmentAtATime(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 3))
	var x index
	var keys []uint64
	before := map[*cells[cell]]cells[cell]{}
	step := func() {
		made, changed := 0, 0
		after := map[*cells[cell]]bool{}
		for _, p := range x.first {
			if after[p] {
				continue
			}
			after[p] = true
			old, ok := before[p]
			if !ok {
				made++
			}
			if old != *p {
				changed++
				before[p] = *p
			}
		}
		maps.DeleteFunc(before, func(p *cells[cell], _ cells[cell]) bool { return !after[p] })
		if made > 1 || changed > 3 {
			t.Fatalf("with %d keys %d segments are made and %d change", len(keys), made, changed)
		}
	}
	for len(keys) < 6000 {
		keys = append(keys, rng.Uint64())
		x.set(keys[len(keys)-1], 1)
		step()
	}
	for len(keys) > 0 {
		x.clear(keys[len(keys)-1], 1)
		keys = keys[:len(keys)-1]
		step()
	}
}

// TestRoom: each segment more has room for more, and is not taken back as soon
// as it is there.
func TestRoom(t *testing.T) {
	var s segments[entry]
	for n := 1; n < 5000; n++ {
		if room(n+1) <= room(n) || room(n) > segmentCells*n*6/8 && n > 1 {
			t.Errorf("room(%d) = %d, room(%d) = %d", n, room(n), n+1, room(n+1))
		}
		if s.resized(n + 1); s.least > room(n)*9/10 {
			t.Errorf("%d segments are one too many with %d cells, and too few with %d", n+1, s.least-1, room(n))
		}
	}
}

// TestMixerSpreads: keys that have the same lower bits and follow from one another
// by addition, as whoever chooses them could have it, have places of their own.
func TestMixerSpreads(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 3))
	for shift := range 50 {
		m := mixer{rng.Uint64() | 1, rng.Uint64() | 1}
		var x index
		n := 20_000
		if 64-shift < 15 {
			n = 1 << (64 - shift)
		}
		for i := range n {
			x.set(m.mix(uint64(i)<<shift), 1)
		}
		check(t, &x)
		if x.spills != nil {
			t.Errorf("of %d keys with %d equal lower bits some have no room in their segments", n, shift)
		}
		away := 0
		for _, p := range x.first {
			for i, c := range p {
				if c[1] != 0 {
					away += int(uint8(i) - place(c[0]))
				}
			}
		}
		if away > 4*n {
			t.Errorf("%d keys with %d equal lower bits are %d places from where they belong", n, shift, away)
		}
	}
}
