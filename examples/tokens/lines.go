package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/expediterhq/expediter/internal/openai"
	"github.com/expediterhq/expediter/tokenize"
	"github.com/expediterhq/expediter/tokenize/chat"
)

// input is one line. That of a conversation is the body of a request too.
type input struct {
	ID   json.RawMessage `json:"id"`
	Text *string         `json:"text"`
}

// output is one line; exactly one of the fields after ID is set.
type output struct {
	ID    json.RawMessage `json:"id,omitempty"`
	IDs   []uint32        `json:"ids,omitzero"`
	Text  *string         `json:"text,omitempty"`
	N     *int            `json:"n,omitempty"`
	Error string          `json:"error,omitempty"`
}

// run reads lines from in and writes one to out for each; help goes to usage.
func run(args []string, in io.Reader, out, usage io.Writer) error {
	s, err := parse(args, usage)
	if err != nil {
		return err
	}
	m, err := s.load()
	if err != nil {
		return err
	}
	r, w := bufio.NewReaderSize(in, 1<<16), bufio.NewWriterSize(out, 1<<16)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for n := 1; ; n++ {
		line, err := r.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return err
		}
		if len(bytes.TrimSpace(line)) > 0 {
			answer, err := s.answer(m, line)
			if err != nil {
				return fmt.Errorf("line %d: %w", n, err)
			}
			if err := enc.Encode(answer); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return w.Flush()
		}
	}
}

// answer works on one line. Its error is about a line that is not of the
// expected form; a refused text is an answer.
func (s *settings) answer(m *tokenize.Model, line []byte) (*output, error) {
	var in input
	if err := json.Unmarshal(line, &in); err != nil {
		return nil, err
	}
	answer := &output{ID: in.ID}
	err := checkText(line)
	switch {
	case err != nil:
	case s.chat:
		err = s.chatAnswer(m, line, answer)
	case in.Text == nil:
		return nil, errors.New(`no "text"`)
	default:
		err = s.textAnswer(m, *in.Text, answer)
	}
	var refused *chat.Error
	switch {
	case errors.As(err, &refused):
		*answer = output{ID: in.ID, Error: refused.Kind + ": " + refused.Message}
	case err != nil:
		*answer = output{ID: in.ID, Error: err.Error()}
	}
	return answer, nil
}

func (s *settings) textAnswer(m *tokenize.Model, text string, answer *output) error {
	ids := []uint32{} // not nil: an empty list is printed
	var err error
	if s.prompt {
		ids, err = m.AppendPrompt(ids, text)
	} else {
		ids, err = m.Tokenizer().AppendWith(ids, text, tokenize.Options{Special: s.special})
	}
	s.set(answer, ids)
	return err
}

// chatAnswer reads and renders a body as the gateway does.
func (s *settings) chatAnswer(m *tokenize.Model, body []byte, answer *output) error {
	request, err := openai.Parse(body, openai.Chat, openai.Limits{})
	if err != nil {
		return err
	}
	conversation := request.Conversation(s.now)
	if s.count {
		ids, err := m.AppendChat(nil, conversation)
		s.set(answer, ids)
		return err
	}
	text, _, err := m.AppendText(nil, conversation)
	answer.Text = new(string(text))
	return err
}

func (s *settings) set(answer *output, ids []uint32) {
	if s.count {
		answer.N = new(len(ids))
		return
	}
	answer.IDs = ids
}

var errText = errors.New("the line is not valid Unicode")

// checkText refuses what encoding/json would replace silently: invalid UTF-8
// and surrogates without a partner.
func checkText(line []byte) error {
	if !utf8.Valid(line) {
		return errText
	}
	for i := 0; i+1 < len(line); i++ {
		if line[i] != '\\' {
			continue
		}
		i++
		if line[i] != 'u' {
			continue
		}
		switch unit := surrogate(line[i-1:]); {
		case unit == 'h' && surrogate(line[i+5:]) == 'l':
			i += 10
		case unit != 0:
			return errText
		}
	}
	return nil
}

// surrogate says whether s starts with the escape of a high ('h') or low ('l')
// surrogate, or of neither (0).
func surrogate(s []byte) byte {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' || s[2]|0x20 != 'd' {
		return 0
	}
	switch c := s[3] | 0x20; {
	case s[3] == '8' || s[3] == '9' || c == 'a' || c == 'b':
		return 'h'
	case c >= 'c' && c <= 'f':
		return 'l'
	}
	return 0
}
