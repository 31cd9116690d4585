package tokenize

import (
	"math"
	"sync"
	"unicode/utf8"

	"github.com/expediterhq/expediter/tokenize/chat"
	"github.com/expediterhq/expediter/tokenize/internal/scan"
)

// BPE is a byte pair encoding tokenizer as a Hugging Face tokenizer.json
// describes it: byte-level or with byte fallback, the latter as SentencePiece
// models have it. It is immutable but for caches that never change a result,
// and safe for concurrent use. Build one with NewBPE or Load.
//
// The time that encoding takes grows with n log n at worst, in the length of
// the text.
type BPE struct {
	words    words
	before   *addedTokens // recognised in the text as it is
	after    *addedTokens // recognised in normalized text
	added    map[uint32]string
	normal   []normalStep
	meta     *metaspace // nil where the model has none
	scanners []scan.Scanner
	bos, eos []uint32 // what the post-processor puts around a text
	decoder  decoder
	least    *least    // nil: unknown
	scratch  sync.Pool // of *encoder
}

// Options says how to encode a text. The zero value is what Append does.
type Options struct {
	// Special adds the tokens that the file's post-processor puts around a
	// text, such as a token for its beginning. Engines call this
	// add_special_tokens.
	Special bool
	// MaxBytes is the longest text accepted, in bytes. If zero, any length is.
	MaxBytes int
	// MaxTokens is the largest number of ids produced, special ones included.
	// Encoding stops soon after it is exceeded, and does not start where the
	// text's length shows that it will be. If zero, any number is.
	MaxTokens int
}

// Append appends the ids of text to dst, without the tokens that a
// post-processor adds. Added tokens, special ones too, are recognised inside
// text, as engines do. It allocates nothing where dst is large enough, once
// scratch space has grown to the size of the texts in use. The error, if any,
// is ErrInvalidUTF8 or ErrTooComplex.
func (b *BPE) Append(dst []uint32, text string) ([]uint32, error) {
	return b.AppendWith(dst, text, Options{})
}

// AppendWith appends the ids of text to dst as opt says. Beside the errors of
// Append it returns a *LimitError.
func (b *BPE) AppendWith(dst []uint32, text string, opt Options) ([]uint32, error) {
	before, after := b.around(opt)
	return b.appendAround(dst, text, opt, &surround{before: before, after: after})
}

// surround is what goes with a text into an encoder.
type surround struct {
	before, after []uint32    // ids around those of the text
	ordinary      []chat.Span // pieces of text in which no added token is recognised
	cache         *Cache      // nil: none
	hasher        *hasher     // nil: no hashes wanted
}

// around returns the ids that opt asks for before and after a text.
func (b *BPE) around(opt Options) (before, after []uint32) {
	if opt.Special {
		return b.bos, b.eos
	}
	return nil, nil
}

// appendAround is AppendWith with all of what may go with a text.
func (b *BPE) appendAround(dst []uint32, text string, opt Options, s *surround) ([]uint32, error) {
	e, err := b.begin(text, opt)
	if err != nil {
		return dst, err
	}
	own := e.ids
	e.ids, e.base = dst, len(dst)
	e.stop = satAdd(e.base, e.max)
	e.around = *s
	err = e.text(text)
	dst, e.ids = e.ids, own
	b.end(e)
	return dst, err
}

// chunkIDs is the number of ids from which on Visit hands them over.
const chunkIDs = 512

// Visit encodes text as opt says and calls visit with the ids, in order and in
// chunks, while it encodes: hashing blocks of ids need not wait for the last,
// nor the ids be kept. A chunk is valid during the call; its length is at least
// one and depends on the text. An error from visit ends the encoding and is
// returned.
func (b *BPE) Visit(text string, opt Options, visit func(ids []uint32) error) error {
	e, err := b.begin(text, opt)
	if err != nil {
		return err
	}
	e.ids, e.base, e.visit = e.ids[:0], 0, visit
	e.stop = min(chunkIDs, e.max)
	e.around.before, e.around.after = b.around(opt)
	err = e.text(text)
	if err == nil && len(e.ids) > 0 {
		err = visit(e.ids)
	}
	b.end(e)
	return err
}

// Count returns the number of ids that Append would append.
func (b *BPE) Count(text string) (int, error) {
	e, err := b.begin(text, Options{})
	if err != nil {
		return 0, err
	}
	e.ids, e.base, e.count = e.ids[:0], 0, true
	e.stop = chunkIDs
	err = e.text(text)
	n := e.done + len(e.ids)
	b.end(e)
	return n, err
}

// begin checks text against the limits and returns scratch space for it.
func (b *BPE) begin(text string, opt Options) (*encoder, error) {
	if opt.MaxBytes > 0 && len(text) > opt.MaxBytes {
		return nil, &LimitError{"bytes", opt.MaxBytes}
	}
	if !utf8.ValidString(text) {
		return nil, ErrInvalidUTF8
	}
	if opt.MaxTokens > 0 && b.least.exceeds(text, opt.MaxTokens) {
		return nil, &LimitError{"tokens", opt.MaxTokens}
	}
	e, _ := b.scratch.Get().(*encoder)
	if e == nil {
		e = &encoder{b: b}
	}
	e.max = math.MaxInt
	if opt.MaxTokens > 0 {
		e.max = opt.MaxTokens
	}
	e.done, e.err = 0, nil
	e.machine.Reset(len(text))
	return e, nil
}

// keepScratch is the size in bytes above which a buffer is not kept for reuse.
const keepScratch = 8 << 20

func (b *BPE) end(e *encoder) {
	e.visit, e.count, e.around = nil, false, surround{}
	if e.size() <= keepScratch {
		b.scratch.Put(e)
	}
}

// satAdd adds two numbers, neither negative, up to the largest int.
func satAdd(a, b int) int {
	if a > math.MaxInt-b {
		return math.MaxInt
	}
	return a + b
}
