package prefix

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// numbered are segments and the keys that their numbers stand for.
type numbered struct {
	segments
	keys map[uint32]uint64
}

func (x *numbered) put(key uint64, number uint32) {
	x.add(newEntry(key, number))
	if x.keys == nil {
		x.keys = map[uint32]uint64{}
	}
	x.keys[number] = key
}

// number returns the number of key, or 0.
func (x *numbered) number(key uint64) uint32 {
	if p, i := x.at(key); p != nil {
		return p[i].number()
	}
	return 0
}

func (x *numbered) at(key uint64) (*cells, uint8) {
	return x.find(key, func(number uint32) bool { return x.keys[number] == key })
}

func (x *numbered) drop(key uint64) {
	x.remove(x.at(key))
}

// check fails unless what s says of itself is so.
func check(t *testing.T, s *segments) {
	t.Helper()
	var own []*cells
	for i, p := range s.first {
		if !slices.Contains(own, p) {
			own = append(own, p)
		}
		if alone := i/2 >= s.count-len(s.first)/2; alone && p != s.first[i&^1] {
			t.Fatalf("of %d segments for %d places, place %d is divided", s.count, len(s.first), i)
		}
	}
	if len(own) != s.count || s.n > s.most || s.n < s.least || s.n == 0 && s.count > 0 {
		t.Fatalf("%d segments, want %d for %d entries, which is to be from %d to %d", len(own), s.count, s.n, s.least, s.most)
	}
	n := 0
	for _, p := range own {
		n += count(p)
	}
	first := map[*cells]bool{}
	for l := s.spills; l != nil; l = l.next {
		if l.n != count(l.cells) || l.n < segmentCells && first[l.home] || l.n == 0 || count(l.home) < segmentCells {
			t.Fatalf("a spill says %d entries, has %d, and %d are at home", l.n, count(l.cells), count(l.home))
		}
		n += l.n
		first[l.home] = true
	}
	if n != s.n {
		t.Fatalf("there are %d entries, want %d", n, s.n)
	}
	// What ownBytes and leastLocked suppose of a table.
	if got, most := s.bytes(), int64(s.n)*(entryBytes*10/3+1)+int64(s.n)*entryBytes+segmentBytes+listBytes; s.n > 0 && got > most {
		t.Fatalf("%d entries take %d bytes, want at most %d", s.n, got, most)
	}
}

func count(p *cells) (n int) {
	for _, e := range p {
		if e != 0 {
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

// TestSegmentsAgainstMap grows and shrinks a table, several times and less far
// each time but the last, and compares it with a map.
func TestSegmentsAgainstMap(t *testing.T) {
	for _, set := range keySets {
		t.Run(set.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 3))
			var x numbered
			want := map[uint64]uint32{}
			var keys []uint64
			made := uint32(0)
			for _, size := range []int{5000, 1200, 3000, 500, 2000, 0} {
				for len(keys) != size {
					if rng.IntN(4) > 0 == (len(keys) < size) {
						if key := set.key(rng.Uint64()); want[key] == 0 {
							made++
							keys = append(keys, key)
							want[key] = made
							x.put(key, made)
						}
					} else if len(keys) > 0 {
						keys = dropOne(t, &x, want, keys, rng)
					}
					if rng.IntN(100) == 0 {
						check(t, &x.segments)
					}
				}
				check(t, &x.segments)
				for key, number := range want {
					if got := x.number(key); got != number {
						t.Fatalf("with %d keys %x has number %d, want %d", len(keys), key, got, number)
					}
				}
			}
			if got := x.bytes(); got != 0 {
				t.Errorf("an empty table takes %d bytes", got)
			}
		})
	}
}

// dropOne takes out one of keys, and returns those that are left.
func dropOne(t *testing.T, x *numbered, want map[uint64]uint32, keys []uint64, rng *rand.Rand) []uint64 {
	i := rng.IntN(len(keys))
	key := keys[i]
	x.drop(key)
	if got := x.number(key); got != 0 {
		t.Fatalf("%x has number %d after it was taken out", key, got)
	}
	delete(want, key)
	keys[i] = keys[len(keys)-1]
	return keys[:len(keys)-1]
}

// TestOneSegmentAtATime: whatever is in a table, one key more or less changes a
// few segments at most and makes one.
func TestOneSegmentAtATime(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 3))
	var x numbered
	var keys []uint64
	before := map[*cells]cells{}
	step := func() {
		made, changed := 0, 0
		after := map[*cells]bool{}
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
		maps.DeleteFunc(before, func(p *cells, _ cells) bool { return !after[p] })
		if made > 1 || changed > 3 {
			t.Fatalf("with %d keys %d segments are made and %d change", len(keys), made, changed)
		}
	}
	for len(keys) < 6000 {
		keys = append(keys, rng.Uint64())
		x.put(keys[len(keys)-1], uint32(len(keys)))
		step()
	}
	for len(keys) > 0 {
		x.drop(keys[len(keys)-1])
		keys = keys[:len(keys)-1]
		step()
	}
}

// TestRoom: each segment more has room for more, and is not taken back as soon
// as it is there.
func TestRoom(t *testing.T) {
	var s segments
	for n := 1; n < 5000; n++ {
		if room(n+1) <= room(n) || room(n) > segmentCells*n*6/8 && n > 1 {
			t.Errorf("room(%d) = %d, room(%d) = %d", n, room(n), n+1, room(n+1))
		}
		if s.resized(n + 1); s.least > room(n)*9/10 {
			t.Errorf("%d segments are one too many with %d entries, and too few with %d", n+1, s.least-1, room(n))
		}
	}
}

// TestMixerSpreads: keys that have the same lower bits and follow from one another
// by addition, as whoever chooses them could have it, have places of their own.
func TestMixerSpreads(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 3))
	for shift := range 50 {
		m := mixer{rng.Uint64() | 1, rng.Uint64() | 1}
		var s segments
		n := 20_000
		if 64-shift < 15 {
			n = 1 << (64 - shift)
		}
		for i := range n {
			s.add(newEntry(m.mix(uint64(i)<<shift), 1))
		}
		check(t, &s)
		if s.spills != nil {
			t.Errorf("of %d keys with %d equal lower bits some have no room in their segments", n, shift)
		}
		away := 0
		for _, p := range s.first {
			for i, e := range p {
				if e != 0 {
					away += int(uint8(i) - place(uint64(e)))
				}
			}
		}
		if away > 4*n {
			t.Errorf("%d keys with %d equal lower bits are %d places from where they belong", n, shift, away)
		}
	}
}
