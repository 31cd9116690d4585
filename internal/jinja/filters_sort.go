package jinja

import (
	"slices"
	"strings"
)

// getter reads an attribute of an item, or returns the item itself.
type getter func(Value) (Value, error)

// attrGetter returns a getter for an attribute path: an int, a dotted name, or
// nothing. def replaces an undefined result unless it is Missing.
func attrGetter(attr, def Value, fold bool) (getter, error) {
	var path []Value
	switch attr.kind {
	case Missing, None:
		if !fold {
			return itself, nil
		}
	case Int:
		path = []Value{attr}
	case String:
		for p := range strings.SplitSeq(attr.Str(), ".") {
			if n, ok := parseInt(p, 10); ok && strings.Trim(p, "0123456789") == "" {
				path = append(path, FromBig(n))
			} else {
				path = append(path, FromString(p))
			}
		}
	default:
		return nil, typeErr("attribute must be a str or an int, not %s", typeName(attr))
	}
	return func(v Value) (Value, error) {
		for _, k := range path {
			if v.kind == Undefined {
				return v, v.fail()
			}
			e, ok := item(v, k)
			if !ok {
				e = undefined(&undef{name: k}, v.kind)
				if def.kind != Missing && def.kind != None {
					e = def
				}
			}
			v = e
		}
		if fold && v.kind == String {
			return FromString(toLower(v.Str())), nil
		}
		return v, nil
	}, nil
}

func itself(v Value) (Value, error) { return v, nil }

// keyed is an item with its sort key.
type keyed struct{ key, item Value }

// keyItems computes the key of every item. The result is valid until the next
// call.
func keyItems(st *state, x Value, get getter) ([]keyed, error) {
	items, err := st.itemsOf(x)
	if err != nil {
		return nil, err
	}
	out := st.mem.sorted[:0]
	for _, v := range items {
		k, err := get(v)
		if err != nil {
			return nil, err
		}
		out = append(out, keyed{k, v})
	}
	st.mem.sorted = out
	return out, st.build(2 * valueSize * len(out))
}

// orderCost returns the steps of comparing v with a value like it, or some
// number above limit.
func orderCost(v Value, limit int) int {
	if v.kind == String {
		return int(v.num >> 6)
	}
	return weight(v, 0, limit)
}

// sortKeyed sorts stably, as Python does.
func sortKeyed(st *state, ks []keyed, reverse bool) error {
	var failed error
	slices.SortStableFunc(ks, func(a, b keyed) int {
		if failed != nil {
			return 0
		}
		if failed = st.spend(1 + min(orderCost(a.key, st.steps), orderCost(b.key, st.steps))); failed != nil {
			return 0
		}
		var c int
		c, failed = order(a.key, b.key)
		if reverse {
			return -c
		}
		return c
	})
	return failed
}

func itemsOfKeyed(st *state, ks []keyed) []Value {
	out := st.mem.values(len(ks))
	for i := range ks {
		out[i] = ks[i].item
	}
	return out
}

func filterSort(st *state, x Value, a args) (Value, error) {
	b, err := a.bind("sort", 0, "reverse", "case_sensitive", "attribute")
	if err != nil {
		return x, err
	}
	get, err := multiGetter(b[2], !truth(b[1]))
	if err != nil {
		return x, err
	}
	ks, err := keyItems(st, x, get)
	if err != nil {
		return x, err
	}
	if err := sortKeyed(st, ks, truth(b[0])); err != nil {
		return x, err
	}
	return st.list(itemsOfKeyed(st, ks))
}

// multiGetter reads several attributes divided by commas as one list.
func multiGetter(attr Value, fold bool) (getter, error) {
	if attr.kind != String || !strings.Contains(attr.Str(), ",") {
		return attrGetter(attr, Value{}, fold)
	}
	var gets []getter
	for name := range strings.SplitSeq(attr.Str(), ",") {
		g, err := attrGetter(FromString(name), Value{}, fold)
		if err != nil {
			return nil, err
		}
		gets = append(gets, g)
	}
	return func(v Value) (Value, error) {
		out := make([]Value, len(gets))
		for i, g := range gets {
			k, err := g(v)
			if err != nil {
				return v, err
			}
			out[i] = k
		}
		return FromList(out), nil
	}, nil
}

