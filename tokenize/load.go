package tokenize

import (
	"encoding/json"
	"fmt"

	"github.com/expediterhq/expediter/tokenize/internal/jsonscan"
)

// file is the raw text of a tokenizer.json's parts. Absent ones are nil.
type file struct {
	added, normalizer, pre, post, decoder []byte
	model                                 *model
}

// model is the "model" part of a tokenizer.json.
type model struct {
	Type         *string  `json:"type"`
	Dropout      *float64 `json:"dropout"`
	Unk          *string  `json:"unk_token"`
	Prefix       *string  `json:"continuing_subword_prefix"`
	Suffix       *string  `json:"end_of_word_suffix"`
	Fuse         bool     `json:"fuse_unk"`
	Fallback     bool     `json:"byte_fallback"`
	IgnoreMerges bool     `json:"ignore_merges"`

	vocab, merges []byte
}

// NewBPE builds a tokenizer from the contents of a Hugging Face tokenizer.json.
// It returns an *UnsupportedError where the file asks for something that this
// package does not implement, and a *FormatError where the file is malformed.
// The file's truncation and padding are ignored, as engines do. The tokenizer
// does not keep data.
func NewBPE(data []byte) (*BPE, error) {
	f, err := readFile(data)
	if err != nil {
		return nil, err
	}
	if err := f.model.check(); err != nil {
		return nil, err
	}
	b := &BPE{added: map[uint32]string{}}
	var byteLevel bool
	if b.normal, err = readNormalizer(f.normalizer); err != nil {
		return nil, err
	}
	if byteLevel, err = b.readPreTokenizer(f.pre); err != nil {
		return nil, err
	}
	build, err := b.buildWords(f.model, byteLevel)
	if err != nil {
		return nil, err
	}
	if err := b.readAdded(f.added, build); err != nil {
		return nil, err
	}
	if err := b.readPost(f.post); err != nil {
		return nil, err
	}
	b.decoder = readDecoder(f.decoder)
	b.least = newLeast(b, build.raw)
	return b, nil
}

// buildWords builds the model proper.
func (b *BPE) buildWords(m *model, byteLevel bool) (*builder, error) {
	build := &builder{words: &b.words, raw: map[string]uint32{}}
	w := &b.words
	w.byteLevel, w.ignoreMerges, w.fallback, w.fuse = byteLevel, m.IgnoreMerges, m.Fallback, m.Fuse
	if byteLevel {
		build.alphabet = newByteAlphabet()
		if m.Fallback {
			return nil, &UnsupportedError{"model", "byte_fallback of a byte-level model"}
		}
	}
	if err := build.vocab(m.vocab); err != nil {
		return nil, err
	}
	w.unk = none
	if m.Unk != nil {
		id, ok := build.tokenID([]byte(*m.Unk))
		if !ok {
			return nil, malformed("model.unk_token", "%q is not in the vocabulary", *m.Unk)
		}
		w.unk = id
	}
	if err := build.merges(m.merges); err != nil {
		return nil, err
	}
	if err := build.symbols(b.mark()); err != nil {
		return nil, err
	}
	return build, build.finish()
}

// mark returns the visible space that the model's text contains, or "".
func (b *BPE) mark() string {
	if b.meta != nil {
		return b.meta.mark
	}
	for _, step := range b.normal {
		if step.kind == normalReplace && step.from == " " {
			return step.to
		}
	}
	return ""
}

func readFile(data []byte) (*file, error) {
	var f file
	c := jsonscan.New(data)
	seen := map[string]bool{}
	err := c.Object(func(key []byte) error {
		k := string(key)
		if seen[k] {
			return fmt.Errorf("duplicate key %q", k)
		}
		seen[k] = true
		if k == "model" && c.Peek() == '{' {
			var err error
			f.model, err = readModel(c)
			return err
		}
		raw, err := c.Skip()
		if err != nil {
			return err
		}
		switch k {
		case "added_tokens":
			f.added = raw
		case "normalizer":
			f.normalizer = raw
		case "pre_tokenizer":
			f.pre = raw
		case "post_processor":
			f.post = raw
		case "decoder":
			f.decoder = raw
		}
		return nil
	})
	if err == nil {
		err = c.End()
	}
	if err != nil {
		return nil, &FormatError{"tokenizer.json", err}
	}
	if f.model == nil {
		return nil, malformed("tokenizer.json", "no model")
	}
	return &f, nil
}

// readModel splits the model into its two large parts and the rest.
func readModel(c *jsonscan.Cursor) (*model, error) {
	var m model
	rest := []byte{'{'}
	err := c.Object(func(key []byte) error {
		k := string(key)
		raw, err := c.Skip()
		if err != nil {
			return err
		}
		switch k {
		case "vocab":
			m.vocab = raw
		case "merges":
			m.merges = raw
		default:
			if len(rest) > 1 {
				rest = append(rest, ',')
			}
			quoted, err := json.Marshal(k)
			if err != nil {
				return err
			}
			rest = append(append(append(rest, quoted...), ':'), raw...)
		}
		return nil
	})
	if err == nil {
		err = unmarshal(append(rest, '}'), &m)
	}
	return &m, err
}

// check refuses models that this package does not implement.
func (m *model) check() error {
	name := ""
	if m.Type != nil {
		name = *m.Type
	}
	switch {
	case name != "BPE" && name != "":
		return &UnsupportedError{"model", fmt.Sprintf("type %q", name)}
	case m.vocab == nil || m.merges == nil:
		return malformed("model", "vocab or merges missing")
	case m.Dropout != nil && *m.Dropout != 0:
		return &UnsupportedError{"model", "dropout"}
	case m.Prefix != nil && *m.Prefix != "":
		return &UnsupportedError{"model", "continuing_subword_prefix"}
	case m.Suffix != nil && *m.Suffix != "":
		return &UnsupportedError{"model", "end_of_word_suffix"}
	}
	return nil
}

// unmarshal decodes a small part of a file. Unlike encoding/json alone it does
// not alter invalid text silently.
func unmarshal(data []byte, v any) error {
	if err := jsonscan.Validate(data); err != nil {
		return err
	}
	return json.Unmarshal(data, v)
}
