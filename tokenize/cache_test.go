package tokenize_test

import (
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/expediterhq/expediter/tokenize"
	"github.com/expediterhq/expediter/tokenize/chat"
	"github.com/expediterhq/expediter/tokenize/demo"
)

func demoModel(t testing.TB) *tokenize.Model {
	t.Helper()
	m, err := tokenize.Load(demo.Files)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// chainBlocks is a block hash of the form that Blocks wants.
func chainBlocks(dst []uint64, seed uint64, ids []uint32, size int) []uint64 {
	for ; len(ids) >= size; ids = ids[size:] {
		for _, id := range ids[:size] {
			seed = (seed ^ uint64(id)) * 0x100000001b3
		}
		dst = append(dst, seed)
	}
	return dst
}

// conversation writes text with turns of random length.
func conversation(rng *rand.Rand, turns int) string {
	var s strings.Builder
	for range turns {
		s.WriteString("<|im_start|>user\n")
		for range rng.IntN(120) {
			s.WriteString([]string{"the ", "server ", "closes", ", ", "idle ", "connections", "\n", "été ", "12 ", "中文"}[rng.IntN(10)])
		}
		s.WriteString("<|im_end|>\n")
	}
	return s.String()
}

// checkCached compares what a cache gives with what the tokenizer gives.
func checkCached(t *testing.T, c *tokenize.Cache, b *tokenize.BPE, text string, by tokenize.Blocks, prefix []uint32) {
	t.Helper()
	want, err := b.Append(slices.Clone(prefix), text)
	if err != nil {
		t.Fatal(err)
	}
	wantHashes := chainBlocks([]uint64{7}, by.Seed, want[len(prefix):], by.Size)
	got, err := c.Append(slices.Clone(prefix), text)
	if err != nil || !slices.Equal(got, want) {
		t.Fatalf("Append gave %d ids, error %v, want %d", len(got), err, len(want))
	}
	got, hashes, err := c.AppendBlocks(slices.Clone(prefix), []uint64{7}, text, tokenize.Options{}, by)
	if err != nil || !slices.Equal(got, want) || !slices.Equal(hashes, wantHashes) {
		t.Fatalf("AppendBlocks gave %d ids and %d hashes, error %v, want %d and %d", len(got), len(hashes), err, len(want), len(wantHashes))
	}
}

func TestCacheNeverChangesAResult(t *testing.T) {
	b := demoModel(t).Tokenizer()
	for _, size := range []int{20_000, 1 << 20, 0} {
		c := tokenize.NewCache(b, size)
		rng := newRand(uint64(size))
		var texts []string
		for range 300 {
			text := conversation(rng, 1+rng.IntN(6))
			if len(texts) > 0 && rng.IntN(4) > 0 { // go on with an earlier one, or a part of it
				old := texts[rng.IntN(len(texts))]
				text = old[:rng.IntN(len(old)+1)]
				text = strings.ToValidUTF8(text, "") + conversation(rng, 1+rng.IntN(3))
			}
			texts = append(texts, text)
			by := tokenize.Blocks{Append: chainBlocks, Seed: uint64(rng.IntN(2)), Size: []int{1, 4, 16, 32}[rng.IntN(4)]}
			checkCached(t, c, b, text, by, make([]uint32, rng.IntN(3)))
		}
		if used := c.Used(); used > size {
			t.Errorf("cache of %d bytes uses %d", size, used)
		}
	}
}

func TestCacheIsUsed(t *testing.T) {
	b := demoModel(t).Tokenizer()
	c := tokenize.NewCache(b, 16<<20)
	hashed := 0
	by := tokenize.Blocks{Seed: 1, Size: 16, Append: func(dst []uint64, seed uint64, ids []uint32, size int) []uint64 {
		hashed += len(ids) / size
		return chainBlocks(dst, seed, ids, size)
	}}
	text := conversation(newRand(3), 20)
	var work [3]int // blocks hashed by each call
	for i := range work {
		before := hashed
		_, hashes, err := c.AppendBlocks(nil, nil, text, tokenize.Options{}, by)
		if err != nil {
			t.Fatal(err)
		}
		if len(hashes) < 50 {
			t.Fatalf("%d hashes", len(hashes))
		}
		work[i] = (hashed - before) * 100 / len(hashes)
		if remembers := c.Used() > 0; remembers != (i > 0) {
			t.Errorf("after call %d the cache holds %d bytes", i+1, c.Used())
		}
	}
	if work[0] != 100 || work[1] != 100 || work[2] > 33 {
		t.Errorf("hashed %v %% of the blocks, want all, all and few", work)
	}
}

// TestCacheKeepsWhatComesAgain: prompts that come once do not push out turns that
// came twice.
func TestCacheKeepsWhatComesAgain(t *testing.T) {
	c := tokenize.NewCache(demoModel(t).Tokenizer(), 1<<20)
	appendTo := func(text string) {
		t.Helper()
		if _, err := c.Append(nil, text); err != nil {
			t.Fatal(err)
		}
	}
	text := conversation(newRand(5), 4)
	appendTo(text)
	appendTo(text)
	held := c.Used()
	rng := newRand(6)
	for range 500 {
		appendTo(conversation(rng, 10))
	}
	if c.Used() != held || held == 0 {
		t.Errorf("the cache held %d bytes, and after others that came once %d", held, c.Used())
	}
}

func TestCacheKeepsLimits(t *testing.T) {
	b := demoModel(t).Tokenizer()
	c := tokenize.NewCache(b, 1<<20)
	text := conversation(newRand(4), 10)
	want, err := c.Append(nil, text)
	if err != nil {
		t.Fatal(err)
	}
	for _, limit := range []int{len(want), len(want) - 1, 1} {
		_, err := c.AppendWith(nil, text, tokenize.Options{MaxTokens: limit})
		if errors.Is(err, tokenize.ErrTooLong) != (limit < len(want)) {
			t.Errorf("limit %d of %d tokens: error %v", limit, len(want), err)
		}
	}
	if _, err := c.Append(nil, "a\xff"); !errors.Is(err, tokenize.ErrInvalidUTF8) {
		t.Errorf("invalid text: error %v", err)
	}
}

// TestCacheOfAnySize: sizes that make no sense remember nothing or little.
func TestCacheOfAnySize(t *testing.T) {
	b := demoModel(t).Tokenizer()
	text := conversation(newRand(7), 3)
	want, err := b.Append(nil, text)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{math.MinInt, -1, 0, 1, 4000, math.MaxInt} {
		c := tokenize.NewCache(b, size)
		for range 3 {
			if got, err := c.Append(nil, text); err != nil || !slices.Equal(got, want) {
				t.Errorf("a cache of %d bytes gives %d ids, error %v, want %d", size, len(got), err, len(want))
			}
		}
		if used := c.Used(); used > max(0, size) || size == math.MaxInt && used == 0 {
			t.Errorf("a cache of %d bytes uses %d", size, used)
		}
	}
}

func TestCacheConcurrently(t *testing.T) {
	b := demoModel(t).Tokenizer()
	c := tokenize.NewCache(b, 30_000)
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			rng := newRand(uint64(worker % 2)) // two of each
			for range 40 {
				text := conversation(rng, 1+rng.IntN(6))
				want, _ := b.Append(nil, text)
				got, err := c.Append(nil, text)
				if err != nil || !slices.Equal(got, want) {
					t.Errorf("Append gave %d ids, error %v, want %d", len(got), err, len(want))
				}
			}
		})
	}
	wg.Wait()
}

func TestAppendChatBlocks(t *testing.T) {
	m := demoModel(t)
	in := chat.Input{Messages: json.RawMessage(`[{"role": "user", "content": "` + strings.Repeat("why is the sky blue? ", 60) + `"}]`)}
	by := tokenize.Blocks{Append: chainBlocks, Seed: 5, Size: 16}
	want, err := m.AppendChat(nil, in)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 { // new, noted, remembered
		ids, hashes, _, err := m.AppendChatBlocks(nil, nil, in, by)
		if err != nil || !slices.Equal(ids, want) || !slices.Equal(hashes, chainBlocks(nil, 5, want, 16)) {
			t.Errorf("AppendChatBlocks gave %d ids, %d hashes, error %v", len(ids), len(hashes), err)
		}
	}
}
