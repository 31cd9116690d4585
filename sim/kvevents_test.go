package sim_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/expediterhq/expediter/sim"
)

func count(from, n uint32) (ids []uint32) {
	for i := range n {
		ids = append(ids, from+i)
	}
	return ids
}

// The expected values come from Python's own pickle and hashlib.
func TestBlockHashes(t *testing.T) {
	tests := []struct {
		name, adapter, salt string
		ids                 []uint32
		want                []uint64
	}{
		{"two blocks and a rest", "", "", count(0, 40), []uint64{3262291359910021016, 7142137847444424233}},
		{"adapter", "my-lora", "", count(0, 16), []uint64{8978082746043428526}},
		{"salt", "", "salt-1", count(0, 16), []uint64{2668139738732714564}},
		{"large ids", "", "", count(127990, 16), []uint64{3509834404650350834}},
	}
	for _, tt := range tests {
		if got := sim.BlockHashes(nil, tt.adapter, tt.salt, tt.ids, 16); !slices.Equal(got, tt.want) {
			t.Errorf("%s: BlockHashes = %v, want %v", tt.name, got, tt.want)
		}
	}
	a := sim.BlockHashes(nil, "a", "s", count(0, 32), 16)
	b := sim.BlockHashes(nil, "a", "", count(0, 32), 16)
	if a[0] == b[0] || a[1] == b[1] {
		t.Error("the salt of the first block does not separate the chain")
	}
}

// unpack decodes one MessagePack value of the kinds that batches hold.
func unpack(b []byte) (v any, rest []byte) {
	c := b[0]
	b = b[1:]
	list := func(n int) (any, []byte) {
		out := make([]any, n)
		for i := range out {
			out[i], b = unpack(b)
		}
		return out, b
	}
	table := func(n int) (any, []byte) {
		out := map[string]any{}
		for range n {
			var k, v any
			k, b = unpack(b)
			v, b = unpack(b)
			out[k.(string)] = v
		}
		return out, b
	}
	switch {
	case c < 0x80:
		return uint64(c), b
	case c < 0x90:
		return table(int(c & 15))
	case c < 0xa0:
		return list(int(c & 15))
	case c < 0xc0:
		return string(b[:c&31]), b[c&31:]
	}
	switch c {
	case 0xc0:
		return nil, b
	case 0xcb:
		return math.Float64frombits(binary.BigEndian.Uint64(b)), b[8:]
	case 0xcc:
		return uint64(b[0]), b[1:]
	case 0xcd:
		return uint64(binary.BigEndian.Uint16(b)), b[2:]
	case 0xce:
		return uint64(binary.BigEndian.Uint32(b)), b[4:]
	case 0xcf:
		return binary.BigEndian.Uint64(b), b[8:]
	case 0xdc:
		n := int(binary.BigEndian.Uint16(b))
		b = b[2:]
		return list(n)
	}
	panic(fmt.Sprintf("unexpected byte %#x", c))
}

type batch struct {
	number uint64
	events []any
}

// publish runs requests one after the other on a replica that holds 12 blocks
// and returns its batches.
func publish(t *testing.T, arrays bool, bodies ...string) (batches []batch) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var n sim.Network
		p := steady
		p.KVTokens = 12 * 16
		r, err := n.Replica("replica:8000", sim.Config{
			Model: "m", Profile: p, Adapters: map[string]string{"t1": "/t1"},
			KVEvents: &sim.KVEvents{Arrays: arrays, Publish: func(number uint64, payload []byte) {
				v, rest := unpack(payload)
				l := v.([]any)
				if len(rest) != 0 || len(l) != 3 || l[0].(float64) < 9e8 || l[2] != uint64(0) {
					t.Errorf("batch = %v with %d bytes behind", v, len(rest))
				}
				batches = append(batches, batch{number, l[1].([]any)})
			}},
		})
		if err != nil {
			t.Fatal(err)
		}
		tr := n.Transport()
		for _, body := range bodies {
			resp, err := complete(t.Context(), &http.Client{Transport: tr}, body)
			if err != nil {
				t.Fatal(err)
			}
			b, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if resp.StatusCode != 200 {
				t.Fatalf("%s", b)
			}
		}
		if !r.ResetPrefixCache() {
			t.Error("ResetPrefixCache fails on an idle replica")
		}
		tr.CloseIdleConnections()
		_ = r.Close()
	})
	return batches
}

