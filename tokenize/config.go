package tokenize

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/expediterhq/expediter/tokenize/internal/scan"
)

// part is a normalizer, pre-tokenizer, post-processor or decoder of a file, or
// one of a sequence of them: the union of the fields in use.
type part struct {
	Type        string          `json:"type"`
	Normalizers []part          `json:"normalizers"`
	PreTokens   []part          `json:"pretokenizers"`
	Processors  []part          `json:"processors"`
	Decoders    []part          `json:"decoders"`
	Pattern     *pat            `json:"pattern"`
	Content     string          `json:"content"`
	Prepend     string          `json:"prepend"`
	Behavior    string          `json:"behavior"`
	Invert      bool            `json:"invert"`
	AddPrefix   *bool           `json:"add_prefix_space"`
	UseRegex    *bool           `json:"use_regex"`
	Replacement string          `json:"replacement"`
	Scheme      string          `json:"prepend_scheme"`
	Split       *bool           `json:"split"`
	Individual  bool            `json:"individual_digits"`
	Single      []templatePiece `json:"single"`
	Special     map[string]ids  `json:"special_tokens"`
	Start       int             `json:"start"`
	Stop        int             `json:"stop"`
}

type pat struct {
	String *string `json:"String"`
	Regex  *string `json:"Regex"`
}

type templatePiece struct {
	SpecialToken *struct {
		ID string `json:"id"`
	} `json:"SpecialToken"`
	Sequence *struct {
		ID string `json:"id"`
	} `json:"Sequence"`
}

type ids struct {
	IDs []uint32 `json:"ids"`
}

// readPart decodes a part; it returns nil for one that is absent or null.
func readPart(where string, data []byte) (*part, error) {
	if data == nil || bytes.Equal(data, []byte("null")) {
		return nil, nil
	}
	var p part
	if err := unmarshal(data, &p); err != nil {
		return nil, &FormatError{where, err}
	}
	return &p, nil
}

// readNormalizer reads the normalizer as a list of steps.
func readNormalizer(data []byte) ([]normalStep, error) {
	p, err := readPart("normalizer", data)
	if p == nil || err != nil {
		return nil, err
	}
	return appendNormal(nil, p)
}

func appendNormal(steps []normalStep, p *part) ([]normalStep, error) {
	switch p.Type {
	case "Sequence":
		for i := range p.Normalizers {
			var err error
			if steps, err = appendNormal(steps, &p.Normalizers[i]); err != nil {
				return nil, err
			}
		}
		return steps, nil
	case "NFC":
		return append(steps, normalStep{kind: normalNFC}), nil
	case "Prepend":
		return append(steps, normalStep{kind: normalPrepend, to: p.Prepend}), nil
	case "Replace":
		if p.Pattern == nil || p.Pattern.String == nil || *p.Pattern.String == "" {
			return nil, &UnsupportedError{"normalizer", "Replace of anything but a fixed text"}
		}
		return append(steps, normalStep{normalReplace, *p.Pattern.String, p.Content}), nil
	}
	return nil, &UnsupportedError{"normalizer", fmt.Sprintf("type %q", p.Type)}
}

// readPreTokenizer reads the pre-tokenizer and says whether it makes the model
// a byte-level one.
func (b *BPE) readPreTokenizer(data []byte) (byteLevel bool, err error) {
	p, err := readPart("pre_tokenizer", data)
	if p == nil || err != nil {
		return false, err
	}
	parts := []part{*p}
	if p.Type == "Sequence" {
		parts = p.PreTokens
	}
	for i := range parts {
		p := &parts[i]
		if byteLevel {
			return false, &UnsupportedError{"pre_tokenizer", p.Type + " after ByteLevel"}
		}
		if b.meta != nil {
			return false, &UnsupportedError{"pre_tokenizer", p.Type + " after Metaspace"}
		}
		switch p.Type {
		case "Split":
			err = b.addSplit(p)
		case "Digits":
			err = b.addScanner(map[bool]string{true: scan.Digits, false: scan.DigitRuns}[p.Individual])
		case "ByteLevel":
			byteLevel, err = true, b.addByteLevel(p)
		case "Metaspace":
			err = b.setMetaspace(p)
		default:
			err = &UnsupportedError{"pre_tokenizer", fmt.Sprintf("type %q", p.Type)}
		}
		if err != nil {
			return false, err
		}
	}
	return byteLevel, nil
}

