package main

// trained is a byte pair encoding: tokens 0 to 255 are the bytes, each further
// one is made by at least one merge.
type trained struct {
	tokens []string
	merges []pair
	ids    map[string]int
}

type pair struct{ left, right int }

// word is a word of the corpus as symbols, with the number of its occurrences.
type word struct {
	syms  []int
	count int
}

// trainer keeps, for each pair of neighbouring symbols, how often it occurs and
// in which words.
type trainer struct {
	m      trained
	words  []word
	counts map[pair]int
	where  map[pair]map[int]bool
}

// train learns merges until there are size tokens. Of equally frequent pairs
// the one whose text sorts first is merged, so the result depends on nothing
// but the words.
func train(words map[string]int, size int) *trained {
	t := &trainer{counts: map[pair]int{}, where: map[pair]map[int]bool{}}
	t.m.ids = map[string]int{}
	for b := range 256 {
		t.m.id(string([]byte{byte(b)}))
	}
	for _, text := range sortedWords(words) {
		w := word{count: words[text]}
		for i := range len(text) {
			w.syms = append(w.syms, int(text[i]))
		}
		t.words = append(t.words, w)
		t.tally(len(t.words)-1, 1)
	}
	for len(t.m.tokens) < size {
		best, ok := t.best()
		if !ok {
			break
		}
		t.merge(best)
	}
	return &t.m
}

// id returns the id of a token, which is the next one if the token is new: two
// merges can make the same token.
func (m *trained) id(token string) int {
	id, ok := m.ids[token]
	if !ok {
		id = len(m.tokens)
		m.ids[token] = id
		m.tokens = append(m.tokens, token)
	}
	return id
}

// tally adds the pairs of word i to the counts, or takes them away.
func (t *trainer) tally(i, sign int) {
	w := t.words[i]
	for j := range len(w.syms) - 1 {
		p := pair{w.syms[j], w.syms[j+1]}
		if t.counts[p] += sign * w.count; t.counts[p] == 0 {
			delete(t.counts, p)
		}
		if t.where[p] == nil {
			t.where[p] = map[int]bool{}
		}
		if sign > 0 {
			t.where[p][i] = true
		} else {
			delete(t.where[p], i)
		}
	}
}

// best returns the pair to merge next. A pair seen once is not worth a token.
func (t *trainer) best() (pair, bool) {
	best, most := pair{}, 1
	for p, n := range t.counts {
		if n > most || n == most && most > 1 && t.before(p, best) {
			best, most = p, n
		}
	}
	return best, most > 1
}

func (t *trainer) before(a, b pair) bool {
	if l, m := t.m.tokens[a.left], t.m.tokens[b.left]; l != m {
		return l < m
	}
	return t.m.tokens[a.right] < t.m.tokens[b.right]
}

func (t *trainer) merge(p pair) {
	made := t.m.id(t.m.tokens[p.left] + t.m.tokens[p.right])
	t.m.merges = append(t.m.merges, p)
	var affected []int
	for i := range t.where[p] {
		affected = append(affected, i)
	}
	for _, i := range affected {
		t.tally(i, -1)
		syms := t.words[i].syms
		out := syms[:0]
		for j := 0; j < len(syms); j++ {
			if j+1 < len(syms) && syms[j] == p.left && syms[j+1] == p.right {
				out = append(out, made)
				j++
				continue
			}
			out = append(out, syms[j])
		}
		t.words[i].syms = out
		t.tally(i, 1)
	}
}
