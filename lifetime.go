package expediter

// join makes g one of the generations that serve.
func (h *Handler) join(g *generation) {
	f := &h.flight
	f.mu.Lock()
	defer f.mu.Unlock()
	f.serving = append(f.serving, g)
	for _, p := range g.pools {
		f.hearLocked(p)
	}
}

// release ends what g, which was replaced, has alone, as far as g has no
// requests any more.
func (h *Handler) release(g *generation) {
	for name, p := range g.pools {
		tasks, own := h.flight.unused(p)
		if tasks {
			p.tasks.end()
		}
		if own {
			p.own.Close()
		}
		h.closeUnused(name, p.Transport)
	}
}

// let ends those of the generations, which were held, that nobody needs any more.
func (h *Handler) let(held []*generation) {
	for _, g := range held {
		if h.flight.let(g) {
			h.release(g)
		}
	}
}

// unused reports which parts of p serve no generation any more.
func (f *flight) unused(p *pool) (tasks, own bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	tasks, own = true, p.own != nil
	for _, g := range f.serving {
		if o := g.pools[p.Name]; o != nil {
			tasks = tasks && o.tasks != p.tasks
			own = own && o.own != p.own
		}
	}
	f.hearLocked(p)
	return tasks, own
}

// hearLocked lets the lines of all generations of p hear of room, each once.
func (f *flight) hearLocked(p *pool) {
	lines := []Admitter{}
	for _, g := range f.serving {
		if o := g.pools[p.Name]; o != nil && o.tasks == p.tasks && !heard(lines, o.Admitter) {
			lines = append(lines, o.Admitter)
		}
	}
	p.tasks.freed.Store(&lines)
}

// heard reports whether a is one of lines.
func heard(lines []Admitter, a Admitter) bool {
	for _, o := range lines {
		if same(o, a) {
			return true
		}
	}
	return false
}

// pools returns the pools of all generations that serve.
func (f *flight) pools() []*pool {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []*pool
	for _, g := range f.serving {
		for _, p := range g.pools {
			all = append(all, p)
		}
	}
	return all
}
