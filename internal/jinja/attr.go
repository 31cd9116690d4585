package jinja

import "strings"

// The method and attribute names of Python's types. A name in these lists
// hides a dict key of the same name when it is read with a dot.
const (
	dictMethods   = " clear copy fromkeys get items keys pop popitem setdefault update values "
	listMethods   = " append clear copy count extend index insert pop remove reverse sort "
	tupleMethods  = " count index "
	stringMethods = " capitalize casefold center count encode endswith expandtabs find format format_map index isalnum isalpha isascii isdecimal isdigit isidentifier islower isnumeric isprintable isspace istitle isupper join ljust lower lstrip maketrans partition removeprefix removesuffix replace rfind rindex rjust rpartition rsplit rstrip split splitlines startswith strip swapcase title translate upper zfill "
	intMethods    = " as_integer_ratio bit_count bit_length conjugate from_bytes to_bytes "
	floatMethods  = " as_integer_ratio conjugate fromhex hex is_integer "
	loopMethods   = " cycle changed "

	// Methods that change their object; the immutable sandbox hides them.
	mutators = " append clear extend insert pop popitem remove reverse setdefault sort update "
)

func listed(names, name string) bool {
	i := strings.Index(names, name)
	for i >= 0 {
		if names[i-1] == ' ' && names[i+len(name)] == ' ' {
			return true
		}
		j := strings.Index(names[i+1:], name)
		if j < 0 {
			return false
		}
		i += 1 + j
	}
	return false
}

// isDictAttr reports whether name is a method of dict.
func isDictAttr(name string) bool {
	switch name {
	case "clear", "copy", "fromkeys", "get", "items", "keys", "pop", "popitem", "setdefault", "update", "values":
		return true
	}
	return len(name) > 4 && strings.HasPrefix(name, "__") && strings.HasSuffix(name, "__")
}

// kindSet is a set of kinds.
type kindSet uint32

func kinds(ks ...Kind) kindSet {
	var s kindSet
	for _, k := range ks {
		s |= 1 << k
	}
	return s
}

func (s kindSet) has(k Kind) bool { return s>>k&1 != 0 }

// callable returns the kinds whose method of this name a template may call.
func callable(name string) kindSet {
	var s kindSet
	for k := Missing; k <= Function; k++ {
		if m := methodsOf(k); m != "" && listed(m, name) && !((k == Dict || k == List) && listed(mutators, name)) {
			s |= 1 << k
		}
	}
	return s
}

func methodsOf(k Kind) string {
	switch k {
	case Dict:
		return dictMethods
	case List:
		return listMethods
	case Tuple:
		return tupleMethods
	case String:
		return stringMethods
	case Int, BigInt, Bool:
		return intMethods
	case Float:
		return floatMethods
	case Loop:
		return loopMethods
	case Range:
		return tupleMethods
	}
	return ""
}

// attribute is Python's getattr within the sandbox: methods, and the
// attributes of namespaces, loops, macros and numbers.
func attribute(v, name Value) (Value, bool) {
	n := name.Str()
	if n == "" || strings.IndexByte(n, ' ') >= 0 {
		return Value{}, false
	}
	if strings.HasPrefix(n, "__") && strings.HasSuffix(n, "__") && (v.kind != Namespace || n == "__class__") {
		return unsafeAttr(v, n), true
	}
	switch v.kind {
	case Namespace:
		return v.namespace().attrs.Get(n)
	case Loop:
		if a, ok := v.loop().attr(n); ok {
			return a, true
		}
	case Macro:
		return v.macro().attr(n)
	case Int, Bool, Float, BigInt:
		if a, ok := numberAttr(v, n); ok {
			return a, true
		}
	case Range:
		r := (*rng)(v.ptr)
		switch n {
		case "start":
			return FromInt(r.start), true
		case "stop":
			return FromInt(r.stop), true
		case "step":
			return FromInt(r.step), true
		}
	}
	if !listed(methodsOf(v.kind), n) {
		return Value{}, false
	}
	if (v.kind == Dict || v.kind == List) && listed(mutators, n) {
		return unsafeAttr(v, n), true
	}
	return fromFunc(&function{name: n, self: v}), true
}

// unsafeAttr is what the sandbox gives for an attribute it hides.
func unsafeAttr(v Value, name string) Value {
	return undefined(&undef{
		hint: "access to attribute " + reprString(name) + " of " + reprString(typeName(v)) + " object is unsafe.",
		kind: KindSecurity,
	}, v.kind)
}

func numberAttr(v Value, n string) (Value, bool) {
	switch n {
	case "real":
		if v.kind == Bool {
			return FromInt(v.int()), true
		}
		return v, true
	case "imag":
		if v.kind == Float {
			return FromFloat(0), true
		}
		return FromInt(0), true
	case "numerator", "denominator":
		switch {
		case v.kind == Float:
			return Value{}, false
		case n == "denominator":
			return FromInt(1), true
		case v.kind == Bool:
			return FromInt(v.int()), true
		}
		return v, true
	}
	return Value{}, false
}
