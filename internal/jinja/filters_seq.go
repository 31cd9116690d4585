package jinja

import (
	"slices"
	"strings"
)

// sequenceFilter returns a filter over the items of a value.
func sequenceFilter(name string) filterFunc {
	return map[string]filterFunc{
		"attr":       filterAttr,
		"batch":      filterBatch,
		"count":      filterLength,
		"dictsort":   filterDictSort,
		"first":      filterFirst,
		"groupby":    filterGroupBy,
		"items":      filterItems,
		"join":       filterJoin,
		"last":       filterLast,
		"length":     filterLength,
		"list":       filterList,
		"map":        filterMap,
		"max":        func(st *state, x Value, a args) (Value, error) { return extreme(st, x, a, "max", 1) },
		"min":        func(st *state, x Value, a args) (Value, error) { return extreme(st, x, a, "min", -1) },
		"reject":     func(st *state, x Value, a args) (Value, error) { return selectItems(st, x, a, false, false) },
		"rejectattr": func(st *state, x Value, a args) (Value, error) { return selectItems(st, x, a, false, true) },
		"reverse":    filterReverse,
		"select":     func(st *state, x Value, a args) (Value, error) { return selectItems(st, x, a, true, false) },
		"selectattr": func(st *state, x Value, a args) (Value, error) { return selectItems(st, x, a, true, true) },
		"slice":      filterSlice,
		"sort":       filterSort,
		"sum":        filterSum,
		"unique":     filterUnique,
	}[name]
}

func filterAttr(_ *state, x Value, a args) (Value, error) {
	b, err := a.bind("attr", 1, "name")
	if err != nil {
		return x, err
	}
	if x.kind == Undefined {
		return x, x.fail()
	}
	if v, ok := attribute(x, b[0]); ok {
		return v, nil
	}
	return undefined(&undef{name: b[0]}, x.kind), nil
}

func filterLength(st *state, x Value, _ args) (Value, error) {
	if err := st.spend(walkCost(x)); err != nil {
		return x, err
	}
	n := length(x)
	if n < 0 {
		return x, typeErr("object of type '%s' has no len()", typeName(x))
	}
	return FromInt(int64(n)), nil
}

func filterFirst(_ *state, x Value, _ args) (Value, error) {
	it, err := iterate(x)
	if err != nil {
		return x, err
	}
	if v, ok := it.next(); ok {
		return v, nil
	}
	return undefined(&undef{hint: "No first item, sequence was empty."}, Missing), nil
}

func filterLast(st *state, x Value, _ args) (Value, error) {
	if x.kind == Generator {
		return x, typeErr("'generator' object is not reversible")
	}
	items, err := st.itemsOf(x)
	if err != nil {
		return x, typeErr("'%s' object is not reversible", typeName(x))
	}
	if len(items) == 0 {
		return undefined(&undef{hint: "No last item, sequence was empty."}, Missing), nil
	}
	return items[len(items)-1], nil
}

func filterList(st *state, x Value, _ args) (Value, error) {
	items, err := st.itemsOf(x)
	if err != nil {
		return x, err
	}
	return st.mem.list(List, items), st.build(objectSize)
}

func filterItems(st *state, x Value, _ args) (Value, error) {
	switch x.kind {
	case Undefined, Missing:
		return st.mem.list(Generator, nil), st.build(objectSize)
	case Dict:
		items, err := pairs(st, x.Map())
		return st.mem.list(Generator, items), err
	}
	return x, typeErr("Can only get item pairs from a mapping.")
}

// pairs returns the entries of a dict as tuples.
func pairs(st *state, m *Map) ([]Value, error) {
	n := m.Len()
	if err := st.build(objectSize + n*(3*valueSize+objectSize)); err != nil {
		return nil, err
	}
	out := st.mem.values(n)
	for i := range m.entries {
		v := st.mem.values(2)
		v[0], v[1] = m.entries[i].Key, m.entries[i].Val
		out[i] = st.mem.list(Tuple, v)
	}
	return out, nil
}

