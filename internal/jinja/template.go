package jinja

import (
	"sync"
	"time"
)

// Template is a parsed template. It is safe for concurrent use. It never
// changes but for the texts that it keeps for durable values.
type Template struct {
	body     []stmt
	root     *fnInfo
	ctxNames []string
	states   sync.Pool
	macros   int // macro statements in body itself
	kept     texts
}

// Parse parses template source. It fails with an *Error of kind
// TemplateSyntaxError.
func Parse(source string) (*Template, error) {
	if len(source) > maxSource {
		return nil, errf(KindSyntax, "template is larger than %d bytes", maxSource)
	}
	toks, err := lex(source)
	if err != nil {
		return nil, err
	}
	p := &parser{toks: toks}
	body, err := p.body()
	if err != nil {
		return nil, err
	}
	t := &Template{body: body}
	t.root, t.ctxNames = resolve(body)
	for _, s := range body {
		if m, ok := s.(*macroStmt); ok {
			m.top = true
			t.macros++
		}
	}
	t.states.New = func() any { return new(state) }
	return t, nil
}

// Var is a variable given to a render.
type Var struct {
	Name  string
	Value Value
}

// Env is what a render can see. Later variables win over earlier ones of the
// same name, and all of them over the built-in globals.
type Env struct {
	Vars   []Var
	Now    time.Time // clock of strftime_now. If zero, time.Now().
	Limits Limits
}

// Render appends the output to dst and returns it. The error is an *Error; dst
// is then returned unchanged. Values in env must not be changed meanwhile.
func (t *Template) Render(dst []byte, env *Env) ([]byte, error) {
	st := t.states.Get().(*state)
	st.start(t, dst, env)
	err := st.run(t)
	out := st.out
	st.finish()
	t.states.Put(st)
	if err != nil {
		return dst, err
	}
	return out, nil
}

// lookup finds the value of a context name.
func (e *Env) lookup(name string) Value {
	for i := len(e.Vars) - 1; i >= 0; i-- {
		if e.Vars[i].Name == name {
			return e.Vars[i].Value
		}
	}
	return globalByName(name)
}
