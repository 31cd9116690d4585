package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/expediterhq/expediter"
	"github.com/expediterhq/expediter/tenant"
)

// mistakes collects what is wrong with a configuration file, each with its
// line and field.
type mistakes struct {
	file  string
	lines map[string]int // of each field, by its path
	list  []mistake
}

type mistake struct {
	line int
	path string
	want string
}

func (m *mistakes) add(path, format string, args ...any) {
	m.list = append(m.list, mistake{m.line(path), path, fmt.Sprintf(format, args...)})
}

// addError adds what is wrong with the value at path as another package says
// it, with the field that it names appended to path.
func (m *mistakes) addError(path string, err error) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			m.addError(path, e)
		}
		return
	}
	var c *expediter.ConfigError
	var t *tenant.FieldError
	switch {
	case errors.As(err, &c):
		m.add(join(path, snake(c.Field)), "%s", c.Want)
	case errors.As(err, &t):
		m.add(join(path, snake(t.Field)), "%s", t.Want)
	default:
		m.add(path, "%s", err)
	}
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

// err returns all mistakes as one error, in the order of the file, or nil.
func (m *mistakes) err() error {
	if len(m.list) == 0 {
		return nil
	}
	slices.SortStableFunc(m.list, func(a, b mistake) int { return a.line - b.line })
	out := make([]string, len(m.list))
	for i, x := range m.list {
		out[i] = fmt.Sprintf("%s:%d: %s: %s", m.file, x.line, x.path, x.want)
	}
	return errors.New(strings.Join(out, "\n"))
}

var upper = regexp.MustCompile(`[A-Z]+[a-z0-9]*`)

// snake turns a Go field path such as Pools[1].MaxTokens into the file's
// pools[1].max_tokens.
func snake(path string) string {
	parts := strings.Split(path, ".")
	for i, p := range parts {
		name, index, _ := strings.Cut(p, "[")
		words := upper.FindAllString(name, -1)
		if len(words) > 0 && unicode.IsUpper(rune(name[0])) {
			name = strings.ToLower(strings.Join(words, "_"))
		}
		if index != "" {
			name += "[" + index
		}
		parts[i] = name
	}
	return strings.Join(parts, ".")
}
