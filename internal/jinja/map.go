package jinja

import (
	"maps"
	"slices"
)

// Map is a dict: entries in insertion order, unique keys. Small ones are
// searched linearly, large ones through an index of their str keys. A Map is
// immutable once it is inside a Value.
type Map struct {
	entries []Entry
	index   map[string]int32 // str keys, once there are more than indexAbove entries
}

// Entry is one key and value of a Map.
type Entry struct{ Key, Val Value }

// indexAbove is the number of entries above which an index pays for itself.
const indexAbove = 12

// Len returns the number of entries.
func (m *Map) Len() int { return len(m.entries) }

// Entries returns the entries in order. The caller must not change them.
func (m *Map) Entries() []Entry { return m.entries }

// Get returns the value of a str key.
func (m *Map) Get(key string) (Value, bool) {
	if m.index != nil {
		i, ok := m.index[key]
		if !ok {
			return Value{}, false
		}
		return m.entries[i].Val, true
	}
	if i := m.scan(key); i >= 0 {
		return m.entries[i].Val, true
	}
	return Value{}, false
}

// scan returns the position of a str key in a map without an index, or -1.
func (m *Map) scan(key string) int {
	p := FromString(key).ptr
	for i := range m.entries {
		if k := &m.entries[i].Key; int(k.num) == len(key) && k.kind == String && (k.ptr == p || k.Str() == key) {
			return i
		}
	}
	return -1
}

// Set adds an entry, or replaces the value of an existing str key in place.
func (m *Map) Set(key string, val Value) { m.set(FromString(key), val) }

// find returns the position of a key of any kind, or -1.
func (m *Map) find(key Value) int {
	if key.kind == String && m.index != nil {
		if i, ok := m.index[key.Str()]; ok {
			return int(i)
		}
		return -1
	}
	if key.kind == String {
		return m.scan(key.Str())
	}
	for i := range m.entries {
		if sameKey(m.entries[i].Key, key) {
			return i
		}
	}
	return -1
}

func (m *Map) set(key, val Value) {
	if i := m.find(key); i >= 0 {
		m.entries[i].Val = val
		return
	}
	m.add(key, val)
}

// add appends an entry whose key is known to be new.
func (m *Map) add(key, val Value) {
	m.entries = append(m.entries, Entry{key, val})
	switch n := len(m.entries); {
	case m.index != nil:
		if key.kind == String {
			m.index[key.Str()] = int32(n - 1)
		}
	case n > indexAbove:
		m.index = make(map[string]int32, 2*n)
		for i := range m.entries {
			if k := m.entries[i].Key; k.kind == String {
				m.index[k.Str()] = int32(i)
			}
		}
	}
}

// sameKey compares two hashable values as dict keys.
func sameKey(a, b Value) bool {
	if a.kind == String || b.kind == String {
		return a.kind == b.kind && a.num == b.num && a.Str() == b.Str()
	}
	eq, err := equal(a, b, 0)
	return eq && err == nil
}

// hashable returns Python's error for a value that cannot be a dict key.
func hashable(v Value) error {
	switch v.kind {
	case List, Dict, View:
		return typeErr("unhashable type: '%s'", typeName(v))
	case Tuple:
		if weight(v, 0, maxKey) > maxKey {
			return typeErr("a tuple used as a key is too large")
		}
		for _, x := range v.Items() {
			if err := hashable(x); err != nil {
				return err
			}
		}
	}
	return nil
}

// Clone returns a copy that can be changed without changing m.
func (m *Map) Clone() *Map {
	c := &Map{entries: slices.Clone(m.entries)}
	if m.index != nil {
		c.index = maps.Clone(m.index)
	}
	return c
}
