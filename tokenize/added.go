package tokenize

import (
	"slices"
	"strings"
)

// addedTokens finds the tokens that are recognised inside text before it is
// split into words: of those that start at the leftmost place the longest. It
// is a trie, read-only once built.
type addedTokens struct {
	nodes []trieNode
	edges []trieEdge
	root  [256]uint32 // node for a first byte; 0: no token starts with it
	only  int         // the single first byte, or -1 where there are several
}

type trieNode struct {
	lo, hi uint32 // its edges
	id     uint32 // token that ends here, or none
}

type trieEdge struct {
	to uint32
	b  byte
}

type addedToken struct {
	content string
	id      uint32
}

// newAddedTokens builds the trie. Contents must not be empty; of equal ones
// the last counts.
func newAddedTokens(tokens []addedToken) *addedTokens {
	if len(tokens) == 0 {
		return nil
	}
	tokens = slices.Clone(tokens)
	slices.SortStableFunc(tokens, func(a, b addedToken) int { return strings.Compare(a.content, b.content) })
	t := &addedTokens{nodes: []trieNode{{id: none}}, only: -1}
	t.build(0, tokens, 0)
	for _, e := range t.edges[t.nodes[0].lo:t.nodes[0].hi] {
		t.root[e.b] = e.to
	}
	if t.nodes[0].hi-t.nodes[0].lo == 1 {
		t.only = int(t.edges[t.nodes[0].lo].b)
	}
	return t
}

// build fills node n, whose tokens, sorted, share their first depth bytes.
func (t *addedTokens) build(n uint32, tokens []addedToken, depth int) {
	for len(tokens) > 0 && len(tokens[0].content) == depth {
		t.nodes[n].id = tokens[0].id
		tokens = tokens[1:]
	}
	type group struct{ node, from, to int }
	var groups []group
	t.nodes[n].lo = uint32(len(t.edges))
	for from := 0; from < len(tokens); {
		b, to := tokens[from].content[depth], from
		for to < len(tokens) && tokens[to].content[depth] == b {
			to++
		}
		groups = append(groups, group{len(t.nodes), from, to})
		t.edges = append(t.edges, trieEdge{uint32(len(t.nodes)), b})
		t.nodes = append(t.nodes, trieNode{id: none})
		from = to
	}
	t.nodes[n].hi = uint32(len(t.edges))
	for _, g := range groups {
		t.build(uint32(g.node), tokens[g.from:g.to], depth+1)
	}
}

// next returns the first token in s at or after i. Where there is none, start
// is len(s).
func (t *addedTokens) next(s string, i int) (start, end int, id uint32) {
	if t == nil {
		return len(s), len(s), none
	}
	for i < len(s) {
		if t.only >= 0 {
			n := strings.IndexByte(s[i:], byte(t.only))
			if n < 0 {
				break
			}
			i += n
		} else {
			for i < len(s) && t.root[s[i]] == 0 {
				i++
			}
			if i == len(s) {
				break
			}
		}
		if end, id := t.match(s, i); id != none {
			return i, end, id
		}
		i++
	}
	return len(s), len(s), none
}

// match returns the longest token at i.
func (t *addedTokens) match(s string, i int) (end int, id uint32) {
	id = none
	n := t.root[s[i]]
	for i++; ; i++ {
		node := t.nodes[n]
		if node.id != none {
			end, id = i, node.id
		}
		if i >= len(s) {
			return end, id
		}
		n = 0
		for _, e := range t.edges[node.lo:node.hi] {
			if e.b == s[i] {
				n = e.to
				break
			}
		}
		if n == 0 {
			return end, id
		}
	}
}
