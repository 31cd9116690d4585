package jinja

// namespace is the result of namespace(): the one object a template can
// change.
type namespace struct{ attrs Map }

// macro is a macro bound to the frame it was defined in.
type macro struct {
	info  *macroInfo
	frame *frame
}

// function is a global function, or a method bound to self.
type function struct {
	name string
	self Value // Missing for a global
	fn   globalFunc
}

func fromNamespace(n *namespace) Value { return Value{kind: Namespace, ptr: pointer(n)} }

func fromMacro(m *macro) Value { return Value{kind: Macro, ptr: pointer(m)} }

func fromLoop(l *loopState) Value { return Value{kind: Loop, ptr: pointer(l)} }

func fromFunc(f *function) Value { return Value{kind: Function, ptr: pointer(f)} }

func fromRange(r *rng) Value { return Value{kind: Range, ptr: pointer(r)} }

func (v Value) macro() *macro {
	if v.kind != Macro {
		return nil
	}
	return (*macro)(v.ptr)
}

func (v Value) loop() *loopState {
	if v.kind != Loop {
		return nil
	}
	return (*loopState)(v.ptr)
}

func (v Value) function() *function {
	if v.kind != Function {
		return nil
	}
	return (*function)(v.ptr)
}

func (m *macro) attr(name string) (Value, bool) {
	switch name {
	case "name":
		return FromString(m.info.name), true
	case "arguments":
		items := make([]Value, len(m.info.params))
		for i, p := range m.info.params {
			items[i] = FromString(p)
		}
		return fromTuple(items...), true
	case "catch_kwargs":
		return FromBool(m.info.kwargs >= 0), true
	case "catch_varargs":
		return FromBool(m.info.varargs >= 0), true
	case "caller":
		return FromBool(m.info.caller >= 0), true
	}
	return Value{}, false
}

// typeName returns the name of v's Python type.
func typeName(v Value) string {
	switch v.kind {
	case None:
		return "NoneType"
	case Bool:
		return "bool"
	case Int, BigInt:
		return "int"
	case Float:
		return "float"
	case String:
		if v.flag&strMarkup != 0 {
			return "Markup"
		}
		return "str"
	case List:
		return "list"
	case Tuple:
		return "tuple"
	case Dict:
		return "dict"
	case View:
		return (*list)(v.ptr).view
	case Range:
		return "range"
	case Generator:
		return "generator"
	case Namespace:
		return "Namespace"
	case Macro:
		return "Macro"
	case Loop:
		return "LoopContext"
	case Function:
		if v.function().self.kind == Missing {
			return "function"
		}
		return "builtin_function_or_method"
	}
	return "Undefined"
}

// fail returns the error for using an undefined value.
func (v Value) fail() error {
	u := v.undef()
	kind := u.kind
	if kind == "" {
		kind = KindUndefined
	}
	return &Error{Kind: kind, Message: u.message(Kind(v.num))}
}

func (u *undef) message(obj Kind) string {
	switch {
	case u.hint != "":
		return u.hint
	case u.vari != "":
		return reprString(u.vari) + " is undefined"
	}
	owner := typeName(Value{kind: obj, ptr: ownerPtr(obj)}) + " object"
	switch obj {
	case None:
		owner = "None"
	case Namespace:
		owner = "jinja2.utils." + owner
	case Macro, Loop:
		owner = "jinja2.runtime." + owner
	}
	if u.name.kind == String {
		return reprString(owner) + " has no attribute " + reprString(u.name.Str())
	}
	return owner + " has no element " + repr(u.name)
}

// ownerPtr gives typeName something to look at for kinds whose name depends on
// the value; only the kind of the owner is kept.
func ownerPtr(k Kind) pointer {
	switch k {
	case View:
		return pointer(&list{view: "dict_items"})
	case Function:
		return pointer(&function{})
	}
	return nil
}
