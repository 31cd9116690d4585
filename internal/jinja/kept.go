package jinja

import (
	"sync"
)

// Durable marks v and the lists and dicts inside it as made once for many
// renders. What a template writes for such a value alone is kept between
// renders: it is found by the identity of the value. The caller must own v
// and, from then on, must not change it.
func Durable(v Value) Value {
	switch v.kind {
	case List, Tuple:
		items := v.Items()
		for i := range items {
			items[i] = Durable(items[i])
		}
	case Dict:
		m := v.Map()
		for i := range m.entries {
			m.entries[i].Val = Durable(m.entries[i].Val)
		}
	default:
		return v
	}
	v.flag |= durable
	return v
}

// Forget drops all texts that are kept for durable values.
func (t *Template) Forget() { t.kept.clear() }

const (
	keptTexts = 256      // texts kept by one template
	keptSize  = 1 << 20  // bytes of them
	keptText  = 64 << 10 // bytes of the longest
)

// texts is what one template wrote for durable values.
type texts struct {
	mu   sync.RWMutex
	text map[textKey]string
	size int
}

type textKey struct {
	info  *macroInfo // the macro that was called; nil for tojson
	value pointer    // of its only argument, which it keeps alive
}

func (t *texts) find(k textKey) (string, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	s, ok := t.text[k]
	return s, ok
}

func (t *texts) put(k textKey, text []byte) {
	if len(text) > keptText {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.text == nil || len(t.text) >= keptTexts || t.size+len(text) > keptSize {
		t.text, t.size = map[textKey]string{}, 0
	}
	t.text[k] = string(text)
	t.size += len(text)
}

func (t *texts) clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text, t.size = nil, 0
}

// writeKept writes what write writes for k, from memory if it can. Only the
// outermost text is kept, not those it is made of.
func (st *state) writeKept(k textKey, write func() error) error {
	if st.keeping {
		return write()
	}
	if s, ok := st.kept.find(k); ok {
		return st.write(s)
	}
	mark := len(st.out)
	st.keeping = true
	err := write()
	st.keeping = false
	if err != nil {
		return err
	}
	st.kept.put(k, st.out[mark:])
	return nil
}

// writePlainJSON writes x | tojson.
func (st *state) writePlainJSON(v Value) error {
	if v.isDurable() {
		return st.writeKept(textKey{value: v.ptr}, func() error { return st.writeJSON(v, &defaultJSON) })
	}
	return st.writeJSON(v, &defaultJSON)
}

func (v Value) isDurable() bool { return v.flag&durable != 0 && (v.kind == List || v.kind == Dict) }
