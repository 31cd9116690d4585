package tokenize_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/expediterhq/expediter/tokenize/internal/nfc"
	"github.com/expediterhq/expediter/tokenize/internal/pattern"
)

// reference is an independent tokenizer that is slow and simple: tokens are
// found by trying each, words are split by the general matcher, and each merge
// looks at all pairs again.
type reference struct {
	Added []struct {
		ID         uint32 `json:"id"`
		Content    string `json:"content"`
		Normalized bool   `json:"normalized"`
	} `json:"added_tokens"`
	Normalizer *refPart `json:"normalizer"`
	Pre        *refPart `json:"pre_tokenizer"`
	Model      struct {
		Vocab        map[string]uint32 `json:"vocab"`
		Merges       []json.RawMessage `json:"merges"`
		Unk          *string           `json:"unk_token"`
		Fuse         bool              `json:"fuse_unk"`
		ByteFallback bool              `json:"byte_fallback"`
		IgnoreMerges bool              `json:"ignore_merges"`
	} `json:"model"`

	ranks    map[[2]uint32]int
	made     []uint32
	patterns map[string]*pattern.Pattern
	index    map[bool]map[byte][]int // of Added, by first byte
}

type refPart struct {
	Type        string
	Normalizers []refPart
	Pretoken    []refPart `json:"pretokenizers"`
	Pattern     struct{ String, Regex string }
	Content     string
	Prepend     string
	UseRegex    *bool `json:"use_regex"`
	Replacement string
	Scheme      string `json:"prepend_scheme"`
	Split       *bool
	Individual  bool `json:"individual_digits"`
}

func newReference(t testing.TB, data []byte) *reference {
	t.Helper()
	r := &reference{ranks: map[[2]uint32]int{}, patterns: map[string]*pattern.Pattern{}}
	if err := json.Unmarshal(data, r); err != nil {
		t.Fatal(err)
	}
	for rank, raw := range r.Model.Merges {
		var pair [2]string
		if json.Unmarshal(raw, &pair) != nil {
			var joined string
			if err := json.Unmarshal(raw, &joined); err != nil {
				t.Fatal(err)
			}
			pair[0], pair[1], _ = strings.Cut(joined, " ")
		}
		r.ranks[[2]uint32{r.Model.Vocab[pair[0]], r.Model.Vocab[pair[1]]}] = rank
		r.made = append(r.made, r.Model.Vocab[pair[0]+pair[1]])
	}
	return r
}

func (r *reference) encode(text string) []uint32 {
	var ids []uint32
	r.cut(text, false, func(part string, at int, id uint32, isToken bool) {
		if isToken {
			ids = append(ids, id)
			return
		}
		first := at == 0
		r.cut(r.normalize(r.Normalizer, part), true, func(part string, at int, id uint32, isToken bool) {
			if isToken {
				ids = append(ids, id)
				return
			}
			for _, word := range r.pretokenize(r.Pre, []string{part}, first && at == 0) {
				ids = append(ids, r.word(word)...)
			}
		})
	})
	return ids
}

// cut finds the added tokens that are matched before or after normalization.
func (r *reference) cut(text string, normalized bool, f func(part string, at int, id uint32, isToken bool)) {
	from := 0
	for i := 0; i < len(text); {
		best, id := 0, uint32(0)
		for _, n := range r.starting(normalized, text[i]) {
			a := r.Added[n]
			content := a.Content
			if normalized {
				content = r.normalize(r.Normalizer, content)
			}
			if a.Normalized == normalized && strings.HasPrefix(text[i:], content) && len(content) > best {
				best, id = len(content), a.ID
			}
		}
		if best == 0 {
			_, n := utf8.DecodeRuneInString(text[i:])
			i += n
			continue
		}
		if from < i {
			f(text[from:i], from, 0, false)
		}
		f("", i, id, true)
		i += best
		from = i
	}
	if from < len(text) {
		f(text[from:], from, 0, false)
	}
}

// starting returns the added tokens whose text starts with b.
func (r *reference) starting(normalized bool, b byte) []int {
	if r.index == nil {
		r.index = map[bool]map[byte][]int{false: {}, true: {}}
		for i, a := range r.Added {
			first := a.Content
			if a.Normalized {
				first = r.normalize(r.Normalizer, first)
			}
			r.index[a.Normalized][first[0]] = append(r.index[a.Normalized][first[0]], i)
		}
	}
	return r.index[normalized][b]
}

