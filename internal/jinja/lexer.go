package jinja

import (
	"strings"
	"unicode/utf8"
)

// lexer splits template source into tokens. Whitespace control, trim_blocks
// and lstrip_blocks are settled here: the parser sees only final data.
type lexer struct {
	src       string
	pos       int
	line      int
	toks      []token
	lineStart bool   // the last match ended with a newline
	open      []byte // closing brackets still expected in the current tag
	texts     map[string]string
}

// lex returns the tokens of source, ended by tokEOF.
func lex(source string) ([]token, error) {
	source = strings.ReplaceAll(source, "\r\n", "\n")
	source = strings.ReplaceAll(source, "\r", "\n")
	source = strings.TrimSuffix(source, "\n")
	l := &lexer{src: source, line: 1, lineStart: true, texts: map[string]string{}}
	for l.pos < len(l.src) {
		if err := l.root(); err != nil {
			return nil, err
		}
	}
	l.emit(token{kind: tokEOF})
	return l.toks, nil
}

// emit adds a token. Equal names and literals share their memory, by which a
// dict key that comes from the template is found without looking at its text.
func (l *lexer) emit(t token) {
	t.line = l.line
	switch t.kind {
	case tokName:
		t.text = l.shared(t.text)
	case tokString:
		flag := t.val.flag
		t.val = FromString(l.shared(t.val.Str()))
		t.val.flag = flag
	}
	l.toks = append(l.toks, t)
}

func (l *lexer) shared(s string) string {
	if first, ok := l.texts[s]; ok {
		return first
	}
	l.texts[s] = s
	return s
}

func (l *lexer) errorf(format string, args ...any) error {
	e := errf(KindSyntax, format, args...)
	e.Line = l.line
	return e
}

// data emits text unless it is empty, then counts the newlines of the source
// text it stands for.
func (l *lexer) data(text, source string) {
	if text != "" {
		l.emit(token{kind: tokData, text: text})
	}
	l.line += strings.Count(source, "\n")
}

// advance moves to position end.
func (l *lexer) advance(end int) {
	l.line += strings.Count(l.src[l.pos:end], "\n")
	l.lineStart = end > l.pos && l.src[end-1] == '\n'
	l.pos = end
}

// root reads data up to the next tag, and the tag.
func (l *lexer) root() error {
	rest := l.src[l.pos:]
	i, kind := nextTag(rest)
	if i < 0 {
		l.data(rest, rest)
		l.pos = len(l.src)
		return nil
	}
	text, sign := rest[:i], byte(0)
	body := l.pos + i + 2
	if body < len(l.src) && (l.src[body] == '-' || l.src[body] == '+') {
		sign = l.src[body]
		body++
	}
	l.data(l.strip(text, sign, kind != '{'), text)
	l.pos, l.lineStart = body, false
	switch kind {
	case '#':
		return l.comment()
	case '{':
		l.emit(token{kind: tokVarBegin})
		return l.tag("}}", tokVarEnd)
	}
	if end := l.rawTag("raw", false); end >= 0 {
		l.advance(end)
		return l.raw()
	}
	l.emit(token{kind: tokBlockBegin})
	return l.tag("%}", tokBlockEnd)
}

// nextTag finds the first "{{", "{%" or "{#".
func nextTag(s string) (int, byte) {
	for i := 0; ; {
		j := strings.IndexByte(s[i:], '{')
		if j < 0 || i+j+1 >= len(s) {
			return -1, 0
		}
		i += j
		switch c := s[i+1]; c {
		case '{', '%', '#':
			return i, c
		}
		i++
	}
}

// strip applies the whitespace control in front of a tag.
func (l *lexer) strip(text string, sign byte, lstrip bool) string {
	switch {
	case sign == '-':
		return strings.TrimRightFunc(text, isSpace)
	case sign == '+' || !lstrip:
		return text
	}
	at := strings.LastIndexByte(text, '\n') + 1
	if (at > 0 || l.lineStart) && strings.TrimLeftFunc(text[at:], isSpace) == "" {
		return text[:at]
	}
	return text
}

// tagEnd matches the end of a block or comment tag at position i and returns
// the position after it, or -1.
func (l *lexer) tagEnd(i int, end string) int {
	s := l.src[i:]
	switch {
	case strings.HasPrefix(s, "-"+end):
		return l.skipSpace(i + 3)
	case end != "}}" && strings.HasPrefix(s, "+"+end):
		return i + 3
	case strings.HasPrefix(s, end):
		if end != "}}" && strings.HasPrefix(s[2:], "\n") {
			return i + 3
		}
		return i + 2
	}
	return -1
}

