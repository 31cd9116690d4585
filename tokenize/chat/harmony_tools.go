package chat

import (
	"strings"

	"github.com/expediterhq/expediter/internal/jinja"
)

// toolsSection describes tools as a TypeScript namespace.
func toolsSection(tools []jinja.Value) string {
	b := &typeWriter{}
	b.put("# Tools\n\n## functions\n\nnamespace functions {\n\n")
	for _, t := range tools {
		f := field(t, "function")
		for line := range strings.Lines(field(f, "description").Str()) {
			b.put("// ", strings.TrimRight(line, "\r\n"), "\n")
		}
		b.put("type ", field(f, "name").Str(), " = ")
		if params := field(f, "parameters"); params.Kind() == jinja.None {
			b.put("() => any;\n\n")
		} else {
			b.put("(_: ", schemaType(params, ""), ") => any;\n\n")
		}
	}
	b.put("} // namespace functions")
	return b.String()
}

// field returns a field of an object, or None.
func field(v jinja.Value, name string) jinja.Value {
	if m := v.Map(); m != nil {
		if f, ok := m.Get(name); ok {
			return f
		}
	}
	return jinja.Nil()
}

// typeWriter builds TypeScript text.
type typeWriter struct{ strings.Builder }

func (b *typeWriter) put(parts ...string) {
	for _, p := range parts {
		b.WriteString(p)
	}
}

// comment writes "// text" on a line of its own if text is a str.
func (b *typeWriter) comment(indent string, text jinja.Value) {
	if text.Kind() == jinja.String {
		b.put(indent, "// ", text.Str(), "\n")
	}
}

// schemaType returns the TypeScript type for a JSON schema.
func schemaType(s jinja.Value, indent string) string {
	if variants := field(s, "oneOf"); variants.Kind() == jinja.List {
		return unionType(variants.Items(), indent)
	}
	typ := field(s, "type")
	if names := typ.Items(); len(names) > 0 {
		var out []string
		for _, n := range names {
			switch {
			case n.Str() == "integer":
				out = append(out, "number")
			case n.Kind() == jinja.String:
				out = append(out, n.Str())
			}
		}
		if len(out) > 0 {
			return strings.Join(out, " | ")
		}
	}
	switch typ.Str() {
	case "object":
		return objectType(s, indent)
	case "string":
		if names := enumNames(s); len(names) > 0 {
			return strings.Join(names, " | ")
		}
		return "string"
	case "number", "integer":
		return "number"
	case "boolean":
		return "boolean"
	case "array":
		if items := field(s, "items"); items.Kind() != jinja.None {
			return schemaType(items, indent) + "[]"
		}
		return "Array<any>"
	}
	return "any"
}

// enumNames returns the str values of an enum in quotes.
func enumNames(s jinja.Value) []string {
	var out []string
	for _, v := range field(s, "enum").Items() {
		if v.Kind() == jinja.String {
			out = append(out, `"`+v.Str()+`"`)
		}
	}
	return out
}

func isEnum(s jinja.Value) bool { return len(field(s, "enum").Items()) > 0 }

// nullable adds null to the type of a nullable schema.
func nullable(s jinja.Value, typ string) string {
	if n := field(s, "nullable"); n.Kind() == jinja.Bool && n == jinja.FromBool(true) && !strings.Contains(typ, "null") {
		return typ + " | null"
	}
	return typ
}

// defaultText returns "default: x" for a schema with a default, else "". The
// values of an enum are bare if bare is set.
func defaultText(s jinja.Value, bare bool) string {
	m := s.Map()
	if m == nil {
		return ""
	}
	v, ok := m.Get("default")
	switch {
	case !ok:
		return ""
	case v.Kind() == jinja.String && isEnum(s) && bare:
		return "default: " + v.Str()
	case v.Kind() == jinja.String && !isEnum(s):
		return `default: "` + v.Str() + `"`
	}
	text, err := jinja.AppendCompactJSON(nil, v)
	if err != nil {
		return ""
	}
	return "default: " + string(text)
}

// unionType returns the variants of a oneOf, one a line.
func unionType(variants []jinja.Value, indent string) string {
	b := &typeWriter{}
	for _, v := range variants {
		b.put("\n", indent, " | ", nullable(v, schemaType(v, indent+"   ")))
		var notes []string
		if d := field(v, "description"); d.Kind() == jinja.String {
			notes = append(notes, d.Str())
		}
		if d := defaultText(v, false); d != "" {
			notes = append(notes, d)
		}
		if len(notes) > 0 {
			b.put(" // ", strings.Join(notes, " "))
		}
	}
	return b.String()
}

// objectType returns an object with its properties, one a line.
func objectType(s jinja.Value, indent string) string {
	b := &typeWriter{}
	b.comment(indent, field(s, "description"))
	b.put("{\n")
	required := map[string]bool{}
	for _, r := range field(s, "required").Items() {
		required[r.Str()] = true
	}
	if props := field(s, "properties").Map(); props != nil {
		for _, e := range props.Entries() {
			name := e.Key.Str()
			if !required[name] {
				name += "?"
			}
			b.property(name, e.Val, indent)
		}
	}
	b.put(indent, "}")
	return b.String()
}

func (b *typeWriter) property(name string, s jinja.Value, indent string) {
	if t := field(s, "title"); t.Kind() == jinja.String {
		b.put(indent, "// ", t.Str(), "\n", indent, "//\n")
	}
	variants := field(s, "oneOf")
	union := variants.Kind() == jinja.List
	if field(s, "oneOf").Kind() == jinja.None {
		b.comment(indent, field(s, "description"))
	}
	if examples := field(s, "examples").Items(); len(examples) > 0 {
		b.put(indent, "// Examples:\n")
		for _, x := range examples {
			if x.Kind() == jinja.String {
				b.put(indent, `// - "`, x.Str(), "\"\n")
			}
		}
	}
	if union {
		b.unionProperty(name, s, variants.Items(), indent)
		return
	}
	b.put(indent, name, ": ", nullable(s, schemaType(s, indent+"    ")), ",")
	if d := defaultText(s, true); d != "" {
		b.put(" // ", d)
	}
	b.put("\n")
}

// unionProperty writes a property that is a oneOf. A description that the
// property shares with its first variant is written once.
func (b *typeWriter) unionProperty(name string, s jinja.Value, variants []jinja.Value, indent string) {
	desc := field(s, "description")
	above := desc.Kind() == jinja.String
	if above && len(variants) > 0 {
		first := field(variants[0], "description")
		above = first.Kind() != jinja.String || first.Str() != desc.Str()
	}
	if above {
		b.comment(indent, desc)
	}
	if d := defaultText(s, true); d != "" {
		b.put(indent, "// ", d, "\n")
	}
	b.put(indent, name, ":\n")
	for i, v := range variants {
		b.put(indent, " | ", nullable(v, schemaType(v, indent+"   ")))
		var notes []string
		d := field(v, "description")
		if d.Kind() == jinja.String && (i > 0 || !above) && (desc.Kind() != jinja.String || d.Str() != desc.Str()) {
			notes = append(notes, d.Str())
		}
		if t := defaultText(v, true); t != "" {
			notes = append(notes, t)
		}
		if len(notes) > 0 {
			b.put(" // ", strings.Join(notes, " "))
		}
		b.put("\n")
	}
	b.put(indent, ",\n")
}
