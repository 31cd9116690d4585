// Package tokenize turns text and conversations into the token ids that an
// inference engine gives them, in pure Go.
//
// Exact counts make quotas and admission honest; exact ids make the hashes of
// prompt prefixes equal those under which the engine caches them. An estimate
// can do neither, so a model whose tokenizer needs something this package does
// not implement is refused when it is loaded, with the name of what is
// missing (UnsupportedError).
//
// # Models
//
// Load reads the folder that an engine serves a model from: tokenizer.json
// (or .gz), tokenizer_config.json and chat_template.jinja. The Model encodes
// completion prompts (AppendPrompt) and conversations (AppendChat) as the
// engine's endpoints do. It remembers the turns of conversations that have
// come twice, so that a conversation which comes back longer costs little more
// than its last turns.
//
// BPE is the tokenizer alone. It implements byte pair encoding, byte-level
// and SentencePiece-style with byte fallback, which is what the Llama, Qwen,
// gpt-oss, DeepSeek, Mistral and Gemma families use:
//
//   - added tokens, special ones too, are recognised inside text, the longest
//     of those that start leftmost;
//   - normalizers NFC, Replace and Prepend;
//   - pre-tokenizers Split by a regular expression, Digits, ByteLevel and
//     Metaspace;
//   - ignore_merges, byte_fallback, unk_token and fuse_unk;
//   - the post-processor TemplateProcessing.
//
// The Unicode tables are pinned to the versions that the reference
// implementation (the Rust crate tokenizers) was built with. Those of the Go
// release would give other ids for thousands of characters.
//
// ByteEstimate stands in where no model folder is known. It is an
// approximation and says so in its name.
//
// # Cost
//
// Encoding takes about 0.1 ms for 1,800 tokens and 2 ms for 32,000 on one
// core, allocates nothing in steady state, and grows with n log n at worst: no
// text of 100 kB takes longer than 20 ms. Options bound what a text may cost
// further. A vocabulary of 150,000 tokens loads in about 0.2 s and keeps 13 to
// 20 MB. The benchmarks in this package measure each of these figures.
//
// # Text
//
// Text must be valid UTF-8; anything else is refused with ErrInvalidUTF8
// rather than repaired, because a repaired text has other ids than the engine
// would give it or refuse it with.
package tokenize
