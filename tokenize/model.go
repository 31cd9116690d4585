package tokenize

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"

	"github.com/expediterhq/expediter/tokenize/chat"
)

// ErrNoTemplate is returned for conversations with a model that has no chat
// template.
var ErrNoTemplate = errors.New("tokenize: the model has no chat template")

// Config says how to load a model. The zero value is what Load does.
type Config struct {
	// MaxBytes is the longest prompt or rendered conversation that is
	// encoded, in bytes. If zero, any length is.
	MaxBytes int
	// MaxTokens is the largest number of ids a prompt or conversation may
	// have, special ones included. If zero, any number.
	MaxTokens int
	// PostProcessor makes AppendPrompt add the tokens that the post-processor
	// in tokenizer.json adds, and no others, whatever the tokenizer class.
	// Engines on version 5 of Python's transformers library do so; those on
	// version 4 follow the class, which is what false means.
	PostProcessor bool
	// CacheBytes is the memory, in bytes, for what conversations repeat; see
	// Cache. If zero, 16 MiB; if negative, none.
	CacheBytes int
}

// Model is a model's tokenizer together with what its configuration says about
// prompts. It is immutable and safe for concurrent use. Load one from the
// folder that an engine serves the model from.
type Model struct {
	bpe           *BPE
	cache         *Cache // nil: none
	limits        Options
	bos, eos      string
	before, after []uint32       // around a completion prompt
	template      *chat.Template // nil where the model has none
	harmony       *chat.Harmony  // not nil where the engine renders with it
	texts         sync.Pool      // of *rendered
}

// Load reads a model folder: tokenizer.json or tokenizer.json.gz, and, where
// they exist, tokenizer_config.json and chat_template.jinja, whose template
// wins over the one in tokenizer_config.json. Where config.json says that the
// model's type is gpt_oss, conversations are rendered by chat.Harmony, as
// engines do, whatever the template. Beside the errors of NewBPE it returns
// those of fsys.
func Load(fsys fs.FS) (*Model, error) { return LoadWith(fsys, Config{}) }

// LoadWith is Load with limits.
func LoadWith(fsys fs.FS, cfg Config) (*Model, error) {
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
	m := &Model{
		bpe:    bpe,
		limits: Options{MaxBytes: cfg.MaxBytes, MaxTokens: cfg.MaxTokens},
		bos:    string(config.BOS), eos: string(config.EOS),
	}
	if cfg.CacheBytes >= 0 {
		m.cache = NewCache(bpe, cmp.Or(cfg.CacheBytes, 16<<20))
	}
	if cfg.PostProcessor {
		config.Class = ""
	}
	if m.before, m.after, err = config.around(bpe); err != nil {
		return nil, err
	}
	if config.harmony {
		m.harmony = &chat.Harmony{}
		return m, nil
	}
	if config.Template != "" {
		m.template, err = chat.Compile(string(config.Template), chat.Options{BOS: m.bos, EOS: m.eos, MaxOutput: cfg.MaxBytes})
		if err != nil {
			return nil, fmt.Errorf("tokenize: chat template: %w", err)
		}
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
// add_eos_token in tokenizer_config.json); see Config.PostProcessor.
func (m *Model) AppendPrompt(dst []uint32, text string) ([]uint32, error) {
	return m.AppendPromptMax(dst, text, m.limits.MaxTokens)
}

// AppendPromptMax is AppendPrompt with another limit on the number of ids;
// zero is none.
func (m *Model) AppendPromptMax(dst []uint32, text string, maxTokens int) ([]uint32, error) {
	limits := m.limits
	limits.MaxTokens = maxTokens
	return m.bpe.appendAround(dst, text, limits, &surround{before: m.before, after: m.after, cache: m.cache})
}

// AppendText appends the text of a conversation, as the engine renders it, to
// dst. Its errors are ErrNoTemplate and those of package chat.
func (m *Model) AppendText(dst []byte, in chat.Input) ([]byte, chat.Info, error) {
	switch {
	case m.harmony != nil:
		dst, _, info, err := m.harmony.AppendSpans(dst, nil, in)
		return dst, info, err
	case m.template != nil:
		return m.template.AppendInfo(dst, in)
	}
	return dst, chat.Info{}, ErrNoTemplate
}

// AppendChat appends the ids of a conversation as an engine's chat endpoint
// encodes it: the rendered text, with the special tokens that the template
// wrote and no others. The ids are those the engine gets unless the
// conversation has parts that are not text; AppendChatInfo tells.
func (m *Model) AppendChat(dst []uint32, in chat.Input) ([]uint32, error) {
	dst, _, err := m.AppendChatInfo(dst, in)
	return dst, err
}

// AppendChatInfo is AppendChat and also says how exact the ids are.
func (m *Model) AppendChatInfo(dst []uint32, in chat.Input) ([]uint32, chat.Info, error) {
	return m.appendChat(dst, in, nil)
}

// AppendChatBlocks is AppendChatInfo and also appends the hashes of the full
// blocks of the ids appended, which costs little for the turns that came
// twice before. All calls must use the same by.Append.
func (m *Model) AppendChatBlocks(dst []uint32, hashes []uint64, in chat.Input, by Blocks) ([]uint32, []uint64, chat.Info, error) {
	h := &hasher{by: by, hashes: hashes, chain: by.Seed, done: len(dst)}
	dst, info, err := m.appendChat(dst, in, h)
	if err == nil {
		h.upTo(dst)
	}
	return dst, h.hashes, info, err
}

// rendered is scratch space for the text of a conversation.
type rendered struct {
	text     []byte
	ordinary []chat.Span
}

func (m *Model) appendChat(dst []uint32, in chat.Input, h *hasher) ([]uint32, chat.Info, error) {
	r, _ := m.texts.Get().(*rendered)
	if r == nil {
		r = &rendered{}
	}
	var info chat.Info
	var err error
	r.text, r.ordinary = r.text[:0], r.ordinary[:0]
	if m.harmony != nil {
		r.text, r.ordinary, info, err = m.harmony.AppendSpans(r.text, r.ordinary, in)
	} else {
		r.text, info, err = m.AppendText(r.text, in)
	}
	limits := m.limits
	if h != nil && h.by.MaxTokens > 0 {
		limits.MaxTokens = h.by.MaxTokens
	}
	if err == nil {
		dst, err = m.bpe.appendAround(dst, view(r.text), limits, &surround{ordinary: r.ordinary, cache: m.cache, hasher: h})
	}
	if cap(r.text) <= keepScratch {
		m.texts.Put(r)
	}
	return dst, info, err
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
