package expediter

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/expediterhq/expediter/internal/openai"
)

// errClosed is returned by Reload after Close.
var errClosed = errors.New("expediter: handler is closed")

// Why a request's context ended, other than the client leaving.
var (
	errDraining   = errors.New("expediter: the gateway is shutting down")
	errClientGone = errors.New("expediter: the client left")
	errStalled    = errors.New("expediter: the client stopped reading")
)

// statusClientClosed is the status of a request whose client left before an
// answer: nobody receives it, records and metrics show it.
const statusClientClosed = 499

func errNoRoute() *openai.Error {
	return &openai.Error{Status: http.StatusNotFound, Code: "unknown_url", Message: "Unknown request URL. Paths are /v1/chat/completions, /v1/completions and /v1/models."}
}

func errMethod(want string) *openai.Error {
	return &openai.Error{Status: http.StatusMethodNotAllowed, Code: "method_not_allowed", Message: "This path takes " + want + " only."}
}

func errUnauthorized() *openai.Error {
	return &openai.Error{Status: http.StatusUnauthorized, Code: openai.CodeInvalidKey, Message: "Missing or invalid credentials. An API key is sent as: Authorization: Bearer KEY."}
}

func errTooManyAttempts(after time.Duration) *openai.Error {
	return &openai.Error{Status: http.StatusTooManyRequests, Code: openai.CodeRateLimit, After: max(after, time.Second), Message: "Too many failed attempts from this address."}
}

func errContentType() *openai.Error {
	return &openai.Error{Status: http.StatusUnsupportedMediaType, Code: "unsupported_media_type", Param: "Content-Type", Message: "Content-Type must be application/json."}
}

func errContentEncoding() *openai.Error {
	return &openai.Error{Status: http.StatusUnsupportedMediaType, Code: "unsupported_media_type", Param: "Content-Encoding", Message: "Compressed bodies are not accepted; leave Content-Encoding out."}
}

func errTooLarge(limit int64) *openai.Error {
	return &openai.Error{Status: http.StatusRequestEntityTooLarge, Code: "request_too_large", Message: fmt.Sprintf("The request body is larger than the limit of %d bytes.", limit)}
}

func errHeadTooLarge(l *Limits) *openai.Error {
	return &openai.Error{
		Status: http.StatusRequestHeaderFieldsTooLarge, Code: "head_too_large",
		Message: fmt.Sprintf("The request's headers exceed %d fields or %d bytes.", l.Fields, l.Head),
	}
}

func errBodyTimeout() *openai.Error {
	return &openai.Error{Status: http.StatusRequestTimeout, Code: "request_timeout", Message: "The request body did not arrive in time."}
}

func errBodyBroken() *openai.Error {
	return &openai.Error{Status: http.StatusBadRequest, Code: "invalid_body", Message: "The request body ended early or is badly framed."}
}

func errBusy() *openai.Error {
	return &openai.Error{Status: http.StatusServiceUnavailable, Code: "overloaded", After: time.Second, Message: "The gateway holds as many request bodies as it may. Try again."}
}

func errLeft() *openai.Error {
	return &openai.Error{Status: statusClientClosed, Code: "client_closed_request", Message: "The client closed its side of the connection before the answer."}
}

func errNoFlush() *openai.Error {
	return &openai.Error{Status: http.StatusInternalServerError, Code: "streaming_unsupported", Final: true, Message: "This server cannot stream: its middleware hides Flush."}
}

func errShutdown() *openai.Error {
	return &openai.Error{Status: http.StatusServiceUnavailable, Code: "shutting_down", After: time.Second, Message: "The gateway is shutting down. Try again."}
}

func errModel(name string) *openai.Error {
	const most = 128
	if len(name) > most {
		name = name[:most]
	}
	if name == "" {
		return &openai.Error{Status: http.StatusBadRequest, Code: openai.CodeMissing, Param: "model", Message: "model must name a model; GET /v1/models lists them."}
	}
	msg := fmt.Sprintf("The model %q does not exist or you may not use it.", name)
	return &openai.Error{Status: http.StatusNotFound, Type: openai.TypeInvalidRequest, Code: openai.CodeModelNotFound, Param: "model", Message: msg}
}

func errField(param, want string) *openai.Error {
	return &openai.Error{Status: http.StatusBadRequest, Code: openai.CodeInvalidValue, Param: param, Message: param + " " + want + "."}
}

func errContext(param string, prompt, output, limit int) *openai.Error {
	return &openai.Error{
		Status: http.StatusBadRequest, Code: openai.CodeContextLength, Param: param,
		Message: fmt.Sprintf("This model's context is %d tokens; the prompt has %d and %d were asked for.", limit, prompt, output),
	}
}

func errNoReplica() *openai.Error {
	return &openai.Error{Status: http.StatusServiceUnavailable, Code: "no_replica", After: 5 * time.Second, Message: "No replica can serve this model at the moment."}
}

func errPoison() *openai.Error {
	return &openai.Error{Status: http.StatusBadGateway, Code: "request_crashes_engine", Final: true, Message: "This request was refused: replicas that got it went down, or were not heard of again."}
}

func errInternal() *openai.Error {
	return &openai.Error{Status: http.StatusInternalServerError, Code: "internal_error", Message: "The gateway failed to serve this request."}
}

func errUpstream(status int, message string) *openai.Error {
	return &openai.Error{Status: status, Code: "upstream_error", Message: message}
}
