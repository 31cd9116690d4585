package jinja

// IteratesContent reports whether the template loops over the content of a
// message, which means that it wants content as a list of parts and not as a
// string. It looks at loops over the content attribute of variables that are
// items of messages, directly or through assignments; scopes are not told
// apart. This is the rule by which vLLM chooses the content format.
func (t *Template) IteratesContent() bool {
	lists, ok := t.assignedFrom("messages")
	if !ok {
		return false
	}
	items := map[string]bool{}
	for _, f := range t.loops() {
		for name := range lists {
			if reads(f.iter, name, "") {
				if f.target.multi {
					return false
				}
				items[f.target.name] = true
				break
			}
		}
	}
	for _, f := range t.loops() {
		for name := range items {
			if reads(f.iter, name, "content") {
				return !f.target.multi
			}
		}
	}
	return false
}

// assignedFrom returns the variables that hold the value of name, or a part or
// filtered form of it. It fails if such a value is unpacked or goes to a
// namespace, where it cannot be followed.
func (t *Template) assignedFrom(name string) (map[string]bool, bool) {
	names, queue := map[string]bool{name: true}, []string{name}
	for len(queue) > 0 {
		from := queue[0]
		queue = queue[1:]
		for _, s := range t.sets() {
			if !reads(s.x, from, "") {
				continue
			}
			if s.target.multi || s.target.attr != "" {
				return nil, false
			}
			if to := s.target.name; !names[to] {
				names[to] = true
				queue = append(queue, to)
			}
		}
	}
	return names, true
}

// reads reports whether x is the variable name, or its attribute key if key is
// not empty, possibly sliced, filtered or tested.
func reads(x expr, name, key string) bool {
	switch x := x.(type) {
	case *filterExpr:
		return x.x != nil && reads(x.x, name, key)
	case *testExpr:
		return reads(x.x, name, key)
	case *sliceExpr:
		return reads(x.x, name, key)
	case *nameExpr:
		return key == "" && x.name == name
	case *attrExpr:
		return key != "" && x.name == key && reads1(x.x, name)
	case *itemExpr:
		c, ok := x.arg.(*constExpr)
		return key != "" && ok && c.v.Str() == key && reads1(x.x, name)
	}
	return false
}

func reads1(x expr, name string) bool {
	n, ok := x.(*nameExpr)
	return ok && n.name == name
}

func (t *Template) loops() []*forStmt { return statements[*forStmt](t.body) }

func (t *Template) sets() []*setStmt { return statements[*setStmt](t.body) }

// statements returns the statements of one type, in the order of the source.
func statements[S stmt](body []stmt) []S {
	var out []S
	for _, s := range body {
		if x, ok := s.(S); ok {
			out = append(out, x)
		}
		_, bodies := parts(s)
		for _, b := range bodies {
			out = append(out, statements[S](b)...)
		}
	}
	return out
}
