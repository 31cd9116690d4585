package main

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// node is a YAML value with the line it stands on: a scalar, a list or a map.
type node struct {
	line   int
	kind   kind
	text   string // of a scalar, without quotes
	list   []*node
	fields []field // of a map, in order
}

type field struct {
	name  string
	line  int
	value *node
}

type kind uint8

const (
	null kind = iota
	scalar
	list
	mapping
)

func (k kind) String() string { return [...]string{"nothing", "a value", "a list", "a map"}[k] }

// lineError says on which line a file cannot be read, and why.
type lineError struct {
	line int
	text string
}

func (e *lineError) Error() string { return fmt.Sprintf("line %d: %s", e.line, e.text) }

func wrongLine(line int, format string, args ...any) error {
	return &lineError{line, fmt.Sprintf(format, args...)}
}

// parseYAML reads one document in UTF-8, which may begin with a byte order
// mark, and is a map. Errors are a *lineError.
func parseYAML(data []byte) (*node, error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	switch {
	case bytes.HasPrefix(data, []byte{0xff, 0xfe}), bytes.HasPrefix(data, []byte{0xfe, 0xff}):
		return nil, wrongLine(1, "is UTF-16; expected UTF-8")
	case len(bytes.TrimSpace(data)) == 0:
		return nil, wrongLine(1, "is empty; config.example.yaml shows what belongs here")
	}
	f, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey()) // decode reports those with the rest
	if err != nil {
		return nil, syntaxError(err, data)
	}
	if len(f.Docs) > 1 {
		return nil, wrongLine(f.Docs[1].Start.Position.Line, "expected one YAML document, found %d", len(f.Docs))
	}
	if len(f.Docs) == 0 || f.Docs[0].Body == nil || f.Docs[0].Body.Type() == ast.CommentType {
		return nil, wrongLine(1, "holds no field; config.example.yaml shows what belongs here")
	}
	root, err := convert(f.Docs[0].Body)
	if err == nil && root.kind != mapping {
		err = wrongLine(root.line, "expected a map, found %s; at the top are fields such as pools, models and tenants", root.kind)
	}
	return root, err
}

var located = regexp.MustCompile(`^\[(\d+):\d+\] (.*)`)

// bracketed finds addresses that YAML takes for lists or keys.
var bracketed = regexp.MustCompile(`\[[0-9A-Fa-f.]*:[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*\]|[\[{,]\s*:\d`)

// syntaxError cuts the parser's error, a picture of many lines, to one.
func syntaxError(err error, data []byte) error {
	first, _, _ := strings.Cut(err.Error(), "\n")
	m := located.FindStringSubmatch(first)
	if m == nil {
		return wrongLine(1, "cannot be read as YAML: %s", first)
	}
	hint := ""
	lines := bytes.Split(data, []byte("\n"))
	n, err := strconv.Atoi(m[1])
	if err == nil && 0 < n && n <= len(lines) && bracketed.Match(lines[n-1]) {
		hint = `; an address with brackets, or without a host, needs quotes, such as "[::1]:8080"`
	}
	return wrongLine(n, "cannot be read as YAML: %s%s", m[2], hint)
}

func lineOf(n ast.Node) int {
	if t := n.GetToken(); t != nil && t.Position != nil {
		return t.Position.Line
	}
	return 0
}

func convert(n ast.Node) (*node, error) {
	out := &node{line: lineOf(n)}
	switch v := n.(type) {
	case *ast.NullNode:
	case *ast.MappingNode:
		out.kind = mapping
		if len(v.Values) > 0 {
			out.line = lineOf(v.Values[0].Key)
		}
		for _, pair := range v.Values {
			if err := out.addField(pair); err != nil {
				return nil, err
			}
		}
	case *ast.MappingValueNode:
		out.kind, out.line = mapping, lineOf(v.Key)
		return out, out.addField(v)
	case *ast.SequenceNode:
		out.kind = list
		for _, item := range v.Values {
			if text, ok := oneWord(item); ok && v.IsFlowStyle {
				out.list = append(out.list, &node{line: lineOf(item), kind: scalar, text: text})
				continue
			}
			c, err := convert(item)
			if err != nil {
				return nil, err
			}
			out.list = append(out.list, c)
		}
	case *ast.StringNode:
		out.kind, out.text = scalar, v.Value
	case *ast.LiteralNode:
		out.kind, out.text = scalar, v.Value.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		out.kind, out.text = scalar, n.GetToken().Value
	default:
		return nil, wrongLine(out.line, "%s is not supported; write the value out", n.Type())
	}
	return out, nil
}

// oneWord returns the text of an item such as host:80 of a list in braces,
// which the parser takes for a map. By the YAML specification a colon that no
// space follows is part of the word.
func oneWord(item ast.Node) (text string, ok bool) {
	if m, is := item.(*ast.MappingNode); is && !m.IsFlowStyle && len(m.Values) == 1 {
		item = m.Values[0]
	}
	pair, is := item.(*ast.MappingValueNode)
	if !is {
		return "", false
	}
	key, colon, value := pair.Key.GetToken(), pair.Start, pair.Value.GetToken()
	if !plain(pair.Key) || !plain(pair.Value) || value.Position.Offset != colon.Position.Offset+1 {
		return "", false
	}
	return key.Value + ":" + value.Value, true
}

// plain reports whether n is a word without quotes.
func plain(n ast.Node) bool {
	switch n.(type) {
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Indicator == token.NotIndicator
	}
	return false
}

func (n *node) addField(pair *ast.MappingValueNode) error {
	name := pair.Key.GetToken().Value
	if pair.Key.Type() == ast.MergeKeyType {
		return wrongLine(lineOf(pair.Key), "merge keys are not supported; write the fields out")
	}
	v, err := convert(pair.Value)
	if err != nil {
		return err
	}
	if v.kind == null {
		v.line = lineOf(pair.Key)
	}
	n.fields = append(n.fields, field{name: name, line: lineOf(pair.Key), value: v})
	return nil
}
