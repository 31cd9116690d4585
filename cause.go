package expediter

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"

	"github.com/expediterhq/expediter/internal/h1"
	"github.com/expediterhq/expediter/sse"
	"github.com/expediterhq/expediter/vllm"
)

// known are errors whose text is fixed.
var known = [...]error{
	errNoFirstToken, errSilence, errStandsStill, io.EOF, io.ErrUnexpectedEOF, context.Canceled, context.DeadlineExceeded,
	vllm.ErrAddress, vllm.ErrChunkSyntax, vllm.ErrChunkObject, vllm.ErrChunkDepth, h1.ErrFraming,
}

// plain says for the log why an attempt failed. What a replica sends can hold
// prompts and completions, and an error may quote it: only texts that cannot
// are told, of any other error its type.
func plain(err error) string {
	var op *net.OpError
	var engine *vllm.Error
	var large *sse.TooLargeError
	var unverified *tls.CertificateVerificationError // what certificates say came before any request
	var alert tls.AlertError
	var file *vllm.FileError
	var head *h1.HeadError
	switch {
	case errors.As(err, &unverified):
		return unverified.Error()
	case errors.As(err, &alert):
		return "TLS: the replica answered " + alert.Error()
	case errors.As(err, &file):
		return file.Error()
	case errors.As(err, &op):
		return op.Error()
	case errors.As(err, &engine):
		return "the engine answered status " + strconv.Itoa(engine.Status)
	case errors.As(err, &large):
		return large.Error()
	case errors.As(err, &head) && head.Malformed:
		return "the head of the answer is not HTTP, or too large"
	}
	for _, e := range known {
		if errors.Is(err, e) {
			return e.Error()
		}
	}
	return fmt.Sprintf("%T", err)
}