func (r *reference) normalize(p *refPart, s string) string {
	if p == nil || s == "" {
		return s
	}
	switch p.Type {
	case "Sequence":
		for i := range p.Normalizers {
			s = r.normalize(&p.Normalizers[i], s)
		}
	case "NFC":
		var b nfc.Buffer
		return string(nfc.Append(nil, s, &b))
	case "Prepend":
		return p.Prepend + s
	case "Replace":
		return strings.ReplaceAll(s, p.Pattern.String, p.Content)
	}
	return s
}

func (r *reference) pretokenize(p *refPart, pieces []string, first bool) []string {
	if p == nil {
		return pieces
	}
	var out []string
	switch p.Type {
	case "Sequence":
		for i := range p.Pretoken {
			pieces = r.pretokenize(&p.Pretoken[i], pieces, first)
		}
		return pieces
	case "Split":
		if p.Pattern.Regex == "" {
			return pieces
		}
		for _, piece := range pieces {
			out = append(out, r.split(p.Pattern.Regex, piece)...)
		}
	case "Digits":
		src := `\p{N}+`
		if p.Individual {
			src = `\p{N}`
		}
		for _, piece := range pieces {
			out = append(out, r.split(src, piece)...)
		}
	case "ByteLevel":
		for _, piece := range pieces {
			if p.UseRegex == nil || *p.UseRegex {
				for _, word := range r.split(`'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`, piece) {
					out = append(out, byteLevel(word))
				}
			} else {
				out = append(out, byteLevel(piece))
			}
		}
	case "Metaspace":
		for i, piece := range pieces {
			piece = strings.ReplaceAll(piece, " ", p.Replacement)
			if !strings.HasPrefix(piece, p.Replacement) && (p.Scheme == "always" || p.Scheme == "first" && first && i == 0) {
				piece = p.Replacement + piece
			}
			if p.Split != nil && !*p.Split {
				out = append(out, piece)
				continue
			}
			for j, part := range strings.Split(piece, p.Replacement) {
				if j > 0 {
					part = p.Replacement + part
				}
				if part != "" {
					out = append(out, part)
				}
			}
		}
	}
	return out
}

func (r *reference) split(src, s string) []string {
	p := r.patterns[src]
	if p == nil {
		var err error
		if p, err = pattern.Compile(src); err != nil {
			panic(err)
		}
		r.patterns[src] = p
	}
	var m pattern.Machine
	m.Reset(len(s))
	var out []string
	for i := 0; i < len(s); {
		start, end, err := p.Next(s, i, &m)
		if err != nil {
			panic(err)
		}
		if start > i {
			out = append(out, s[i:start])
		}
		if end > start {
			out = append(out, s[start:end])
		}
		i = end
	}
	return out
}

// byteLevel writes bytes as the characters of byte-level vocabularies.
func byteLevel(s string) string {
	var out strings.Builder
	for i := range len(s) {
		c := int(s[i])
		switch {
		case c <= ' ':
			out.WriteRune(rune(0x100 + c))
		case c >= 0x7F && c <= 0xA0:
			out.WriteRune(rune(0x121 + c - 0x7F))
		case c == 0xAD:
			out.WriteRune(0x143)
		default:
			out.WriteRune(rune(c))
		}
	}
	return out.String()
}

func (r *reference) word(s string) []uint32 {
	if id, ok := r.Model.Vocab[s]; ok && r.Model.IgnoreMerges {
		return []uint32{id}
	}
	var syms []uint32
	unknown := false
	for _, c := range s {
		id, ok := r.Model.Vocab[string(c)]
		switch {
		case ok:
			syms = append(syms, id)
		case r.Model.ByteFallback:
			for i := range len(string(c)) {
				syms = append(syms, r.Model.Vocab[fmt.Sprintf("<0x%02X>", string(c)[i])])
			}
		case r.Model.Unk != nil && !(unknown && r.Model.Fuse):
			syms = append(syms, r.Model.Vocab[*r.Model.Unk])
		}
		unknown = !ok && !r.Model.ByteFallback
	}
	for {
		best, at := len(r.made), -1
		for i := range len(syms) - 1 {
			if rank, ok := r.ranks[[2]uint32{syms[i], syms[i+1]}]; ok && rank < best {
				best, at = rank, i
			}
		}
		if at < 0 {
			return syms
		}
		syms[at] = r.made[best]
		syms = append(syms[:at+1], syms[at+2:]...)
	}
}