func prompt(from uint32, n uint32, rest string) string {
	return `{"prompt":` + strings.ReplaceAll(fmt.Sprint(count(from, n)), " ", ",") + rest + `}`
}

func TestKVEventMaps(t *testing.T) {
	batches := publish(t, false,
		prompt(0, 40, `,"max_tokens":10`),             // 2 blocks, and a third of its output
		prompt(0, 40, `,"max_tokens":1,"model":"t1"`), // 2 blocks of the adapter's own
		prompt(500, 150, `,"max_tokens":1`),           // 9 blocks and a rest: evicts two
	)
	want := sim.BlockHashes(nil, "", "", count(0, 32), 16)
	lora := sim.BlockHashes(nil, "t1", "", count(0, 32), 16)
	first := batches[0].events[0].(map[string]any)
	if got := fmt.Sprint(first["type"], first["block_hashes"], first["parent_block_hash"], first["block_size"], first["medium"], first["lora_id"], first["lora_name"]); got != fmt.Sprint("BlockStored", want, nil, 16, "GPU", nil, nil) {
		t.Errorf("first event = %s", got)
	}
	if got := fmt.Sprint(first["token_ids"]); got != fmt.Sprint(count(0, 32)) {
		t.Errorf("token_ids = %s", got)
	}
	out := batches[1].events[0].(map[string]any)
	ids := out["token_ids"].([]any)
	if out["parent_block_hash"] != want[1] || len(ids) != 16 || fmt.Sprint(ids[:8]) != fmt.Sprint(count(32, 8)) {
		t.Errorf("event of the block with output = %v", out)
	}
	second := batches[2].events[0].(map[string]any)
	if fmt.Sprint(second["block_hashes"], second["lora_name"], second["lora_id"]) != fmt.Sprint(lora, "t1", 1) {
		t.Errorf("event of the adapter = %v", second)
	}
	var removed []any
	for _, e := range batches[3].events {
		if m := e.(map[string]any); m["type"] == "BlockRemoved" {
			if len(m["block_hashes"].([]any)) != 1 || m["medium"] != "GPU" {
				t.Errorf("event = %v, want one hash", m)
			}
			removed = append(removed, m["block_hashes"].([]any)[0])
		}
	}
	if fmt.Sprint(removed) != fmt.Sprint([]any{out["block_hashes"].([]any)[0], want[1], want[0]}) {
		t.Errorf("removed %v, want the oldest sequence's blocks, tail first", removed)
	}
	if last := batches[4].events[0].(map[string]any); last["type"] != "AllBlocksCleared" || len(batches) != 5 {
		t.Errorf("last of %d batches = %v", len(batches), last)
	}
	for i, b := range batches {
		if b.number != uint64(i) {
			t.Errorf("batch %d has number %d", i, b.number)
		}
	}
}

func TestKVEventArrays(t *testing.T) {
	batches := publish(t, true, prompt(0, 17, `,"max_tokens":1`), prompt(500, 190, `,"max_tokens":1`))
	want := sim.BlockHashes(nil, "", "", count(0, 16), 16)
	if got := fmt.Sprint(batches[0].events...); got != fmt.Sprint([]any{"BlockStored", want, nil, count(0, 16), 16, nil, "GPU", nil}) {
		t.Errorf("event = %s", got)
	}
	if got := fmt.Sprint(batches[1].events[0]); got != fmt.Sprint([]any{"BlockRemoved", want, "GPU"}) {
		t.Errorf("event = %s", got)
	}
	if got := fmt.Sprint(batches[2].events...); got != "[AllBlocksCleared]" {
		t.Errorf("event = %s", got)
	}
}
