package expediter

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"strings"

	"github.com/expediterhq/expediter/internal/openai"
	"github.com/expediterhq/expediter/internal/rawio"
	"github.com/expediterhq/expediter/prefix"
	"github.com/expediterhq/expediter/tokenize"
	"github.com/expediterhq/expediter/tokenize/chat"
)

// completionDefault is the engine's own output limit for /v1/completions.
const completionDefault = 16

// measure is what a request is worth, in tokens.
type measure struct {
	input     int // all prompts
	longest   int // the longest prompt
	sequences int // n times prompts: each has a KV cache of its own
	output    int // the most one sequence may produce
	expected  int // what one sequence will hardly exceed
	body      []byte
	print     uint64 // hash of the body: the same request sent again has the same
}

// all returns what all sequences have if each has so many. It is at most half
// of what an int can hold: no replica has that much.
func (m *measure) all(each int) int {
	return int(min(int64(m.sequences)*int64(each), math.MaxInt/2))
}

// While a body above largeBody is rendered and encoded, it counts as many
// times more against the memory of all bodies.
const (
	largeBody     = 1 << 20
	measureCopies = 6
)

var printSeed = maphash.MakeSeed()

// measure renders and tokenizes the prompt, hashes its blocks, and fixes the
// output limit. The blocks are those of the first prompt.
func (q *request) measure() error {
	q.size.print = maphash.Bytes(printSeed, q.body)
	if len(q.body) > largeBody {
		extra := int64(len(q.body)) * measureCopies
		if !q.h.bodies.take(q.tenant.ID, extra) {
			return errBusy()
		}
		defer q.h.bodies.give(q.tenant.ID, extra)
	}
	rawio.Yield()
	if err := q.countInput(); err != nil {
		return err
	}
	rawio.Yield()
	q.hashed = len(q.blocks) > 0
	if err := q.limitOutput(); err != nil {
		return err
	}
	q.size.expected = q.pool.outputs.Expect(q.tenant.ID, q.size.output)
	q.rec.Input = q.size.input
	q.sent = q.in.Rewrite(slices.Grow(q.sent[:0], len(q.body)+256), q.edits())
	q.size.body = q.sent
	return nil
}

func (q *request) countInput() error {
	s := &q.size
	s.sequences = q.in.Sequences()
	q.tokens, q.blocks = q.tokens[:0], q.blocks[:0]
	if q.kind == openai.Chat {
		if err := q.encodeChat(); err != nil {
			return err
		}
		s.input, s.longest = len(q.tokens), len(q.tokens)
		return nil
	}
	for i, p := range q.in.Prompts {
		q.tokens = q.tokens[:0]
		if err := q.encodePrompt(p); err != nil {
			return err
		}
		s.input += len(q.tokens)
		s.longest = max(s.longest, len(q.tokens))
		if i == 0 {
			q.hash()
		}
	}
	return nil
}

func (q *request) encodeChat() (err error) {
	m := q.pool.Tokenizer
	if m == nil {
		return q.estimateChat()
	}
	var info chat.Info
	q.tokens, q.blocks, info, err = m.AppendChatBlocks(q.tokens, q.blocks, q.in.Conversation(q.arrived), tokenize.Blocks{
		Append: prefix.AppendBlocks, Seed: q.seed(), Size: q.pool.replicas.BlockSize(),
		MaxTokens: q.longestPrompt(),
	})
	if q.in.Multimodal {
		q.blocks = q.blocks[:0] // the engine hashes what only it knows
	}
	differs := q.pool.tasks.parity.differs()
	if err != nil && differs { // the engine's template may well take it
		return q.estimateChat()
	}
	special := q.in.AddSpecialTokens
	q.rec.Approximate = info.Approximate || differs || q.in.Truncate || special != nil && *special
	return q.promptError("messages", err)
}

func (q *request) estimateChat() (err error) {
	q.rec.Approximate = true
	q.blocks = q.blocks[:0]
	q.tokens, err = tokenize.ByteEstimate{}.Append(q.tokens[:0], string(q.in.Messages)+string(q.in.Tools))
	if !q.in.Multimodal {
		q.hash()
	}
	return err
}

func (q *request) encodePrompt(p openai.Prompt) (err error) {
	if p.IDs != nil {
		q.tokens = append(q.tokens, p.IDs...)
		return nil
	}
	if m := q.pool.Tokenizer; m != nil {
		if s := q.in.AddSpecialTokens; s != nil && !*s {
			q.tokens, err = m.Tokenizer().AppendWith(q.tokens, p.Text, tokenize.Options{MaxTokens: q.longestPrompt()})
		} else {
			q.tokens, err = m.AppendPromptMax(q.tokens, p.Text, q.longestPrompt())
		}
		q.rec.Approximate = q.rec.Approximate || q.pool.tasks.parity.differs() || q.in.Truncate
		return q.promptError("prompt", err)
	}
	q.rec.Approximate = true
	q.tokens, err = tokenize.ByteEstimate{}.Append(q.tokens, p.Text)
	return err
}

