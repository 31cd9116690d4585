package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/expediterhq/expediter"
	"github.com/expediterhq/expediter/registry"
	"github.com/expediterhq/expediter/tenant"
)

// mistakes collects what is wrong with a configuration file, each with its
// line and field.
type mistakes struct {
	file   string
	lines  map[string]int    // of each field, by its path
	unread map[string]bool   // paths whose value is not of the right kind
	below  map[string]string // numbers below 0, as they are written
	words  map[string]bool   // paths of maps that are written as one word
	blanks []blank           // of the values that could be read
	list   []mistake
}

type mistake struct {
	line int
	path string
	want string
}

func newMistakes(file string) *mistakes {
	return &mistakes{file: file, lines: make(map[string]int), unread: make(map[string]bool), below: make(map[string]string), words: make(map[string]bool)}
}

// remarks returns an empty list for the same file.
func (m *mistakes) remarks() *mistakes { return &mistakes{file: m.file, lines: m.lines} }

// add adds one mistake. What follows from a value that could not be read is
// left out: the value itself is in the list already.
func (m *mistakes) add(path, format string, args ...any) {
	if !m.unread[path] {
		m.list = append(m.list, mistake{m.line(path), path, fmt.Sprintf(format, args...)})
	}
}

// addError adds what is wrong with of, the part of the file at path, as
// another package says it.
func (m *mistakes) addError(path string, of any, err error) {
	for _, leaf := range leaves(err) {
		var c *expediter.ConfigError
		var t *tenant.FieldError
		var d *registry.FieldError
		switch {
		case errors.As(leaf, &c):
			m.addWant(join(path, fileField(c.Field)), inFile(c.Want))
		case errors.As(leaf, &t):
			m.add(join(path, fileField(t.Field)), "%s", inFile(t.Want))
		case errors.As(leaf, &d):
			m.add(join(path, fileField(d.Field)), "%s", d.Want)
		default:
			field, want := fieldIn(of, leaf.Error())
			m.add(m.inside(path, field), "%s", want)
		}
	}
}

// addWant adds what was expected, with the value if that is only that it is not
// below 0.
func (m *mistakes) addWant(path, want string) {
	if got := m.below[path]; got != "" && want == "must not be negative" {
		want += ", got " + got
	}
	m.add(path, "%s", want)
}

// leaves returns the errors that err joins, also below one that wraps them.
func leaves(err error) []error {
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) {
		return []error{err}
	}
	var out []error
	for _, e := range joined.Unwrap() {
		out = append(out, leaves(e)...)
	}
	return out
}

// quoted matches a value in quotes.
const quoted = `"(?:[^"\\]|\\.)*"`

var (
	// origin is what packages put before the field they speak of.
	origin = regexp.MustCompile(strings.ReplaceAll(
		`^(?:(?:registry|tenant): )?(?:pool Q: )?(?:replica(?: Q)?: )?(?:Keys\[\d+\] \(key Q of tenant Q\): )?`, "Q", quoted))
	subject = regexp.MustCompile(`^([A-Za-z][A-Za-z ]*): (.*)$`)
)

// fieldIn takes a text such as `registry: pool "a": kv tokens: expected 0 or
// more` apart into the field of v that it is about, if v has it, and the rest.
func fieldIn(v any, text string) (field, want string) {
	text = text[len(origin.FindString(text)):]
	if s := subject.FindStringSubmatch(text); s != nil && v != nil {
		name := strings.ReplaceAll(strings.ToLower(s[1]), " ", "_")
		if slices.Contains(fieldNames(v), name) {
			return name, s[2]
		}
	}
	return "", text
}

// inside returns the path of a field of the value at path, which is path
// itself where the value is written as one word.
func (m *mistakes) inside(path, field string) string {
	if field == "" || m.words[path] {
		return path
	}
	return join(path, field)
}

// line finds the line of a field, or of the nearest thing around it.
func (m *mistakes) line(path string) int {
	for path != "" {
		if n := m.lines[path]; n > 0 {
			return n
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
	return 1
}

// fileError is a report of what is wrong with a file. Each line begins with the
// file and the line, as editors expect it.
type fileError string

func (e fileError) Error() string { return string(e) }

// err returns all mistakes as one fileError, in the order of the file, or nil.
func (m *mistakes) err() error {
	if len(m.list) == 0 {
		return nil
	}
	return fileError(strings.Join(m.report(""), "\n"))
}

// report returns a line for each entry, in the order of the file. What kind
// of entry they are goes before the field.
func (m *mistakes) report(kind string) []string {
	slices.SortStableFunc(m.list, func(a, b mistake) int { return a.line - b.line })
	out := make([]string, len(m.list))
	for i, x := range m.list {
		field := x.path
		if field != "" {
			field += ": "
		}
		out[i] = fmt.Sprintf("%s:%d: %s%s%s", m.file, x.line, kind, field, x.want)
	}
	return out
}

var (
	upper = regexp.MustCompile(`[A-Z]+[a-z0-9]*`)
	// goName finds the names of Go fields in a text, and quoted values, which
	// are left alone.
	goName = regexp.MustCompile(quoted + `|\b(?:Pools|Models|Limits|Timeouts|Retry|MaxTokens|DefaultMaxTokens)\b(?:\[\d+\])?(?:\.[A-Z]\w*)*`)
)

// inFile replaces the names of Go fields in a text by those of the file.
func inFile(text string) string {
	return goName.ReplaceAllStringFunc(text, func(s string) string {
		if s[0] == '"' {
			return s
		}
		return fileField(s)
	})
}

// fileField turns a Go field path such as Pools[1].MaxTokens into the file's
// pools[1].max_tokens.
func fileField(path string) string {
	parts := strings.Split(path, ".")
	for i, p := range parts {
		name, index, _ := strings.Cut(p, "[")
		words := upper.FindAllString(name, -1)
		if len(words) > 0 && unicode.IsUpper(rune(name[0])) {
			name = strings.ToLower(strings.Join(words, "_"))
		}
		if name == "ttft" || name == "tpot" {
			name = "slo." + name
		}
		if index != "" {
			name += "[" + index
		}
		parts[i] = name
	}
	return strings.TrimPrefix(strings.Join(parts, "."), "limit.") // a tenant's limits stand beside its id
}