func (l *lexer) skipSpace(i int) int {
	return len(l.src) - len(strings.TrimLeftFunc(l.src[i:], isSpace))
}

func (l *lexer) comment() error {
	i := strings.Index(l.src[l.pos:], "#}")
	if i < 0 {
		return l.errorf("Missing end of comment tag")
	}
	i += l.pos
	if i > l.pos && (l.src[i-1] == '-' || l.src[i-1] == '+') {
		i--
	}
	l.advance(l.tagEnd(i, "#}"))
	return nil
}

// rawTag matches " raw %}" or " endraw %}" after an opening "{%" at l.pos and
// returns the position after it, or -1. Only the end tag trims a newline.
func (l *lexer) rawTag(name string, trim bool) int {
	i := l.skipSpace(l.pos)
	if !strings.HasPrefix(l.src[i:], name) {
		return -1
	}
	i = l.skipSpace(i + len(name))
	s := l.src[i:]
	switch {
	case strings.HasPrefix(s, "-%}"):
		return l.skipSpace(i + 3)
	case trim:
		return l.tagEnd(i, "%}")
	case strings.HasPrefix(s, "%}"):
		return i + 2
	}
	return -1
}

// raw reads verbatim text up to the endraw tag.
func (l *lexer) raw() error {
	from := l.pos
	for i := from; ; i += 2 {
		j := strings.Index(l.src[i:], "{%")
		if j < 0 {
			return l.errorf("Missing end of raw directive")
		}
		i += j
		l.pos = i + 2
		sign := byte(0)
		if l.pos < len(l.src) && (l.src[l.pos] == '-' || l.src[l.pos] == '+') {
			sign = l.src[l.pos]
			l.pos++
		}
		end := l.rawTag("endraw", true)
		if end < 0 {
			continue
		}
		text := l.src[from:i]
		l.data(l.strip(text, sign, true), text)
		l.advance(end)
		return nil
	}
}

// tag reads the tokens of one tag up to its end.
func (l *lexer) tag(end string, kind tokenKind) error {
	l.open = l.open[:0]
	for l.pos < len(l.src) {
		if len(l.open) == 0 {
			if e := l.tagEnd(l.pos, end); e >= 0 {
				l.emit(token{kind: kind})
				l.advance(e)
				return nil
			}
		}
		if s := l.skipSpace(l.pos); s > l.pos {
			l.advance(s)
			continue
		}
		if err := l.element(); err != nil {
			return err
		}
	}
	return nil // the parser reports the missing end
}

// element reads one number, name, string or operator.
func (l *lexer) element() error {
	c := l.src[l.pos]
	switch {
	case c >= '0' && c <= '9':
		return l.number()
	case c == '_' || isLetter(c) || c >= utf8.RuneSelf:
		return l.name()
	case c == '"' || c == '\'':
		return l.str(c)
	}
	return l.operator()
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

func (l *lexer) name() error {
	i := l.pos
	for i < len(l.src) {
		r, n := utf8.DecodeRuneInString(l.src[i:])
		if !isWord(r) {
			break
		}
		i += n
	}
	if i == l.pos {
		r, _ := utf8.DecodeRuneInString(l.src[i:])
		return l.errorf("unexpected char %s", reprString(string(r)))
	}
	l.emit(token{kind: tokName, text: l.src[l.pos:i]})
	l.advance(i)
	return nil
}

var operatorTokens = []string{"//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{", "}", "=", ">", "<", ".", ":", "|", ",", ";"}

func (l *lexer) operator() error {
	for _, op := range operatorTokens {
		if !strings.HasPrefix(l.src[l.pos:], op) {
			continue
		}
		if err := l.balance(op); err != nil {
			return err
		}
		l.emit(token{kind: tokOp, text: op})
		l.advance(l.pos + len(op))
		return nil
	}
	return l.errorf("unexpected char %s", reprString(l.src[l.pos:l.pos+1]))
}

func (l *lexer) balance(op string) error {
	switch op {
	case "(":
		l.open = append(l.open, ')')
	case "[":
		l.open = append(l.open, ']')
	case "{":
		l.open = append(l.open, '}')
	case ")", "]", "}":
		n := len(l.open)
		if n == 0 {
			return l.errorf("unexpected '%s'", op)
		}
		if want := l.open[n-1]; want != op[0] {
			return l.errorf("unexpected '%s', expected '%c'", op, want)
		}
		l.open = l.open[:n-1]
	}
	return nil
}
