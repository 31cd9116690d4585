package jinja

// memory is where the values made during one render live. Nothing of it may
// be used after the render: the output is a copy, and messages are made of
// copies.
type memory struct {
	slab   Slab
	spaces chunks[namespace]
	ranges chunks[rng]
	loops  chunks[loopState]
	frames chunks[frame]
	macros chunks[macro]
	text   []byte // the chunk that strings are cut from
	sorted []keyed
}

const (
	textMin  = 4 << 10  // bytes of the first chunk of text
	textMax  = 64 << 10 // bytes of later ones, and what survives a render
	textFree = textMax / 4
)

// reset forgets everything, so that the memory can be used again.
func (m *memory) reset() {
	m.slab.Reset()
	m.spaces.reset()
	m.ranges.reset()
	m.loops.reset()
	m.frames.reset()
	m.macros.reset()
	m.text = m.text[:0]
	m.sorted = emptied(m.sorted)
}

// room returns n bytes of text that the caller fills at once. The strings cut
// from a full chunk keep it alive.
func (m *memory) room(n int) []byte {
	if n > textFree {
		return make([]byte, n)
	}
	if n > cap(m.text)-len(m.text) {
		m.text = make([]byte, 0, max(textMin, min(2*cap(m.text), textMax), n))
	}
	at := len(m.text)
	m.text = m.text[:at+n]
	return m.text[at : at+n : at+n]
}

// copied returns a str with the bytes of b.
func (m *memory) copied(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	t := m.room(len(b))
	copy(t, b)
	return textOf(t)
}

// joined returns the str a + b.
func (m *memory) joined(a, b string) string {
	switch {
	case a == "":
		return b
	case b == "":
		return a
	}
	t := m.room(len(a) + len(b))
	copy(t[copy(t, a):], b)
	return textOf(t)
}

// values returns a slice of n zero values.
func (m *memory) values(n int) []Value { return m.slab.Values(n) }

// list returns a value of a kind that has items.
func (m *memory) list(k Kind, items []Value) Value {
	l := &m.slab.lists.take(1)[:1][0]
	l.items = items
	return Value{kind: k, ptr: pointer(l)}
}

func (m *memory) view(typ string, items []Value) Value {
	v := m.list(View, items)
	(*list)(v.ptr).view = typ
	return v
}

func (m *memory) namespace() *namespace { return &m.spaces.take(1)[:1][0] }

func (m *memory) rng(r rng) Value {
	p := &m.ranges.take(1)[:1][0]
	*p = r
	return fromRange(p)
}

func (m *memory) loop() *loopState { return &m.loops.take(1)[:1][0] }

func (m *memory) macro(info *macroInfo, f *frame) Value {
	p := &m.macros.take(1)[:1][0]
	p.info, p.frame = info, f
	return fromMacro(p)
}

func (m *memory) frame() *frame { return &m.frames.take(1)[:1][0] }
