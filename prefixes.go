package expediter

// PrefixSize is how much a pool's prefix map holds.
type PrefixSize struct {
	Blocks int   // over all replicas
	Bytes  int64 // of memory
}

// sized is a PrefixMap that can tell how large it is, such as prefix.Table.
type sized interface {
	Len(slot int) int
	Bytes() int64
}

// Prefixes returns the size of each pool's prefix map by the pool's name, for
// metrics; maps that cannot tell are left out.
func (h *Handler) Prefixes() map[string]PrefixSize {
	g := h.current.Load()
	sizes := make(map[string]PrefixSize, len(g.pools))
	for name, p := range g.pools {
		m, ok := p.Prefix.(sized)
		if !ok {
			continue
		}
		s := PrefixSize{Bytes: m.Bytes()}
		for slot := range p.replicas.Slots() {
			s.Blocks += m.Len(slot)
		}
		sizes[name] = s
	}
	return sizes
}
