package openai

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

// Error is a refusal in OpenAI's shape. Its message is public: it names the
// field and what was expected, and never text of the request, an address or
// a cause inside the gateway.
type Error struct {
	Status  int    // HTTP status
	Type    string // If empty, the usual type of the status
	Code    string // sent as null if empty
	Param   string // the field at fault; sent as null if empty
	Message string

	After time.Duration // sent as Retry-After in whole seconds, rounded up; zero = not sent
	Final bool          // a retry cannot help: tells OpenAI's clients not to try again
}

// Error returns the public message.
func (e *Error) Error() string { return "openai: " + e.Message }

// The types of errors, as OpenAI names them.
const (
	TypeInvalidRequest = "invalid_request_error"
	TypeAuthentication = "authentication_error"
	TypePermission     = "permission_error"
	TypeNotFound       = "not_found_error"
	TypeRateLimit      = "rate_limit_error"
	TypeTimeout        = "timeout_error"
	TypeServer         = "server_error"
)

// Codes that clients branch on.
const (
	CodeInvalidKey    = "invalid_api_key"
	CodeModelNotFound = "model_not_found"
	CodeRateLimit     = "rate_limit_exceeded"
	CodeContextLength = "context_length_exceeded"
	CodeInvalidJSON   = "invalid_json"
	CodeInvalidType   = "invalid_type"
	CodeInvalidValue  = "invalid_value"
	CodeDuplicateKey  = "duplicate_key"
	CodeMissing       = "missing_required_parameter"
	CodeTooMany       = "limit_exceeded"
)

// TypeOf returns the usual error type of an HTTP status.
func TypeOf(status int) string {
	switch {
	case status == http.StatusUnauthorized:
		return TypeAuthentication
	case status == http.StatusForbidden:
		return TypePermission
	case status == http.StatusNotFound:
		return TypeNotFound
	case status == http.StatusTooManyRequests:
		return TypeRateLimit
	case status == http.StatusRequestTimeout || status == http.StatusGatewayTimeout:
		return TypeTimeout
	case status >= 500:
		return TypeServer
	default:
		return TypeInvalidRequest
	}
}

// AppendJSON appends the error's body, {"error":{...}}, without a newline.
func (e *Error) AppendJSON(dst []byte) []byte {
	typ := e.Type
	if typ == "" {
		typ = TypeOf(e.Status)
	}
	dst = append(dst, `{"error":{"message":`...)
	dst = appendQuoted(dst, e.Message)
	dst = append(dst, `,"type":`...)
	dst = appendQuoted(dst, typ)
	dst = append(dst, `,"param":`...)
	dst = appendNullable(dst, e.Param)
	dst = append(dst, `,"code":`...)
	dst = appendNullable(dst, e.Code)
	return append(dst, "}}"...)
}

// AppendEvent appends the error as one server-sent event, for a stream whose
// head is already out.
func (e *Error) AppendEvent(dst []byte) []byte {
	dst = append(dst, "data: "...)
	dst = e.AppendJSON(dst)
	return append(dst, "\n\n"...)
}

// Write sends the error as the whole response. It must be called before
// anything else was written; the error returned is the writer's.
func (e *Error) Write(w http.ResponseWriter) error {
	h := w.Header()
	h.Del("Content-Encoding")
	h.Del("Content-Length")
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if e.After > 0 {
		h.Set("Retry-After", strconv.FormatInt(seconds(e.After), 10))
	}
	if e.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer") // RFC 9110, 11.6.1
	}
	if e.Final {
		h.Set("X-Should-Retry", "false")
	}
	body := append(e.AppendJSON(nil), '\n')
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(e.Status)
	_, err := w.Write(body)
	return err
}

// seconds rounds up, so that a client that waits as told is never early.
func seconds(d time.Duration) int64 {
	s := int64(d / time.Second)
	if d%time.Second > 0 {
		s++
	}
	return max(s, 1)
}

func appendNullable(dst []byte, s string) []byte {
	if s == "" {
		return append(dst, "null"...)
	}
	return appendQuoted(dst, s)
}

// appendQuoted appends s as a JSON string. Bytes that are not UTF-8 become
// U+FFFD, so the result is valid whatever s is.
func appendQuoted(dst []byte, s string) []byte {
	if plain(s) {
		dst = append(dst, '"')
		dst = append(dst, s...)
		return append(dst, '"')
	}
	q, err := json.Marshal(s)
	if err != nil { // a string always marshals
		return append(dst, `""`...)
	}
	return append(dst, q...)
}

// plain reports whether s may stand between quotes as it is.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c >= 0x7f || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}
