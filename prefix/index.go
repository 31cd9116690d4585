package prefix

// index tells which slots hold a block, one bit for each slot. Its keys are
// mixed. The zero index is empty.
type index struct{ segments[cell] }

// cell is a mixed key and the slots that hold it, which are never none.
type cell [2]uint64

const cellBytes = 16

// slots returns the slots that hold key.
func (x *index) slots(key uint64) uint64 {
	if x.n == 0 {
		return 0
	}
	home, at := x.home(key), place(key)
	for i := at; home[i][1] != 0; {
		if home[i][0] == key {
			return home[i][1]
		}
		if i++; i == at {
			return x.spilled(key)
		}
	}
	return 0
}

// spilled is slots for a key that is not at home.
func (x *index) spilled(key uint64) uint64 {
	if p, i := x.find(key); p != nil {
		return p[i][1]
	}
	return 0
}

// find returns where key's cell is: nil if it is absent.
func (x *index) find(key uint64) (*cells[cell], uint8) {
	if x.n == 0 {
		return nil, 0
	}
	home, at := x.home(key), place(key)
	for i := at; home[i][1] != 0; {
		if home[i][0] == key {
			return home, i
		}
		if i++; i == at {
			return x.findSpilled(home, key)
		}
	}
	return nil, 0
}

// findSpilled is find for a key that is not at home.
func (x *index) findSpilled(home *cells[cell], key uint64) (*cells[cell], uint8) {
	for p := x.next(home, home); p != nil; p = x.next(home, p) {
		for i := range p {
			if p[i][0] == key && p[i][1] != 0 {
				return p, uint8(i)
			}
		}
	}
	return nil, 0
}

// set adds slots to those that hold key.
func (x *index) set(key, slots uint64) {
	x.reserve()
	home, at := x.home(key), place(key)
	i := at
	for home[i][1] != 0 {
		if home[i][0] == key {
			home[i][1] |= slots
			return
		}
		if i++; i == at {
			x.setSpilled(home, key, slots)
			return
		}
	}
	home[i] = cell{key, slots}
	x.n++
}

// setSpilled is set for a key that is not at home, where there is no room.
func (x *index) setSpilled(home *cells[cell], key, slots uint64) {
	if p, i := x.findSpilled(home, key); p != nil {
		p[i][1] |= slots
		return
	}
	x.spill(home, cell{key, slots})
	x.n++
}

// clear takes slots from those that hold key.
func (x *index) clear(key, slots uint64) {
	p, i := x.find(key)
	if p == nil {
		return
	}
	if rest := p[i][1] &^ slots; rest != 0 {
		p[i][1] = rest
		return
	}
	x.remove(p, i)
}
