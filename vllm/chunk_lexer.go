package vllm

import (
	"encoding/binary"
	"math/bits"
	"strconv"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

const maxChunkDepth = 512

// chunkLexer walks over JSON text. After an error every method does nothing
// and returns zero values, so that callers check once at the end.
type chunkLexer struct {
	data    []byte
	pos     int
	err     error
	scratch []byte

	depth int
	array [maxChunkDepth / 64]uint64 // bit d: the container at depth d is an array
	comma int                        // where the last comma between members was, -1 after an opening bracket
	key0  int                        // where the last key began
}

func (p *chunkLexer) fail(err error) {
	if p.err == nil {
		p.err = err
	}
}

// peek skips white space and returns the next byte, zero at the end.
func (p *chunkLexer) peek() byte {
	for ; p.pos < len(p.data); p.pos++ {
		switch c := p.data[p.pos]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

// open enters the container whose bracket is next and reports whether it has
// members. An empty one is left again.
func (p *chunkLexer) open() bool {
	if p.err != nil {
		return false
	}
	if p.depth == maxChunkDepth {
		p.fail(ErrChunkDepth)
		return false
	}
	c := p.peek()
	word, bit := &p.array[p.depth/64], uint64(1)<<(p.depth%64)
	if c == '[' {
		*word |= bit
	} else {
		*word &^= bit
	}
	p.depth++
	p.pos++
	p.comma = -1
	if p.peek() == c+2 { // in ASCII '[' and ']', '{' and '}' are two apart
		p.pos++
		p.depth--
		return false
	}
	return true
}

func (p *chunkLexer) inArray() bool {
	d := p.depth - 1
	return p.array[d/64]>>(d%64)&1 == 1
}

// more is called after a member and reports whether there is another; if not,
// the container has been left.
func (p *chunkLexer) more() bool {
	if p.err != nil {
		return false
	}
	c := p.peek()
	switch {
	case c == ',':
		p.comma = p.pos
		p.pos++
		return true
	case c == ']' && p.inArray(), c == '}' && !p.inArray():
		p.pos++
		p.depth--
		return false
	}
	p.fail(ErrChunkSyntax)
	return false
}

// key reads a member's name and its colon.
func (p *chunkLexer) key() []byte {
	if p.err != nil || p.peek() != '"' {
		p.fail(ErrChunkSyntax)
		return nil
	}
	p.key0 = p.pos
	name := p.str()
	if p.peek() != ':' {
		p.fail(ErrChunkSyntax)
		return nil
	}
	p.pos++
	return name
}

// str reads the string whose quote is next.
func (p *chunkLexer) str() []byte {
	raw, escaped := p.rawString()
	if !escaped {
		return raw
	}
	start := len(p.scratch)
	p.scratch = appendUnescaped(p.scratch, raw)
	return p.scratch[start:]
}

// rawString reads the string whose quote is next and returns what is between
// the quotes, and whether it has escapes.
func (p *chunkLexer) rawString() (raw []byte, escaped bool) {
	if p.err != nil {
		return nil, false
	}
	start := p.pos + 1
	for i := start; ; {
		i += plain(p.data[i:])
		if i >= len(p.data) || p.data[i] < ' ' {
			break
		}
		if p.data[i] == '"' {
			p.pos = i + 1
			return p.data[start:i], escaped
		}
		n := escapeLen(p.data[i:])
		if n == 0 {
			break
		}
		escaped = true
		i += n
	}
	p.fail(ErrChunkSyntax)
	return nil, false
}

// plain counts the leading bytes of b that are neither a quote, nor a
// backslash, nor a control character, eight at a time.
func plain(b []byte) int {
	const (
		ones  = 0x0101010101010101
		highs = 0x8080808080808080
	)
	i := 0
	for ; len(b)-i >= 8; i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		quote, slash := w^(ones*'"'), w^(ones*'\\')
		// In each term the lowest marked byte is exact; later ones may not be.
		hit := (w-ones*' ')&^w | (quote-ones)&^quote | (slash-ones)&^slash
		if hit &= highs; hit != 0 {
			return i + bits.TrailingZeros64(hit)/8
		}
	}
	for ; i < len(b); i++ {
		if c := b[i]; c < ' ' || c == '"' || c == '\\' {
			break
		}
	}
	return i
}

// escapeLen is the length of the escape sequence that b begins with, zero if
// it is not one.
func escapeLen(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if hex4(b[2:]) >= 0 {
			return 6
		}
	}
	return 0
}

// hex4 reads four hexadecimal digits, -1 if b does not begin with them.
func hex4(b []byte) rune {
	if len(b) < 4 {
		return -1
	}
	var r rune
	for _, c := range b[:4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}

// appendUnescaped appends the text that a checked JSON string stands for.
// Half a surrogate pair becomes U+FFFD.
func appendUnescaped(dst, raw []byte) []byte {
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			dst = append(dst, raw[i])
			continue
		}
		i++
		switch c := raw[i]; c {
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			r := hex4(raw[i+1:])
			i += 4
			if utf16.IsSurrogate(r) {
				low := rune(-1)
				if rest := raw[i+1:]; len(rest) >= 6 && rest[0] == '\\' && rest[1] == 'u' {
					low = hex4(rest[2:])
				}
				if r = utf16.DecodeRune(r, low); r != unicode.ReplacementChar {
					i += 6
				}
			}
			dst = utf8.AppendRune(dst, r)
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// skip reads one value of any kind, without recursion.
func (p *chunkLexer) skip() {
	base := p.depth
	for p.err == nil {
		switch p.peek() {
		case '{', '[':
			if p.open() {
				if !p.inArray() {
					p.key()
				}
				continue
			}
		case '"':
			p.rawString()
		default:
			p.scalar()
		}
		for p.depth > base && p.err == nil {
			if p.more() {
				if !p.inArray() {
					p.key()
				}
				break
			}
		}
		if p.depth == base {
			return
		}
	}
}

// scalar reads true, false, null or a number and returns it.
func (p *chunkLexer) scalar() []byte {
	if p.err != nil {
		return nil
	}
	rest := p.data[p.pos:]
	n := 0
	switch c := p.peek(); c {
	case 't':
		n = literalLen(rest, "true")
	case 'f':
		n = literalLen(rest, "false")
	case 'n':
		n = literalLen(rest, "null")
	default:
		n = numberLen(rest)
	}
	if n == 0 {
		p.fail(ErrChunkSyntax)
		return nil
	}
	p.pos += n
	return rest[:n]
}

func literalLen(b []byte, word string) int {
	if len(b) >= len(word) && string(b[:len(word)]) == word {
		return len(word)
	}
	return 0
}

// numberLen is the length of the JSON number that b begins with, zero if it
// does not begin with one.
func numberLen(b []byte) int {
	i := 0
	if i < len(b) && b[i] == '-' {
		i++
	}
	whole := digits(b[i:])
	if whole == 0 || whole > 1 && b[i] == '0' {
		return 0
	}
	i += whole
	if i < len(b) && b[i] == '.' {
		n := digits(b[i+1:])
		if n == 0 {
			return 0
		}
		i += 1 + n
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		n := digits(b[i:])
		if n == 0 {
			return 0
		}
		i += n
	}
	return i
}

func digits(b []byte) int {
	n := 0
	for n < len(b) && '0' <= b[n] && b[n] <= '9' {
		n++
	}
	return n
}

// count reads a value and returns it as a number between zero and MaxCount,
// zero if it is not a number. Fractions are cut off.
func (p *chunkLexer) count() int {
	c := p.peek()
	if c != '-' && (c < '0' || c > '9') {
		p.skip()
		return 0
	}
	num := p.scalar()
	n := 0
	if len(num) <= 9 && digits(num) == len(num) {
		for _, c := range num {
			n = n*10 + int(c-'0')
		}
		return n
	}
	// The error can only be of range, with an infinity as the value.
	f, _ := strconv.ParseFloat(string(num), 64)
	return int(min(max(f, 0), MaxCount))
}