func filterJoin(st *state, x Value, a args) (Value, error) {
	b, err := a.bind("join", 0, "d", "attribute")
	if err != nil {
		return x, err
	}
	get, err := attrGetter(b[1], Value{}, false)
	if err != nil {
		return x, err
	}
	sep, err := st.toStr(b[0])
	if err != nil {
		return x, err
	}
	items, err := st.itemsOf(x)
	if err != nil {
		return x, err
	}
	return st.capture(func() error {
		for i, v := range items {
			if i > 0 {
				if err := st.write(sep.Str()); err != nil {
					return err
				}
			}
			if v, err = get(v); err != nil {
				return err
			}
			if err := st.writeValue(v); err != nil {
				return err
			}
		}
		return nil
	})
}

func filterReverse(st *state, x Value, _ args) (Value, error) {
	items, err := st.itemsOf(x)
	if err != nil {
		return x, errf(KindFilterArg, "argument must be iterable")
	}
	if x.kind == String {
		var b strings.Builder
		for _, c := range slices.Backward(items) {
			b.WriteString(c.Str())
		}
		return st.str(b.String())
	}
	items = slices.Clone(items)
	slices.Reverse(items)
	return st.mem.list(Generator, items), st.build(valueSize * len(items))
}

func filterSum(st *state, x Value, a args) (Value, error) {
	b, err := a.bind("sum", 0, "attribute", "start")
	if err != nil {
		return x, err
	}
	get, err := attrGetter(b[0], Value{}, false)
	if err != nil {
		return x, err
	}
	items, err := st.itemsOf(x)
	if err != nil {
		return x, err
	}
	total := b[1]
	if total.kind == Missing {
		total = FromInt(0)
	}
	if total.kind == String {
		return x, typeErr("sum() can't sum strings [use ''.join(seq) instead]")
	}
	for _, v := range items {
		if v, err = get(v); err != nil {
			return x, err
		}
		if total, err = binary(st, opAdd, total, v); err != nil {
			return x, err
		}
	}
	return total, nil
}

func filterBatch(st *state, x Value, a args) (Value, error) {
	b, err := a.bind("batch", 1, "linecount", "fill_with")
	if err != nil {
		return x, err
	}
	items, err := st.itemsOf(x)
	if err != nil {
		return x, err
	}
	n := int(min(b[0].int(), maxRange))
	if b[0].kind != Int || n < 1 {
		return x, typeErr("batch: linecount must be a positive int")
	}
	var out []Value
	for len(items) > 0 {
		k := min(n, len(items))
		row := slices.Clone(items[:k])
		items = items[k:]
		for b[1].kind != Missing && b[1].kind != None && len(row) < n {
			row = append(row, b[1])
		}
		v, err := st.list(row)
		if err != nil {
			return x, err
		}
		out = append(out, v)
	}
	return st.mem.list(Generator, out), st.build(objectSize)
}

func filterSlice(st *state, x Value, a args) (Value, error) {
	b, err := a.bind("slice", 1, "slices", "fill_with")
	if err != nil {
		return x, err
	}
	items, err := st.itemsOf(x)
	if err != nil {
		return x, err
	}
	n := int(min(b[0].int(), maxRange))
	if b[0].kind != Int || n < 1 {
		return x, typeErr("slice: slices must be a positive int")
	}
	per, extra := len(items)/n, len(items)%n
	var out []Value
	at := 0
	for i := range n {
		k := per
		if i < extra {
			k++
		}
		col := slices.Clone(items[at : at+k])
		at += k
		if b[1].kind != Missing && b[1].kind != None && i >= extra {
			col = append(col, b[1])
		}
		v, err := st.list(col)
		if err != nil {
			return x, err
		}
		out = append(out, v)
	}
	return st.mem.list(Generator, out), st.build(objectSize)
}
