package jinja

import "math"

// slice is Python's v[lo:hi:step]; each bound may be None.
func slice(st *state, v, lo, hi, step Value) (Value, error) {
	if err := st.spend(walkCost(v)); err != nil {
		return v, err
	}
	n := length(v)
	switch v.kind {
	case Undefined, Missing:
		return v, v.fail()
	case String, List, Tuple, Range:
	case Dict:
		return v, typeErr("unhashable type: 'slice'")
	default:
		return v, typeErr("'%s' object is not subscriptable", typeName(v))
	}
	from, to, by, err := sliceBounds(n, lo, hi, step)
	if err != nil {
		return v, err
	}
	count := 0
	switch {
	case by > 0 && to > from:
		count = (to - from + by - 1) / by
	case by < 0 && to < from:
		count = (from - to - by - 1) / -by
	}
	switch v.kind {
	case String:
		return sliceString(st, v, from, by, count)
	case Range:
		r := (*rng)(v.ptr)
		return st.mem.rng(rng{r.start + int64(from)*r.step, r.start + int64(to)*r.step, r.step * int64(by), int64(count)}), st.build(objectSize)
	}
	items := v.Items()
	if by == 1 { // lists never change, so they can share memory
		return st.mem.list(v.kind, items[from:from+count:from+count]), st.build(objectSize)
	}
	out := st.mem.values(count)
	for i := range out {
		out[i] = items[from+i*by]
	}
	r, err := st.list(out)
	r.kind = v.kind
	return r, err
}

// sliceBounds returns clamped bounds; from is a valid index if the slice is
// not empty.
func sliceBounds(n int, lo, hi, step Value) (from, to, by int, err error) {
	by = 1
	if step.kind != None {
		if by, err = sliceInt(step); err != nil {
			return 0, 0, 0, err
		}
		if by == 0 {
			return 0, 0, 0, valueErr("slice step cannot be zero")
		}
		by = max(min(by, n+1), -n-1)
	}
	from, to = 0, n
	low, high := 0, n
	if by < 0 {
		from, to = n-1, -1
		low, high = -1, n-1
	}
	for _, b := range []struct {
		v   Value
		out *int
	}{{lo, &from}, {hi, &to}} {
		if b.v.kind == None {
			continue
		}
		i, err := sliceInt(b.v)
		if err != nil {
			return 0, 0, 0, err
		}
		if i < 0 {
			i += n
		}
		*b.out = max(low, min(i, high))
	}
	if by == 1 && to < from {
		to = from
	}
	return from, to, by, nil
}

// sliceInt returns an index clamped to what an int can hold.
func sliceInt(v Value) (int, error) {
	const big = math.MaxInt / 2 // a length can be added
	switch v.kind {
	case Int, Bool, BigInt:
		return max(-big, min(v.clamped(), big)), nil
	case Undefined, Missing:
		return 0, v.fail()
	}
	return 0, typeErr("slice indices must be integers or None or have an __index__ method")
}

func sliceString(st *state, v Value, from, by, count int) (Value, error) {
	s := v.Str()
	if by == 1 {
		if v.ascii() {
			out := FromString(s[from : from+count])
			out.flag = strASCII
			return out, st.spend(1)
		}
		i := runeOffset(s, from)
		return FromString(s[i : i+runeOffset(s[i:], count)]), st.spend(1 + len(s)>>4)
	}
	runes := []rune(s)
	out := make([]rune, count)
	for i := range out {
		out[i] = runes[from+i*by]
	}
	if err := st.build(4 * len(runes)); err != nil {
		return v, err
	}
	return st.str(string(out))
}
