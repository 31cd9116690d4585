package tokenize

// The merger's heap has four children per node: shallower than a binary heap,
// and the children share a cache line.

func (m *merger) heapify() {
	for i := (len(m.heap)+2)/4 - 1; i >= 0; i-- {
		m.down(i)
	}
}

func (m *merger) push(v uint64) {
	m.heap = append(m.heap, v)
	h, i := m.heap, len(m.heap)-1
	for i > 0 {
		up := (i - 1) / 4
		if h[up] <= v {
			break
		}
		h[i] = h[up]
		i = up
	}
	h[i] = v
}

func (m *merger) pop() {
	last := len(m.heap) - 1
	v := m.heap[last]
	m.heap = m.heap[:last]
	if last > 0 {
		m.replaceTop(v)
	}
}

func (m *merger) replaceTop(v uint64) {
	m.heap[0] = v
	m.down(0)
}

func (m *merger) down(i int) {
	h := m.heap
	v := h[i]
	for {
		child := 4*i + 1
		if child >= len(h) {
			break
		}
		least := child
		for j := child + 1; j < min(child+4, len(h)); j++ {
			if h[j] < h[least] {
				least = j
			}
		}
		if h[least] >= v {
			break
		}
		h[i] = h[least]
		i = least
	}
	h[i] = v
}
