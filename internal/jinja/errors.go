package jinja

import "fmt"

// Error kinds. The names are Python's and Jinja's, so that messages can be
// compared with those of a reference renderer.
const (
	KindSyntax    = "TemplateSyntaxError"
	KindTemplate  = "TemplateError"
	KindRuntime   = "TemplateRuntimeError"
	KindUndefined = "UndefinedError"
	KindSecurity  = "SecurityError"
	KindType      = "TypeError"
	KindValue     = "ValueError"
	KindKey       = "KeyError"
	KindIndex     = "IndexError"
	KindOverflow  = "OverflowError"
	KindZeroDiv   = "ZeroDivisionError"
	KindAttribute = "AttributeError"
	KindRecursion = "RecursionError"
	KindLimit     = "LimitError"
	KindJSON      = "JSONDecodeError"
	KindFilterArg = "FilterArgumentError"
)

// Error is a failure while parsing or rendering a template, or while decoding
// a value for one.
type Error struct {
	Kind    string // one of the Kind constants
	Message string
	Line    int // 1-based line of the template; 0 if unknown
}

// Error returns "kind: message".
func (e *Error) Error() string { return e.Kind + ": " + e.Message }

func errf(kind, format string, args ...any) *Error {
	return &Error{Kind: kind, Message: fmt.Sprintf(format, args...)}
}

func typeErr(format string, args ...any) *Error { return errf(KindType, format, args...) }

func valueErr(format string, args ...any) *Error { return errf(KindValue, format, args...) }

// at gives err the line of the innermost node that saw it. It copies, because
// the errors of limits are shared by all renders.
func at(err error, line int) error {
	if err == nil {
		return nil
	}
	if e, ok := err.(*Error); ok && e.Line == 0 {
		c := *e
		c.Line = line
		return &c
	}
	return err
}
