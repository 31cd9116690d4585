package jinja

import (
	"slices"
	"strings"
	"unicode"
)

// stringMethod calls a method of str.
func stringMethod(st *state, self Value, name string, a args) (Value, error) {
	s := self.Str()
	switch name {
	case "strip", "lstrip", "rstrip":
		b, err := a.bind(name, 0, "chars")
		if err != nil {
			return self, err
		}
		return strip(st, self, b[0], name != "rstrip", name != "lstrip")
	case "split", "rsplit":
		return split(st, s, name == "rsplit", a)
	case "startswith", "endswith":
		return affix(self, name, a)
	case "replace":
		return replaceMethod(st, s, a)
	case "format":
		return formatBraces(st, s, a)
	case "join":
		return joinMethod(st, s, a)
	case "find", "rfind", "index", "rindex", "count":
		return find(self, name, a)
	case "removeprefix", "removesuffix":
		p, err := oneStr(name, a)
		if err != nil {
			return self, err
		}
		if name == "removeprefix" {
			return FromString(strings.TrimPrefix(s, p)), nil
		}
		return FromString(strings.TrimSuffix(s, p)), nil
	case "partition", "rpartition":
		return partition(s, name, a)
	case "center", "ljust", "rjust", "zfill":
		return justify(st, self, name, a)
	case "splitlines":
		b, err := a.bind(name, 0, "keepends")
		if err != nil {
			return self, err
		}
		return st.list(strValues(st, splitLines(s, truth(b[0]))))
	case "expandtabs":
		return expandTabs(st, s, a)
	}
	return plainStringMethod(st, self, name, a)
}

// plainStringMethod calls a method without arguments.
func plainStringMethod(st *state, self Value, name string, a args) (Value, error) {
	if _, err := a.bind(name, 0); err != nil {
		return self, err
	}
	s := self.Str()
	if v, ok := classMethod(s, name); ok {
		return FromBool(v), nil
	}
	switch name {
	case "upper":
		return st.str(toUpper(s))
	case "lower":
		return st.str(toLower(s))
	case "capitalize":
		return st.str(capitalize(s))
	case "title":
		return st.str(title(s))
	case "swapcase":
		return st.str(swapCase(s))
	}
	return self, noMethod(self, name)
}

// classMethod answers the is... methods.
func classMethod(s, name string) (v, ok bool) {
	letterOrDigit := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }
	switch name {
	case "isalpha":
		return allRunes(s, unicode.IsLetter), true
	case "isalnum":
		return allRunes(s, letterOrDigit), true
	case "isdigit":
		return allRunes(s, func(r rune) bool {
			return unicode.IsDigit(r) || strings.ContainsRune("²³¹⁰⁴⁵⁶⁷⁸⁹₀₁₂₃₄₅₆₇₈₉", r)
		}), true
	case "isdecimal":
		return allRunes(s, unicode.IsDigit), true
	case "isnumeric":
		return allRunes(s, unicode.IsNumber), true
	case "isspace":
		return allRunes(s, isSpace), true
	case "isupper":
		return isCased(s, true), true
	case "islower":
		return isCased(s, false), true
	case "istitle":
		return isTitled(s), true
	case "isascii":
		return isASCII(s), true
	case "isprintable":
		return s == "" || allRunes(s, func(r rune) bool { return r == ' ' || unicode.IsPrint(r) }), true
	case "isidentifier":
		return allRunes(s, isWord) && !unicode.IsDigit([]rune(s)[0]), true
	}
	return false, false
}

func strValues(st *state, ss []string) []Value {
	out := st.mem.values(len(ss))
	for i, s := range ss {
		out[i] = FromString(s)
	}
	return out
}

func oneStr(name string, a args) (string, error) {
	b, err := a.bind(name, 1, "arg")
	if err != nil {
		return "", err
	}
	if b[0].kind != String {
		return "", typeErr("%s() argument must be str, not %s", name, typeName(b[0]))
	}
	return b[0].Str(), nil
}

