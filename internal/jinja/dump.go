package jinja

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// jsonOptions are the options of Python's json.dumps.
type jsonOptions struct {
	ascii    bool
	indent   string // one level of it
	pretty   bool   // indent was given
	item     string // separators
	key      string
	sortKeys bool
}

var defaultJSON = jsonOptions{item: ", ", key: ": "}

// jsonWriter appends JSON to a buffer of bounded size.
type jsonWriter struct {
	out   []byte
	limit int
	o     *jsonOptions
}

// writeJSON writes json.dumps(v) to the output.
func (st *state) writeJSON(v Value, o *jsonOptions) error {
	w, mark := jsonWriter{st.out, st.limit, o}, len(st.out)
	if err := w.value(v, 0); err != nil {
		return err
	}
	st.out = w.out
	return st.spendNumber(v, len(st.out)-mark)
}

func (w *jsonWriter) check() error {
	if len(w.out) > w.limit {
		return errOutput
	}
	return nil
}

func (w *jsonWriter) value(v Value, depth int) error {
	if depth > maxDepth {
		return errDeep
	}
	switch v.kind {
	case None:
		w.out = append(w.out, "null"...)
	case Bool:
		w.out = strconv.AppendBool(w.out, v.num != 0)
	case Int:
		w.out = strconv.AppendInt(w.out, v.int(), 10)
	case BigInt:
		s, err := bigText(v)
		if err != nil {
			return err
		}
		w.out = append(w.out, s...)
	case Float:
		w.out = append(w.out, jsonFloat(v.float())...)
	case String:
		w.str(v.Str())
	case List, Tuple:
		return w.list(v.Items(), depth)
	case Dict:
		return w.dict(v.Map(), depth)
	default:
		return typeErr("Object of type %s is not JSON serializable", typeName(v))
	}
	return w.check()
}

func jsonFloat(f float64) string {
	switch {
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	case math.IsNaN(f):
		return "NaN"
	}
	return floatText(f)
}

func (w *jsonWriter) newline(depth int) {
	if !w.o.pretty {
		return
	}
	w.out = append(w.out, '\n')
	for range depth {
		w.out = append(w.out, w.o.indent...)
	}
}

func (w *jsonWriter) list(items []Value, depth int) error {
	if len(items) == 0 {
		w.out = append(w.out, "[]"...)
		return w.check()
	}
	w.out = append(w.out, '[')
	for i, x := range items {
		if i > 0 {
			w.out = append(w.out, w.o.item...)
		}
		w.newline(depth + 1)
		if err := w.value(x, depth+1); err != nil {
			return err
		}
	}
	w.newline(depth)
	w.out = append(w.out, ']')
	return w.check()
}

func (w *jsonWriter) dict(m *Map, depth int) error {
	if m.Len() == 0 {
		w.out = append(w.out, "{}"...)
		return w.check()
	}
	entries := m.entries
	if w.o.sortKeys {
		entries = slices.Clone(entries)
		if err := sortEntries(entries); err != nil {
			return err
		}
	}
	w.out = append(w.out, '{')
	for i := range entries {
		if i > 0 {
			w.out = append(w.out, w.o.item...)
		}
		w.newline(depth + 1)
		if err := w.dictKey(entries[i].Key); err != nil {
			return err
		}
		w.out = append(w.out, w.o.key...)
		if err := w.value(entries[i].Val, depth+1); err != nil {
			return err
		}
	}
	w.newline(depth)
	w.out = append(w.out, '}')
	return w.check()
}

func sortEntries(entries []Entry) error {
	var failed error
	slices.SortStableFunc(entries, func(a, b Entry) int {
		c, err := order(a.Key, b.Key)
		if err != nil {
			failed = err
		}
		return c
	})
	return failed
}

// order is a three-way comparison by Python's <.
func order(a, b Value) (int, error) {
	if a.kind == String && b.kind == String {
		return strings.Compare(a.Str(), b.Str()), nil
	}
	lt, err := less(a, b, opLt, 0)
	if err != nil || lt {
		return -1, err
	}
	gt, err := less(b, a, opLt, 0)
	if gt {
		return 1, err
	}
	return 0, err
}

func (w *jsonWriter) dictKey(k Value) error {
	switch k.kind {
	case String:
		w.str(k.Str())
		return nil
	case None:
		w.out = append(w.out, `"null"`...)
		return nil
	case Bool, Int, BigInt, Float:
		w.out = append(w.out, '"')
		err := w.value(k, 0)
		w.out = append(w.out, '"')
		return err
	}
	return typeErr("keys must be str, int, float, bool or None, not %s", typeName(k))
}

// str appends a JSON string. Like json.dumps it escapes nothing for HTML.
func (w *jsonWriter) str(s string) {
	b := append(w.out, '"')
	from := 0
	for i := 0; i < len(s); {
		if i+8 <= len(s) && plain8(s[i:i+8]) {
			i += 8
			continue
		}
		c := s[i]
		if c >= utf8.RuneSelf && w.o.ascii {
			r, n := utf8.DecodeRuneInString(s[i:])
			b = append(b, s[from:i]...)
			b = appendUnicodeEscape(b, r)
			i += n
			from = i
			continue
		}
		if c >= 0x20 && c != '"' && c != '\\' && (c != 0x7f || !w.o.ascii) {
			i++
			continue
		}
		b = append(b, s[from:i]...)
		b = appendControl(b, c)
		i++
		from = i
	}
	w.out = append(append(b, s[from:]...), '"')
}

// plain8 reports whether none of 8 bytes is escaped or above 0x7e.
func plain8(s string) bool {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	_ = s[7]
	x := uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
	quote, slash := x^('"'*ones), x^('\\'*ones)
	// The terms have high bits if a byte is above 0x7f, below 0x20, a quote, a
	// backslash or 0x7f, and none if there is no such byte.
	return (x|(x-0x20*ones)&^x|(quote-ones)&^quote|(slash-ones)&^slash|(x+ones))&high == 0
}

func appendControl(b []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(b, '\\', c)
	case '\n':
		return append(b, `\n`...)
	case '\r':
		return append(b, `\r`...)
	case '\t':
		return append(b, `\t`...)
	case '\b':
		return append(b, `\b`...)
	case '\f':
		return append(b, `\f`...)
	}
	return appendHex(append(b, `\u`...), rune(c), 4)
}

func appendUnicodeEscape(b []byte, r rune) []byte {
	if r < 0x10000 {
		return appendHex(append(b, `\u`...), r, 4)
	}
	r -= 0x10000
	b = appendHex(append(b, `\u`...), 0xd800+r>>10, 4)
	return appendHex(append(b, `\u`...), 0xdc00+r&0x3ff, 4)
}

// maxJSON bounds what AppendJSON writes.
const maxJSON = 64 << 20

var compactJSON = jsonOptions{item: ",", key: ":"}

// AppendJSON appends v as Python's json.dumps(v, ensure_ascii=False) writes it.
func AppendJSON(dst []byte, v Value) ([]byte, error) { return appendJSON(dst, v, &defaultJSON) }

// AppendCompactJSON appends v as JSON without spaces.
func AppendCompactJSON(dst []byte, v Value) ([]byte, error) {
	return appendJSON(dst, v, &compactJSON)
}

func appendJSON(dst []byte, v Value, o *jsonOptions) ([]byte, error) {
	w := jsonWriter{out: dst, limit: len(dst) + maxJSON, o: o}
	if err := w.value(v, 0); err != nil {
		return dst, err
	}
	return w.out, nil
}