// promptError turns what a template or tokenizer refuses into a 400.
func (q *request) promptError(param string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, tokenize.ErrTooLong) {
		e := errContext(param, q.longestPrompt(), 0, q.longestPrompt())
		e.Message = fmt.Sprintf("This model's context is %d tokens; the prompt has more.", q.longestPrompt())
		return e
	}
	var refused *chat.Error
	if errors.As(err, &refused) {
		return errField(param, "cannot be rendered by the model's chat template: "+strings.TrimSuffix(refused.Message, "."))
	}
	return errField(param, "cannot be tokenized")
}

// longestPrompt is the number of tokens at which a prompt is given up: no more
// work and memory is spent on what no replica can take.
func (q *request) longestPrompt() int {
	if n := q.pool.MaxModelLen; n > 0 {
		return n
	}
	return cmp.Or(largestCache(q.pool.replicas.Replicas()), unknownContext)
}

// unknownContext bounds prompts, in tokens, while nothing is known of the
// replicas.
const unknownContext = 1 << 20

// hash fills in the block hashes of the prompt in q.tokens.
func (q *request) hash() {
	q.blocks = prefix.AppendBlocks(q.blocks, q.seed(), q.tokens, q.pool.replicas.BlockSize())
}

// seed is the root of the prompt's chain of block hashes: adapters, and
// tenants or callers that asked for it, share none with others.
func (q *request) seed() uint64 {
	salt := q.salt()
	if f, ok := q.in.Field("cache_salt"); ok && salt == "" && q.allowed(f.Name) {
		_ = json.Unmarshal(f.Value, &salt) // the engine refuses what is not a string
	}
	return prefix.Seed(q.model.Adapter, salt)
}

// salt separates the prefix cache of a tenant that asked for it.
func (q *request) salt() string {
	if q.tenant.IsolatePrefix {
		return "tenant:" + q.tenant.ID
	}
	return ""
}

// limitOutput fixes how much each sequence may produce: what the client asks
// for, within the caps of tenant, pool and context.
func (q *request) limitOutput() error {
	s, p := &q.size, q.pool
	room := int(openai.MaxLimit)
	if p.MaxModelLen > 0 {
		room = p.MaxModelLen - s.longest
	}
	s.output = q.in.MaxTokens
	asked := s.output >= 0
	if !asked {
		s.output = cmp.Or(q.tenant.DefaultMaxTokens, p.DefaultMaxTokens)
		if q.kind == openai.Completion {
			s.output = completionDefault
		}
	}
	if q.tenant.MaxTokens > 0 {
		s.output = min(s.output, q.tenant.MaxTokens)
	}
	if p.MaxTokens > 0 {
		s.output = min(s.output, p.MaxTokens)
	}
	if s.output <= room && room > 0 {
		return nil
	}
	switch {
	case q.rec.Approximate && !asked:
		s.output = max(min(s.output, room), 1)
	case q.rec.Approximate && s.output < p.MaxModelLen: // the engine knows better
	case asked || room <= 0:
		param := q.promptParam()
		if room > 0 {
			param = q.maxParam()
		}
		return errContext(param, s.longest, s.output, p.MaxModelLen)
	default:
		s.output = room
	}
	return nil
}

func (q *request) promptParam() string {
	if q.kind == openai.Chat {
		return "messages"
	}
	return "prompt"
}

// edits are the changes made to the body on its way to the replica. Usage is
// always asked for, with every event, so that a stream that ends early is
// charged for exactly what it produced; relay hides what the client did not
// ask for.
func (q *request) edits() openai.Edits {
	e := openai.Edits{
		Model:        q.rec.Served,
		MaxTokens:    q.size.output,
		IncludeUsage: true, ContinuousUsage: true,
	}
	if salt := q.salt(); salt != "" {
		e.Set = append(e.Set, openai.String("cache_salt", salt))
	}
	for _, f := range q.in.Fields {
		if f.Control && !q.allowed(f.Name) {
			e.Drop = append(e.Drop, f.Name)
		}
	}
	return e
}

// allowed reports whether a field that steers the engine may pass. documents
// are part of the prompt, and measured as such.
func (q *request) allowed(field string) bool {
	return field == "documents" || slices.Contains(q.tenant.AllowFields, field)
}
