package faultbench

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// Script is what a Replica does with one request once it has read it. The
// zero value answers 200 with an empty body.
type Script struct {
	Informational []http.Header // 1xx answers sent first; status 103, or the number under Status103
	Status        int           // If zero, 200
	Header        http.Header   // of the answer; framing is the Replica's own
	Length        int           // Content-Length as claimed. If zero, the body is chunked
	Pieces        []Piece       // the body
	End           End           // what follows the last piece
	Slice         int           // if not zero, what goes out is cut into writes of 1 to Slice bytes
	Wait          time.Duration // before the first byte of the answer
}

// Piece is one write of a body.
type Piece struct {
	Data   []byte
	Pause  time.Duration // before it
	Tokens int           // that it brings
}

// Stamp in the data of a Piece becomes the time of the write, in unix
// nanoseconds.
const Stamp = "@@@@@@@@@@@@@@@@@@@"

// End is how an answer ends.
type End int

// The ways to end.
const (
	Clean   End = iota // as HTTP demands; the connection stays
	Close              // as HTTP demands, and the connection is closed
	FIN                // the connection is closed in the middle
	RST                // the connection is reset in the middle
	Stall              // nothing more, until the peer leaves
	Silent             // nothing at all, not even a head, until the peer leaves
	Drop               // no head either: the connection is closed at once
	DropRST            // no head either: the connection is reset at once
)

// Ask is what a generation request asks for, as far as scripts need it.
type Ask struct {
	Model         string `json:"model"`
	Stream        bool   `json:"stream"`
	MaxTokens     int    `json:"max_tokens"`
	Newer         int    `json:"max_completion_tokens"`
	N             int    `json:"n"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
		Continuous   bool `json:"continuous_usage_stats"`
	} `json:"stream_options"`
	Messages []struct{ Content json.RawMessage }
	Prompt   json.RawMessage
}

// Speech is a well-formed answer: Tokens deltas that each say Text.
type Speech struct {
	Ask    Ask
	ID     string
	Text   string        // of each delta
	Tokens int           // how many
	Prompt int           // prompt tokens reported
	Cached int           // prompt tokens reported as found in the cache
	TTFT   time.Duration // before the first
	Pace   time.Duration // before each of the others
}

// Usage returns the usage object after n tokens.
func (s Speech) Usage(n int) string {
	return fmt.Sprintf(`{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d}}`, s.Prompt, s.Prompt+n, n, s.Cached)
}

func (s Speech) chunk(choices, usage string) []byte {
	if usage != "" {
		usage = `,"usage":` + usage
	}
	return fmt.Appendf(nil, `data: {"id":%q,"object":"chat.completion.chunk","created":1,"model":%q,"choices":[%s]%s}`+"\n\n", s.ID, s.Ask.Model, choices, usage)
}

func (s Speech) running(n int) string {
	if !s.Ask.StreamOptions.Continuous {
		return ""
	}
	return s.Usage(n)
}

// Role is the chunk that names the role.
func (s Speech) Role() Piece {
	return Piece{Data: s.chunk(`{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}`, s.running(0))}
}

// Delta is the n-th token, counted from 1.
func (s Speech) Delta(n int) Piece { return s.delta(n, quote(s.Text)) }

func quote(text string) []byte {
	quoted, _ := json.Marshal(text) // a string always marshals
	return quoted
}

func (s Speech) delta(n int, text []byte) Piece {
	pause := s.Pace
	if n == 1 {
		pause = s.TTFT
	}
	return Piece{Pause: pause, Tokens: 1, Data: s.chunk(fmt.Sprintf(`{"index":0,"delta":{"content":%s},"finish_reason":null}`, text), s.running(n))}
}

// Finish is the chunk with the finish reason.
func (s Speech) Finish() Piece {
	return Piece{Data: s.chunk(`{"index":0,"delta":{},"finish_reason":"length"}`, s.running(s.Tokens))}
}

// Last is the chunk with the usage of the whole.
func (s Speech) Last() Piece {
	if !s.Ask.StreamOptions.IncludeUsage {
		return Piece{}
	}
	return Piece{Data: s.chunk("", s.Usage(s.Tokens))}
}

// Done is the end of a stream.
func Done() Piece { return Piece{Data: []byte("data: [DONE]\n\n")} }

// Deltas are the role chunk and the first n tokens. Tokens that come without
// usage are alike and share their bytes.
func (s Speech) Deltas(n int) []Piece {
	p := append(make([]Piece, 0, n+4), s.Role())
	text := quote(s.Text)
	for i := range n {
		if i > 0 && !s.Ask.StreamOptions.Continuous {
			same := p[1]
			same.Pause = s.Pace
			p = append(p, same)
			continue
		}
		p = append(p, s.delta(i+1, text))
	}
	return p
}

// Body are all pieces of the stream.
func (s Speech) Body() []Piece {
	return append(s.Deltas(s.Tokens), s.Finish(), s.Last(), Done())
}

// Whole is the answer to a request that is not streamed.
func (s Speech) Whole() []byte {
	var text []byte
	for range s.Tokens {
		text = append(text, s.Text...)
	}
	return fmt.Appendf(nil, `{"id":%q,"object":"chat.completion","created":1,"model":%q,"choices":[{"index":0,"message":{"role":"assistant","content":%s},"finish_reason":"length"}],"usage":%s}`,
		s.ID, s.Ask.Model, quote(string(text)), s.Usage(s.Tokens))
}

// Stream is the head of a stream with these pieces.
func Stream(p ...Piece) Script {
	return Script{Header: http.Header{"Content-Type": {"text/event-stream; charset=utf-8"}}, Pieces: p}
}

// JSON is a whole answer.
func JSON(status int, body []byte, tokens int) Script {
	return Script{Status: status, Header: http.Header{"Content-Type": {"application/json"}}, Length: len(body), Pieces: []Piece{{Data: body, Tokens: tokens}}}
}

// Script is the speech as an answer of the kind asked for.
func (s Speech) Script() Script {
	if s.Ask.Stream {
		return Stream(s.Body()...)
	}
	sc := JSON(http.StatusOK, s.Whole(), s.Tokens)
	sc.Wait = s.TTFT + time.Duration(max(s.Tokens-1, 0))*s.Pace
	return sc
}