func (b *BPE) addScanner(src string) error {
	s, err := scan.For(src)
	if err != nil {
		return &UnsupportedError{"pre_tokenizer", err.Error() + " of " + src}
	}
	b.scanners = append(b.scanners, s)
	return nil
}

func (b *BPE) addSplit(p *part) error {
	switch {
	case p.Pattern == nil || p.Pattern.Regex == nil && p.Pattern.String == nil:
		return malformed("pre_tokenizer", "Split without a pattern")
	case p.Pattern.Regex == nil:
		if !b.replaces(*p.Pattern.String) {
			return &UnsupportedError{"pre_tokenizer", "Split at a fixed text"}
		}
		return nil // the text never occurs
	case p.Behavior != "Isolated":
		return &UnsupportedError{"pre_tokenizer", fmt.Sprintf("Split with behavior %q", p.Behavior)}
	case p.Invert:
		return &UnsupportedError{"pre_tokenizer", "Split with invert"}
	}
	return b.addScanner(*p.Pattern.Regex)
}

// replaces says whether the normalizer leaves no text s anywhere.
func (b *BPE) replaces(s string) bool {
	if len(b.normal) == 0 {
		return false
	}
	last := b.normal[len(b.normal)-1]
	return last.kind == normalReplace && last.from == s && len(s) == 1 && last.to != "" &&
		!bytes.Contains([]byte(last.to), []byte(s))
}

func (b *BPE) addByteLevel(p *part) error {
	if p.AddPrefix == nil || *p.AddPrefix {
		return &UnsupportedError{"pre_tokenizer", "ByteLevel with add_prefix_space"}
	}
	if p.UseRegex != nil && !*p.UseRegex {
		return nil
	}
	return b.addScanner(scan.GPT2)
}

func (b *BPE) setMetaspace(p *part) error {
	if len(b.scanners) > 0 {
		return &UnsupportedError{"pre_tokenizer", "Metaspace after Split"}
	}
	m := &metaspace{mark: p.Replacement, split: p.Split == nil || *p.Split}
	switch cmp.Or(p.Scheme, "always") {
	case "always":
		m.scheme = prependAlways
	case "first":
		m.scheme = prependFirst
	case "never":
		m.scheme = prependNever
	default:
		return &UnsupportedError{"pre_tokenizer", fmt.Sprintf("Metaspace with prepend_scheme %q", p.Scheme)}
	}
	if p.AddPrefix != nil && !*p.AddPrefix && m.scheme != prependNever {
		return malformed("pre_tokenizer", "add_prefix_space does not fit prepend_scheme")
	}
	if len([]rune(m.mark)) != 1 || m.mark == " " {
		return malformed("pre_tokenizer", "Metaspace with replacement %q", m.mark)
	}
	b.meta = m
	return nil
}

// readPost reads what the post-processor puts before and after a text.
func (b *BPE) readPost(data []byte) error {
	p, err := readPart("post_processor", data)
	if p == nil || err != nil {
		return err
	}
	return b.addPost(p)
}

func (b *BPE) addPost(p *part) error {
	switch p.Type {
	case "ByteLevel": // concerns offsets only
		return nil
	case "Sequence":
		for i := range p.Processors {
			if err := b.addPost(&p.Processors[i]); err != nil {
				return err
			}
		}
		return nil
	case "TemplateProcessing":
		before, after, err := p.template()
		b.bos, b.eos = slices.Concat(before, b.bos), slices.Concat(b.eos, after)
		return err
	}
	return &UnsupportedError{"post_processor", fmt.Sprintf("type %q", p.Type)}
}

