package tokenize

import (
	"fmt"
	"io/fs"
	"slices"
)

// Model is a model's tokenizer together with what its configuration says about
// prompts. It is immutable and safe for concurrent use. Load one from the
// folder that an engine serves the model from.
type Model struct {
	bpe           *BPE
	bos, eos      string
	before, after []uint32 // around a completion prompt
}

// Load reads a model folder: tokenizer.json or tokenizer.json.gz, and, where
// they exist, tokenizer_config.json and chat_template.jinja, whose template
// wins over the one in tokenizer_config.json. Beside the errors of NewBPE it
// returns those of fsys.
func Load(fsys fs.FS) (*Model, error) {
	data, err := readModelFile(fsys, "tokenizer.json")
	if err != nil {
		return nil, fmt.Errorf("tokenize: %w", err)
	}
	bpe, err := NewBPE(data)
	if err != nil {
		return nil, err
	}
	config, err := readConfig(fsys)
	if err != nil {
		return nil, err
	}
	m := &Model{bpe: bpe, bos: string(config.BOS), eos: string(config.EOS)}
	m.before, m.after, err = config.around(bpe)
	if err != nil {
		return nil, err
	}
	return m, nil
}

// Tokenizer returns the model's tokenizer.
func (m *Model) Tokenizer() *BPE { return m.bpe }

// BOS returns the text of the token for the beginning of a sequence, or "".
func (m *Model) BOS() string { return m.bos }

// EOS returns the text of the token for the end of a sequence, or "".
func (m *Model) EOS() string { return m.eos }

// AppendPrompt appends the ids of a prompt as an engine's completions endpoint
// encodes it: with the special tokens around it that the model's tokenizer
// class adds. That is what Options.Special gives, except for the classes that
// replace the file's post-processor by their own rule (add_bos_token and
// add_eos_token in tokenizer_config.json).
func (m *Model) AppendPrompt(dst []uint32, text string) ([]uint32, error) {
	dst, err := m.bpe.Append(append(dst, m.before...), text)
	if err != nil {
		return dst, err
	}
	return append(dst, m.after...), nil
}

// ownRule lists the tokenizer classes which add the special tokens that
// add_bos_token (true if absent) and add_eos_token (false if absent) ask for,
// whatever the post-processor in tokenizer.json says.
var ownRule = []string{
	"LlamaTokenizer", "LlamaTokenizerFast", "CodeLlamaTokenizer", "CodeLlamaTokenizerFast",
	"GemmaTokenizer", "GemmaTokenizerFast", "CohereTokenizer", "CohereTokenizerFast",
}

// around returns the ids that the model's tokenizer class puts around a text.
func (c *tokenizerConfig) around(b *BPE) (before, after []uint32, err error) {
	if !slices.Contains(ownRule, c.Class) {
		return b.bos, b.eos, nil
	}
	if c.AddBOS == nil || *c.AddBOS {
		id, ok := b.TokenID(string(c.BOS))
		if !ok {
			return nil, nil, malformed("tokenizer_config.json", "bos_token %q is no token", c.BOS)
		}
		before = []uint32{id}
	}
	if c.AddEOS != nil && *c.AddEOS {
		id, ok := b.TokenID(string(c.EOS))
		if !ok {
			return nil, nil, malformed("tokenizer_config.json", "eos_token %q is no token", c.EOS)
		}
		after = []uint32{id}
	}
	return before, after, nil
}
