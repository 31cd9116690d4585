package jinja

import "strings"

// filterFunc is a filter: x is the value on the left of the bar.
type filterFunc func(st *state, x Value, a args) (Value, error)

// filterByName returns a filter, or nil.
func filterByName(name string) filterFunc {
	switch name {
	case "attr", "batch", "dictsort", "first", "groupby", "items", "join", "last", "length", "count", "list", "map",
		"max", "min", "reject", "rejectattr", "reverse", "select", "selectattr", "slice", "sort", "sum", "unique":
		return sequenceFilter(name)
	case "capitalize", "center", "e", "escape", "forceescape", "format", "indent", "lower", "replace", "safe", "string",
		"title", "trim", "truncate", "upper", "wordcount":
		return textFilter(name)
	case "abs":
		return filterAbs
	case "d", "default":
		return filterDefault
	case "float":
		return filterFloat
	case "int":
		return filterInt
	case "round":
		return filterRound
	case "tojson":
		return filterToJSON
	case "fromjson", "from_json":
		return filterFromJSON
	}
	return nil
}

func (x *filterExpr) eval(st *state) (Value, error) {
	v, err := x.x.eval(st)
	if err != nil {
		return v, err
	}
	return x.run(st, v)
}

// apply runs a chain of filters whose innermost input is v.
func (x *filterExpr) apply(st *state, v Value) (Value, error) {
	if inner, ok := x.x.(*filterExpr); ok {
		var err error
		if v, err = inner.apply(st, v); err != nil {
			return v, err
		}
	}
	return x.run(st, v)
}

func (x *filterExpr) run(st *state, v Value) (Value, error) {
	if x.fn == nil {
		return v, at(errf(KindRuntime, "No filter named '%s'.", x.name), x.line)
	}
	if x.args.none() {
		v, err := x.fn(st, v, args{})
		return v, at(err, x.line)
	}
	a, marks, err := x.args.eval(st)
	if err != nil {
		return v, at(err, x.line)
	}
	v, err = x.fn(st, v, a)
	st.drop(marks)
	return v, at(err, x.line)
}

func filterDefault(_ *state, x Value, a args) (Value, error) {
	b, err := a.bind("default", 0, "default_value", "boolean")
	if err != nil {
		return x, err
	}
	if x.isUndef() || truth(b[1]) && !truth(x) {
		if b[0].kind == Missing {
			return FromString(""), nil
		}
		return b[0], nil
	}
	return x, nil
}

func filterToJSON(st *state, x Value, a args) (Value, error) {
	o, err := jsonArgs(a)
	if err != nil {
		return x, err
	}
	if *o == defaultJSON {
		return st.capture(func() error { return st.writePlainJSON(x) })
	}
	return st.capture(func() error { return st.writeJSON(x, o) })
}

// jsonArgs reads the options of tojson.
func jsonArgs(a args) (*jsonOptions, error) {
	if len(a.pos) == 0 && len(a.kw) == 0 {
		return &defaultJSON, nil
	}
	b, err := a.bind("tojson", 0, "ensure_ascii", "indent", "separators", "sort_keys")
	if err != nil {
		return nil, err
	}
	o := defaultJSON
	o.ascii, o.sortKeys = truth(b[0]), truth(b[3])
	switch in := b[1]; in.kind {
	case Missing, None:
	case Int, Bool:
		o.pretty, o.item = true, ","
		o.indent = strings.Repeat(" ", int(max(0, min(in.int(), 64))))
	case String:
		o.pretty, o.item, o.indent = true, ",", in.Str()
	default:
		return nil, typeErr("tojson: indent must be an int or a str, not %s", typeName(in))
	}
	switch sep := b[2]; {
	case sep.kind == Missing || sep.kind == None:
	case (sep.kind == Tuple || sep.kind == List) && len(sep.Items()) == 2:
		o.item, o.key = sep.Items()[0].Str(), sep.Items()[1].Str()
	default:
		return nil, typeErr("tojson: separators must be a tuple of two str")
	}
	return &o, nil
}

func filterFromJSON(st *state, x Value, _ args) (Value, error) {
	if x.kind != String {
		return x, typeErr("the JSON object must be str, bytes or bytearray, not %s", typeName(x))
	}
	if err := st.build(len(x.Str())); err != nil {
		return x, err
	}
	if err := st.spend(len(x.Str())); err != nil {
		return x, err
	}
	return st.mem.slab.DecodeString(x.Str())
}
