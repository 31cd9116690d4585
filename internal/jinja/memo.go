package jinja

import "math/bits"

const (
	memoSize = 128 // entries of the table, by twos
	memoArgs = 3   // arguments of a call that is remembered
	memoKey  = 64  // bytes of a str argument
	memoText = 512 // bytes of a text
)

// memo remembers what pure macros wrote during one render. It has two places
// per hash; a later call takes the place of an earlier one.
type memo struct {
	table []memoEntry
	used  []uint8 // pairs of places taken
}

// memoEntry is a call and its text. Arguments that were not given are Missing.
type memoEntry struct {
	info *macroInfo
	args [memoArgs]Value
	text string
}

// hash returns the first place of a call; ok is false if the call cannot be told
// from others by its arguments at little cost.
func (e *memoEntry) hash(n int) (place uint8, ok bool) {
	h := uint64(e.info.id)
	for i := range e.args[:n] {
		v := &e.args[i]
		h = bits.RotateLeft64(h*0x9e3779b97f4a7c15, 23) ^ uint64(v.kind) ^ v.num
		switch v.kind {
		case None, Bool, Int, Float:
		case String:
			if v.num > memoKey {
				return 0, false
			}
			h ^= ends(v.Str())
		case List, Tuple:
			if v.flag&literal == 0 {
				return 0, false
			}
			h ^= uint64(uintptr(v.ptr))
		default:
			return 0, false
		}
	}
	return uint8(h*0x9e3779b97f4a7c15>>58) * 2, true
}

// ends mixes some bytes of s from both ends.
func ends(s string) uint64 {
	n := len(s)
	if n < 4 {
		h := uint64(0)
		for i := range n {
			h = h<<8 | uint64(s[i])
		}
		return h
	}
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[n/2])<<24 |
		uint64(s[n-3])<<32 | uint64(s[n-2])<<40 | uint64(s[n-1])<<48
}

// find returns the text of an equal call.
func (m *memo) find(place uint8, e *memoEntry) (string, bool) {
	if m.table == nil {
		return "", false
	}
	pair := m.table[place : place+2]
	for i := range pair {
		if pair[i].info == e.info && pair[i].equal(e) {
			return pair[i].text, true
		}
	}
	return "", false
}

func (e *memoEntry) equal(o *memoEntry) bool {
	for i := range e.args {
		a, b := &e.args[i], &o.args[i]
		switch {
		case a.kind != b.kind || a.num != b.num || (a.flag^b.flag)&strMarkup != 0:
			return false
		case a.kind == String && a.Str() != b.Str():
			return false
		case a.kind != String && a.ptr != b.ptr:
			return false
		}
	}
	return true
}

func (m *memo) put(place uint8, e *memoEntry) {
	if m.table == nil {
		m.table, m.used = make([]memoEntry, memoSize), make([]uint8, 0, memoSize/2)
	}
	if m.table[place].info == nil {
		m.used = append(m.used, place)
	} else {
		m.table[place+1] = m.table[place]
	}
	m.table[place] = *e
}

func (m *memo) reset() {
	for _, place := range m.used {
		m.table[place], m.table[place+1] = memoEntry{}, memoEntry{}
	}
	m.used = m.used[:0]
}

// runPure calls a pure macro, or writes what it wrote for equal arguments.
func (x *callExpr) runPure(st *state, m *macro) error {
	e := memoEntry{info: m.info}
	for i, a := range x.args.pos {
		v, err := a.eval(st)
		if err != nil {
			return err
		}
		e.args[i] = v
	}
	if v := e.args[0]; m.info.fixed && !st.keeping && len(x.args.pos) == 1 && v.isDurable() && st.undefined == 0 {
		return st.writeKept(textKey{m.info, v.ptr}, func() error { return m.invoke(st, []Value{v}) })
	}
	place, ok := e.hash(len(x.args.pos))
	if !ok {
		return m.invoke(st, e.args[:len(x.args.pos)])
	}
	if text, hit := st.memo.find(place, &e); hit {
		return st.write(text)
	}
	mark := len(st.out)
	if err := m.invoke(st, e.args[:len(x.args.pos)]); err != nil {
		return err
	}
	if n := len(st.out) - mark; n <= memoText && n <= st.buildLeft {
		st.buildLeft -= n
		e.text = st.mem.copied(st.out[mark:])
		st.memo.put(place, &e)
	}
	return nil
}

// invoke runs a macro that takes no more than its parameters.
func (m *macro) invoke(st *state, given []Value) error {
	if st.calls++; st.calls > maxCalls {
		return errDeep
	}
	if err := st.buildFrame(m.info.fn); err != nil {
		return err
	}
	outer := st.frame
	f, mark := st.push(m.info.fn, m.frame)
	for i, v := range given {
		f.slots[m.info.paramRefs[i]] = v
	}
	err := m.info.start(st, len(given))
	st.pop(f, mark, m.info.fn)
	st.frame = outer
	st.calls--
	return err
}
