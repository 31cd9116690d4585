package tokenize

// minHeap is a heap with four children per node: shallower than a binary heap,
// and the children share a cache line.
type minHeap []uint64

func (h *minHeap) push(v uint64) {
	*h = append(*h, v)
	s, i := *h, len(*h)-1
	for i > 0 {
		up := (i - 1) / 4
		if s[up] <= v {
			break
		}
		s[i] = s[up]
		i = up
	}
	s[i] = v
}

func (h *minHeap) pop() {
	last := len(*h) - 1
	v := (*h)[last]
	*h = (*h)[:last]
	if last > 0 {
		h.replaceTop(v)
	}
}

func (h *minHeap) replaceTop(v uint64) {
	s, i := *h, 0
	for {
		child := 4*i + 1
		if child >= len(s) {
			break
		}
		least := child
		for j := child + 1; j < min(child+4, len(s)); j++ {
			if s[j] < s[least] {
				least = j
			}
		}
		if s[least] >= v {
			break
		}
		s[i] = s[least]
		i = least
	}
	s[i] = v
}
