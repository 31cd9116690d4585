package jinja

import "unicode/utf8"

// iterator walks over the items of an iterable value.
type iterator struct {
	items []Value
	i     int
	text  string
	isStr bool
	rng   *rng
	gen   *list
	dict  *Map
}

// rng is a range(); n is the number of elements.
type rng struct{ start, stop, step, n int64 }

func (r *rng) at(i int64) Value { return FromInt(r.start + i*r.step) }

// iterate returns an iterator, or Python's error for a value that has none.
func iterate(v Value) (iterator, error) {
	switch v.kind {
	case List, Tuple, View:
		return iterator{items: v.Items()}, nil
	case Dict:
		return iterator{dict: v.Map()}, nil
	case String:
		return iterator{text: v.Str(), isStr: true}, nil
	case Undefined, Missing:
		return iterator{}, nil
	case Range:
		return iterator{rng: (*rng)(v.ptr)}, nil
	case Generator:
		return iterator{gen: (*list)(v.ptr)}, nil
	}
	return iterator{}, typeErr("'%s' object is not iterable", typeName(v))
}

func (it *iterator) next() (Value, bool) {
	switch {
	case it.isStr:
		if it.text == "" {
			return Value{}, false
		}
		_, n := utf8.DecodeRuneInString(it.text)
		v := FromString(it.text[:n])
		it.text = it.text[n:]
		return v, true
	case it.rng != nil:
		if int64(it.i) >= it.rng.n {
			return Value{}, false
		}
		it.i++
		return it.rng.at(int64(it.i - 1)), true
	case it.gen != nil:
		if len(it.gen.items) == 0 {
			return Value{}, false
		}
		v := it.gen.items[0]
		it.gen.items = it.gen.items[1:]
		return v, true
	case it.dict != nil:
		if it.i >= len(it.dict.entries) {
			return Value{}, false
		}
		it.i++
		return it.dict.entries[it.i-1].Key, true
	}
	if it.i >= len(it.items) {
		return Value{}, false
	}
	it.i++
	return it.items[it.i-1], true
}

// left returns the number of items that are left of a str, range or dict.
func (it *iterator) left() int {
	switch {
	case it.isStr:
		return utf8.RuneCountInString(it.text)
	case it.rng != nil:
		return int(it.rng.n) - it.i
	}
	return it.dict.Len() - it.i
}

// rest returns the items that are left, without copying where it can.
func (it *iterator) rest(st *state) ([]Value, error) {
	switch {
	case it.gen != nil:
		items := it.gen.items
		it.gen.items = nil
		return items, nil
	case !it.isStr && it.rng == nil && it.dict == nil:
		return it.items[it.i:], nil
	}
	n := it.left()
	if err := st.build(valueSize * n); err != nil {
		return nil, err
	}
	out := st.mem.values(n)[:0]
	for {
		v, ok := it.next()
		if !ok {
			return out, nil
		}
		out = append(out, v)
		if len(out)&1023 == 0 {
			if err := st.spend(1024); err != nil {
				return nil, err
			}
		}
	}
}

// itemsOf returns the items of an iterable; the caller must not change them.
func (st *state) itemsOf(v Value) ([]Value, error) {
	it, err := iterate(v)
	if err != nil {
		return nil, err
	}
	items, err := it.rest(st)
	if err != nil {
		return nil, err
	}
	return items, st.spend(len(items))
}