// template returns the ids that a template for single texts has before and
// after the text.
func (p *part) template() (before, after []uint32, err error) {
	texts := 0
	for _, piece := range p.Single {
		switch {
		case piece.Sequence != nil && piece.Sequence.ID == "A":
			texts++
		case piece.SpecialToken != nil:
			special, ok := p.Special[piece.SpecialToken.ID]
			if !ok {
				return nil, nil, malformed("post_processor", "no special token %q", piece.SpecialToken.ID)
			}
			if texts == 0 {
				before = append(before, special.IDs...)
			} else {
				after = append(after, special.IDs...)
			}
		default:
			return nil, nil, malformed("post_processor", "unknown piece in a template")
		}
	}
	if texts != 1 {
		return nil, nil, &UnsupportedError{"post_processor", "a template that does not have the text once"}
	}
	return before, after, nil
}

// addedEntry is an element of added_tokens.
type addedEntry struct {
	ID         uint32 `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Normalized *bool  `json:"normalized"`
	Special    bool   `json:"special"`
}

// check refuses what this package does not implement.
func (e *addedEntry) check() error {
	feature := ""
	switch {
	case e.SingleWord:
		feature = "single_word"
	case e.LStrip:
		feature = "lstrip"
	case e.RStrip:
		feature = "rstrip"
	default:
		return nil
	}
	return &UnsupportedError{"added_tokens", fmt.Sprintf("%s of %q", feature, e.Content)}
}

// readAdded reads added_tokens, and makes sure that the ids are those the
// reference gives: it takes an id from the vocabulary, or the next free one.
func (b *BPE) readAdded(data []byte, build *builder) error {
	if data == nil {
		return nil
	}
	var entries []addedEntry
	if err := unmarshal(data, &entries); err != nil {
		return &FormatError{"added_tokens", err}
	}
	var before, after []addedToken
	known := map[string]bool{}
	next := uint32(build.tokens)
	for _, e := range entries {
		if err := e.check(); err != nil {
			return err
		}
		if e.Content == "" {
			continue
		}
		id, ok := build.tokenID([]byte(e.Content))
		if !ok {
			id = next
		}
		if id != e.ID {
			return malformed("added_tokens", "%q has id %d, expected %d", e.Content, e.ID, id)
		}
		next = max(next, id+1)
		b.added[id] = e.Content
		content, normalized := e.Content, e.Normalized == nil && !e.Special || e.Normalized != nil && *e.Normalized
		if normalized {
			var n normalBuffers
			content = strings.Clone(n.normalize(b.normal, content))
			after = append(after, addedToken{content, id})
		} else {
			before = append(before, addedToken{content, id})
		}
		key := fmt.Sprint(normalized, content)
		if known[key] || content == "" {
			return &UnsupportedError{"added_tokens", fmt.Sprintf("%q, which is empty or equals another one", e.Content)}
		}
		known[key] = true
	}
	b.before, b.after = newAddedTokens(before), newAddedTokens(after)
	return nil
}

// readDecoder reads the decoder. What it does not know makes decoding fail,
// not the model: ids do not depend on it.
func readDecoder(data []byte) decoder {
	var d decoder
	p, err := readPart("decoder", data)
	switch {
	case err != nil:
		d.unsupported = err.Error()
	case p == nil:
		d.unsupported = "a model without a decoder"
	case p.Type == "Sequence":
		for i := range p.Decoders {
			d.add(&p.Decoders[i])
		}
	default:
		d.add(p)
	}
	return d
}

func (d *decoder) add(p *part) {
	switch p.Type {
	case "ByteLevel":
		d.byteLevel = true
	case "ByteFallback":
		d.fallback = true
	case "Fuse":
	case "Metaspace":
		d.mark, d.stripFirst = p.Replacement, p.Scheme != "never"
	case "Replace":
		if p.Pattern == nil || p.Pattern.String == nil || p.Content != " " || *p.Pattern.String == "" || d.mark != "" {
			d.unsupported = "Replace of anything but a visible space"
			return
		}
		d.mark = *p.Pattern.String
	case "Strip":
		if p.Content != " " || p.Start != 1 || p.Stop != 0 {
			d.unsupported = "Strip of anything but one leading space"
			return
		}
		d.stripFirst = true
	default:
		d.unsupported = fmt.Sprintf("type %q", p.Type)
	}
}