// split is str.split and str.rsplit.
func split(st *state, s string, right bool, a args) (Value, error) {
	b, err := a.bind("split", 0, "sep", "maxsplit")
	if err != nil {
		return Value{}, err
	}
	n := -1
	if b[1].kind != Missing {
		if !b[1].isInt() {
			return Value{}, typeErr("'%s' object cannot be interpreted as an integer", typeName(b[1]))
		}
		n = b[1].clamped()
	}
	var parts []string
	switch sep := b[0]; {
	case sep.kind == Missing || sep.kind == None:
		if err := st.spend(len(s) >> 1); err != nil {
			return Value{}, err
		}
		parts = splitSpace(s, n, right)
	case sep.kind != String:
		return Value{}, typeErr("must be str or None, not %s", typeName(sep))
	case sep.Str() == "":
		return Value{}, valueErr("empty separator")
	case n < 0:
		if c := strings.Count(s, sep.Str()); c > st.buildLeft/valueSize {
			return Value{}, errBuild
		}
		parts = strings.Split(s, sep.Str())
	case right:
		for ; n > 0; n-- {
			i := strings.LastIndex(s, sep.Str())
			if i < 0 {
				break
			}
			parts = append(parts, s[i+len(sep.Str()):])
			s = s[:i]
		}
		parts = append(parts, s)
		slices.Reverse(parts)
	default:
		parts = strings.SplitN(s, sep.Str(), n+1)
	}
	if err := st.spend(len(parts)); err != nil {
		return Value{}, err
	}
	return st.list(strValues(st, parts))
}

// splitSpace splits at runs of white space, at most n times if n >= 0.
func splitSpace(s string, n int, right bool) []string {
	if n < 0 {
		return strings.FieldsFunc(s, isSpace)
	}
	var parts []string
	if right {
		s = strings.TrimRightFunc(s, isSpace)
		for ; s != "" && n > 0; n-- {
			i := strings.LastIndexFunc(s, isSpace)
			if i < 0 {
				break
			}
			word := strings.TrimLeftFunc(s[i:], isSpace)
			parts = append(parts, word)
			s = strings.TrimRightFunc(s[:i], isSpace)
		}
		if s != "" {
			parts = append(parts, s)
		}
		slices.Reverse(parts)
		return parts
	}
	s = strings.TrimLeftFunc(s, isSpace)
	for ; s != "" && n > 0; n-- {
		i := strings.IndexFunc(s, isSpace)
		if i < 0 {
			break
		}
		parts = append(parts, s[:i])
		s = strings.TrimLeftFunc(s[i:], isSpace)
	}
	if s != "" {
		parts = append(parts, s)
	}
	return parts
}

// splitLines is str.splitlines.
func splitLines(s string, keep bool) []string {
	var out []string
	from := 0
	for i, r := range s {
		if i < from || !(r >= '\n' && r <= '\r' || r >= 0x1c && r <= 0x1e || r == 0x85 || r == 0x2028 || r == 0x2029) {
			continue
		}
		end := i + len(string(r))
		if r == '\r' && end < len(s) && s[end] == '\n' {
			end++
		}
		if keep {
			out = append(out, s[from:end])
		} else {
			out = append(out, s[from:i])
		}
		from = end
	}
	if from < len(s) {
		out = append(out, s[from:])
	}
	return out
}

// affix is str.startswith and str.endswith; the argument may be a tuple.
func affix(self Value, name string, a args) (Value, error) {
	b, err := a.bind(name, 1, "prefix", "start", "end")
	if err != nil {
		return self, err
	}
	s, err := window(self, &b)
	if err != nil {
		return self, err
	}
	has := strings.HasPrefix
	if name == "endswith" {
		has = strings.HasSuffix
	}
	switch b[0].kind {
	case String:
		return FromBool(has(s, b[0].Str())), nil
	case Tuple:
		for _, v := range b[0].Items() {
			if v.kind != String {
				return self, typeErr("tuple for %s must only contain str, not %s", name, typeName(v))
			}
			if has(s, v.Str()) {
				return trueValue, nil
			}
		}
		return falseValue, nil
	}
	return self, typeErr("%s first arg must be str or a tuple of str, not %s", name, typeName(b[0]))
}

// window applies the optional start and end arguments in b[1] and b[2].
func window(self Value, b *[6]Value) (string, error) {
	s := self.Str()
	if b[1].kind == Missing && b[2].kind == Missing {
		return s, nil
	}
	for i := 1; i <= 2; i++ {
		if b[i].kind == Missing {
			b[i] = noneValue
		}
	}
	from, to, _, err := sliceBounds(self.runes(), b[1], b[2], noneValue)
	if err != nil {
		return "", err
	}
	i := runeOffset(s, from)
	return s[i : i+runeOffset(s[i:], to-from)], nil
}
