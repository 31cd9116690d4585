package jinja

import "strings"

// emit writes str(x) to the output. Concatenations, branches, macro calls and
// tojson go straight to the output without a string in between; what was
// written before an error does not matter, because an error ends the render.
func (st *state) emit(x expr) error {
	switch x := x.(type) {
	case *nameExpr:
		return st.writeValue(x.value(st))
	case *binExpr:
		if x.op == opAdd {
			return st.emitSum(x)
		}
	case *concatExpr:
		for _, p := range x.parts {
			if err := st.emit(p); err != nil {
				return at(err, x.line)
			}
		}
		return nil
	case *condExpr:
		ok, err := st.test(x.cond)
		switch {
		case err != nil:
			return at(err, x.line)
		case ok:
			return st.emit(x.yes)
		case x.no != nil:
			return st.emit(x.no)
		}
		return nil
	case *callExpr:
		return st.emitCall(x)
	case *filterExpr:
		if x.name == "tojson" && x.args.none() {
			v, err := x.x.eval(st)
			if err != nil {
				return err
			}
			return at(st.writePlainJSON(v), x.line)
		}
	}
	v, err := x.eval(st)
	if err != nil {
		return err
	}
	return st.writeValue(v)
}

func (c *callArgs) none() bool {
	return len(c.pos) == 0 && len(c.kw) == 0 && c.dyn == nil && c.dynKW == nil
}

// writeValue writes str(v).
func (st *state) writeValue(v Value) error {
	switch v.kind {
	case String:
		return st.write(v.Str())
	case Undefined, Missing:
		return nil
	}
	w, mark := &textWriter{st: st}, len(st.out)
	if err := w.str(v); err != nil {
		return err
	}
	return st.spendNumber(v, len(st.out)-mark)
}

// emitSum writes a sum. As long as the left side is a plain str it is already
// in the output.
func (st *state) emitSum(x *binExpr) error {
	v, written, err := st.sum(x)
	if err != nil || written {
		return err
	}
	return st.writeValue(v)
}

// sum evaluates a sum. Either its value is a str and has been written, or it
// is returned.
func (st *state) sum(x *binExpr) (v Value, written bool, err error) {
	mark := len(st.out)
	if l, ok := x.l.(*binExpr); ok && l.op == opAdd {
		v, written, err = st.sum(l)
	} else if v, err = x.l.eval(st); err == nil && v.kind == String && v.flag&strMarkup == 0 {
		written, err = true, st.write(v.Str())
	}
	if err != nil {
		return v, false, err
	}
	r, err := x.r.eval(st)
	if err != nil {
		return r, false, err
	}
	switch {
	case !written:
		v, err = binary(st, opAdd, v, r)
		return v, false, at(err, x.line)
	case r.kind == String && r.flag&strMarkup == 0:
		return v, true, st.write(r.Str())
	case r.kind == String:
		l := FromString(strings.Clone(string(st.out[mark:])))
		st.out = st.out[:mark]
		v, err = binary(st, opAdd, l, r)
		return v, false, at(err, x.line)
	}
	_, err = binary(st, opAdd, FromString(""), r)
	return v, false, at(err, x.line)
}
