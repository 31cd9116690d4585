package main

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
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

// parseYAML reads one document in UTF-8, which may begin with a byte order
// mark. Errors name the line.
func parseYAML(data []byte) (*node, error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	switch {
	case bytes.HasPrefix(data, []byte{0xff, 0xfe}), bytes.HasPrefix(data, []byte{0xfe, 0xff}):
		return nil, errors.New("is UTF-16; expected UTF-8")
	case len(bytes.TrimSpace(data)) == 0:
		return nil, errors.New("is empty; config.example.yaml shows what belongs here")
	}
	f, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey()) // decode reports those with the rest
	if err != nil {
		return nil, syntaxError(err)
	}
	if len(f.Docs) > 1 {
		return nil, fmt.Errorf("expected one YAML document, found %d", len(f.Docs))
	}
	if len(f.Docs) == 0 || f.Docs[0].Body == nil || f.Docs[0].Body.Type() == ast.CommentType {
		return nil, errors.New("holds no field; config.example.yaml shows what belongs here")
	}
	return convert(f.Docs[0].Body)
}

var located = regexp.MustCompile(`^\[(\d+):\d+\] (.*)`)

// syntaxError cuts the parser's error, a picture of many lines, to one.
func syntaxError(err error) error {
	first, _, _ := strings.Cut(err.Error(), "\n")
	if m := located.FindStringSubmatch(first); m != nil {
		return fmt.Errorf("line %s: %s", m[1], m[2])
	}
	return errors.New(first)
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
		return nil, fmt.Errorf("line %d: %s is not supported; write the value out", out.line, n.Type())
	}
	return out, nil
}

func (n *node) addField(pair *ast.MappingValueNode) error {
	name := pair.Key.GetToken().Value
	if pair.Key.Type() == ast.MergeKeyType {
		return fmt.Errorf("line %d: merge keys are not supported; write the fields out", lineOf(pair.Key))
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
