package sim

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// generator is a deterministic source of words; each is one token and wordLen
// bytes long.
type generator struct{ seed uint64 }

const wordLen = 4

func (g generator) at(i int) uint64 { return mix64(g.seed ^ mix64(uint64(i)+0x9e3779b97f4a7c15)) }

// append appends the i-th word.
func (g generator) append(dst []byte, i int) []byte {
	const consonants, vowels = "bcdfghjklmnprstvwz", "aeiou"
	x := g.at(i)
	return append(dst, ' ', consonants[x%18], vowels[x>>8%5], consonants[x>>16%18])
}

// ending is where a stop string ends an output.
type ending struct {
	stop   string
	tokens int // generated, the one that completes the stop string included
	cut    int // bytes of text before the stop string
}

// find returns the first place in n tokens where a stop string is complete,
// not before atLeast tokens.
func (g generator) find(stops []string, n, atLeast int) (ending, bool) {
	if len(stops) == 0 {
		return ending{}, false
	}
	var text []byte
	for i := range n {
		text = g.append(text, i)
		if i+1 < atLeast {
			continue
		}
		for _, stop := range stops {
			from := max(0, len(text)-wordLen-len(stop))
			if at := bytes.Index(text[from:], []byte(stop)); at >= 0 && stop != "" {
				return ending{stop, i + 1, from + at}, true
			}
		}
	}
	return ending{}, false
}

// fourBytes is the default tokenizer: an id per 4 bytes and one for the rest.
func fourBytes(dst []uint32, text string) []uint32 {
	for len(text) > 0 {
		n := min(len(text), 4)
		h := uint64(n)
		for i := range n {
			h = h<<8 | uint64(text[i])
		}
		dst = append(dst, uint32(mix64(h)%128000))
		text = text[n:]
	}
	return dst
}

// renderChat is the default chat template.
func renderChat(dst []byte, messages, tools json.RawMessage) ([]byte, error) {
	var list []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	}
	if err := json.Unmarshal(messages, &list); err != nil {
		return nil, fmt.Errorf("messages: %w", err)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("messages: want at least one")
	}
	if len(tools) > 0 {
		dst = append(append(append(dst, "<|tools|>"...), tools...), '\n')
	}
	for _, m := range list {
		dst = append(append(append(dst, "<|"...), m.Role...), "|>"...)
		var text string
		if json.Unmarshal(m.Content, &text) == nil {
			dst = append(dst, text...)
		} else {
			dst = append(dst, m.Content...)
		}
		dst = append(dst, '\n')
	}
	return append(dst, "<|assistant|>"...), nil
}

// hashIDs is a hash of seed and ids.
func hashIDs(seed uint64, ids []uint32) uint64 {
	h := mix64(seed ^ 0xcbf29ce484222325)
	for _, id := range ids {
		h = (h ^ uint64(id)) * 0x100000001b3
	}
	return mix64(h)
}

// chain names the full blocks of ids, each by its content and the block before.
func chain(seed uint64, ids []uint32, size int) []uint64 {
	out := make([]uint64, 0, len(ids)/size)
	for len(ids) >= size {
		seed = hashIDs(seed, ids[:size])
		out = append(out, seed)
		ids = ids[size:]
	}
	return out
}

// chainSeed keeps adapters and salts apart.
func chainSeed(adapter, salt string) uint64 {
	h := uint64(len(adapter))
	for i := range len(adapter) {
		h = mix64(h ^ uint64(adapter[i]))
	}
	h = mix64(h + uint64(len(salt)))
	for i := range len(salt) {
		h = mix64(h ^ uint64(salt[i]))
	}
	return h
}
