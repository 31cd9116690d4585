package vllm

import (
	"encoding/json"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxMessage bounds the engine's messages, in bytes.
const maxMessage = 1024

// Error is an answer of the engine's that is not a success.
type Error struct {
	Status  int    // HTTP status, or the code inside of an error event
	Type    string // such as BadRequestError; may be empty
	Param   string // the field at fault; may be empty
	Message string // for the client whose request it was; may hold text of the request, so it is not for logs
}

// Error leaves the message out, which may hold text of the request.
func (e *Error) Error() string {
	s := "vllm: the engine answered status " + strconv.Itoa(e.Status)
	if e.Type != "" {
		s += " " + e.Type
	}
	return s
}

// DecodeError reads the body of an answer with an error status: the engine's
// own shape, the string that its key check sends, the framework's, or an
// older flat object. Of anything else the message is empty. The message is
// cut to a kilobyte of printable text.
func DecodeError(status int, body []byte) *Error {
	e := &Error{Status: status}
	var shape struct {
		Error  json.RawMessage `json:"error"`
		Detail json.RawMessage `json:"detail"`
		inner
	}
	if json.Unmarshal(body, &shape) != nil {
		return e
	}
	in := shape.inner
	var text string
	switch {
	case json.Unmarshal(shape.Error, &text) == nil && text != "":
		in.Message = text
	case json.Unmarshal(shape.Detail, &text) == nil && text != "":
		in.Message = text
	case shape.Error != nil:
		in = inner{}
		if json.Unmarshal(shape.Error, &in) != nil {
			return e
		}
	}
	e.Type, e.Message = clip(in.Type, 64), clip(in.Message, maxMessage)
	if p, ok := in.Param.(string); ok {
		e.Param = clip(p, 64)
	}
	if code, ok := in.Code.(float64); ok && status == 200 && code >= 400 && code < 600 {
		e.Status = int(code)
	}
	return e
}

// inner is the object that describes an error.
type inner struct {
	Message string `json:"message"`
	Type    string `json:"type"`
	Param   any    `json:"param"`
	Code    any    `json:"code"`
}

// clip returns at most n bytes of s, whole characters, printable.
func clip(s string, n int) string {
	if len(s) > n {
		for n > 0 && !utf8.RuneStart(s[n]) {
			n--
		}
		s = s[:n]
	}
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, s)
}

// cause takes the address out of what http.Client returns, and the package's
// name, for an error that has it already.
func cause(err error) error {
	if u := (*url.Error)(nil); errors.As(err, &u) {
		err = u.Err
	}
	if d := (*dialError)(nil); errors.As(err, &d) {
		err = d.inside
	}
	return err
}
