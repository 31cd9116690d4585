package jinja

import "fmt"

type tokenKind uint8

const (
	tokEOF tokenKind = iota
	tokData
	tokVarBegin
	tokVarEnd
	tokBlockBegin
	tokBlockEnd
	tokName
	tokString
	tokInt
	tokFloat
	tokOp
)

// token is one lexical element. text holds the data, name or operator; val
// holds the value of a literal.
type token struct {
	kind tokenKind
	line int
	text string
	val  Value
}

func (t token) isName(s string) bool { return t.kind == tokName && t.text == s }

func (t token) isOp(s string) bool { return t.kind == tokOp && t.text == s }

func (t token) String() string {
	switch t.kind {
	case tokEOF:
		return "end of template"
	case tokData:
		return "template data"
	case tokVarBegin:
		return "begin of print statement"
	case tokVarEnd:
		return "end of print statement"
	case tokBlockBegin:
		return "begin of statement block"
	case tokBlockEnd:
		return "end of statement block"
	case tokString, tokInt, tokFloat:
		return "literal"
	}
	return fmt.Sprintf("%q", t.text)
}
