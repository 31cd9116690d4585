package prefix

// slotOf returns the slot, and makes it if it has not been used before.
func (t *Table) slotOf(num int) *slot {
	if s := t.slots[num].Load(); s != nil {
		return s
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.slots[num].Load(); s != nil {
		return s
	}
	p := &t.planes[num/planeSlots]
	fresh := p.Load() == nil
	if t.made++; fresh {
		t.madePlanes++
	}
	t.divideLocked() // before there is what takes the memory
	if fresh {
		p.Store(new(plane))
	}
	s := &slot{num: num, bit: 1 << (num % planeSlots), want: t.cfg.Blocks, limit: t.cfg.Blocks, retired: true}
	t.slots[num].Store(s)
	return s
}

// SetBlocks says how many blocks the replica's cache has room for. Fewer are
// kept when the table's memory does not suffice for all slots.
func (t *Table) SetBlocks(slot, n int) {
	if slot < 0 || slot >= len(t.slots) || n < 1 {
		return
	}
	n = min(n, maxBlocks)
	s := t.slotOf(slot)
	t.mu.Lock()
	defer t.mu.Unlock()
	s.mu.Lock()
	changed := s.want != n
	if changed {
		s.want, s.limit = n, n
		t.evictLocked(s, n)
		if most := runsFor(n); s.grant > most {
			t.confineLocked(s, most)
		}
	}
	s.mu.Unlock()
	if changed && !s.retired {
		t.divideLocked()
	}
}

// Bytes returns the memory that the table's contents take now.
func (t *Table) Bytes() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	sum := t.fixedLocked() + int64(t.records.held())*recordBytes
	for _, s := range t.live {
		s.mu.Lock()
		sum += s.list.bytes()
		s.mu.Unlock()
	}
	for i := range t.planes {
		p := t.planes[i].Load()
		if p == nil {
			continue
		}
		for j := range p.shards {
			sh := &p.shards[j]
			sh.mu.RLock()
			sum += sh.table.bytes()
			sh.mu.RUnlock()
		}
	}
	return sum
}

// Len returns how many blocks the slot is believed to hold.
func (t *Table) Len(slot int) int {
	if slot < 0 || slot >= len(t.slots) {
		return 0
	}
	s := t.slots[slot].Load()
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.list.n
}