func filterDictSort(st *state, x Value, a args) (Value, error) {
	b, err := a.bind("dictsort", 0, "case_sensitive", "by", "reverse")
	if err != nil {
		return x, err
	}
	if x.kind != Dict {
		if x.isUndef() {
			return x, x.fail()
		}
		return x, errf(KindAttribute, "'%s' object has no attribute 'items'", typeName(x))
	}
	pos := 0
	switch {
	case b[1].kind == Missing || b[1].Str() == "key":
	case b[1].Str() == "value":
		pos = 1
	default:
		return x, errf(KindFilterArg, `You can only sort by either "key" or "value"`)
	}
	fold := !truth(b[0])
	items, err := pairs(st, x.Map())
	if err != nil {
		return x, err
	}
	if pos == 0 && !fold && !truth(b[2]) && len(items) <= maxInsert && allStr(x.Map()) {
		return insertByKey(st, items)
	}
	ks, err := keyItems(st, st.mem.list(List, items), func(v Value) (Value, error) {
		k := v.Items()[pos]
		if fold && k.kind == String {
			k = FromString(toLower(k.Str()))
		}
		return k, nil
	})
	if err != nil {
		return x, err
	}
	if err := sortKeyed(st, ks, truth(b[2])); err != nil {
		return x, err
	}
	return st.list(itemsOfKeyed(st, ks))
}

// maxInsert is the number of pairs up to which they are sorted by insertion.
const maxInsert = 16

func allStr(m *Map) bool {
	for i := range m.entries {
		if m.entries[i].Key.kind != String {
			return false
		}
	}
	return true
}

// insertByKey sorts pairs whose keys are str and differ.
func insertByKey(st *state, pairs []Value) (Value, error) {
	for i := 1; i < len(pairs); i++ {
		p := pairs[i]
		key := p.Items()[0].Str()
		if err := st.spend(i + i*(len(key)>>6)); err != nil {
			return p, err
		}
		j := i
		for ; j > 0 && pairs[j-1].Items()[0].Str() > key; j-- {
			pairs[j] = pairs[j-1]
		}
		pairs[j] = p
	}
	return st.list(pairs)
}

func filterUnique(st *state, x Value, a args) (Value, error) {
	b, err := a.bind("unique", 0, "case_sensitive", "attribute")
	if err != nil {
		return x, err
	}
	get, err := attrGetter(b[1], Value{}, !truth(b[0]))
	if err != nil {
		return x, err
	}
	ks, err := keyItems(st, x, get)
	if err != nil {
		return x, err
	}
	seen := new(Map)
	var out []Value
	for _, k := range ks {
		if err := hashable(k.key); err != nil {
			return x, err
		}
		if k.key.kind != String {
			if err := st.spend(seen.Len()); err != nil {
				return x, err
			}
		}
		if seen.find(k.key) < 0 {
			seen.add(k.key, noneValue)
			out = append(out, k.item)
		}
	}
	return st.mem.list(Generator, out), st.build(valueSize * len(out))
}

// extreme is min (sign -1) or max (sign 1).
func extreme(st *state, x Value, a args, name string, sign int) (Value, error) {
	b, err := a.bind(name, 0, "case_sensitive", "attribute")
	if err != nil {
		return x, err
	}
	get, err := attrGetter(b[1], Value{}, !truth(b[0]))
	if err != nil {
		return x, err
	}
	ks, err := keyItems(st, x, get)
	if err != nil {
		return x, err
	}
	if len(ks) == 0 {
		return undefined(&undef{hint: "No aggregated item, sequence was empty."}, Missing), nil
	}
	best := ks[0]
	for _, k := range ks[1:] {
		if err := st.spend(1 + min(orderCost(k.key, st.steps), orderCost(best.key, st.steps))); err != nil {
			return x, err
		}
		c, err := order(k.key, best.key)
		if err != nil {
			return x, err
		}
		if c*sign > 0 {
			best = k
		}
	}
	return best.item, nil
}

func filterGroupBy(st *state, x Value, a args) (Value, error) {
	b, err := a.bind("groupby", 1, "attribute", "default", "case_sensitive")
	if err != nil {
		return x, err
	}
	get, err := attrGetter(b[0], b[1], !truth(b[2]))
	if err != nil {
		return x, err
	}
	exact, err := attrGetter(b[0], b[1], false)
	if err != nil {
		return x, err
	}
	ks, err := keyItems(st, x, get)
	if err != nil {
		return x, err
	}
	if err := sortKeyed(st, ks, false); err != nil {
		return x, err
	}
	var out []Value
	for len(ks) > 0 {
		n := 1
		for n < len(ks) {
			same, err := equal(ks[0].key, ks[n].key, 0)
			if err != nil {
				return x, err
			}
			if !same {
				break
			}
			n++
		}
		key, err := exact(ks[0].item)
		if err != nil {
			return x, err
		}
		out = append(out, fromTupleOf(&list{items: []Value{key, FromList(itemsOfKeyed(st, ks[:n]))}, view: groupTuple}))
		ks = ks[n:]
	}
	return st.list(out)
}
