package expediter

import (
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"

	"github.com/expediterhq/expediter/internal/h1"
)

// TestPlain: the log says why an attempt failed, and nothing of what a replica
// sent.
func TestPlain(t *testing.T) {
	secret := errors.New(`malformed HTTP response "the prompt"`)
	for _, tt := range []struct {
		err  error
		want string
	}{
		{&h1.HeadError{Begun: true, Malformed: true, Err: secret}, "the head of the answer is not HTTP, or too large"},
		{&h1.HeadError{Begun: true, Err: io.ErrUnexpectedEOF}, "unexpected EOF"},
		{fmt.Errorf("%w: the prompt", h1.ErrFraming), h1.ErrFraming.Error()},
		{&net.OpError{Op: "dial", Net: "tcp", Err: syscall.EMFILE}, "dial tcp: " + syscall.EMFILE.Error()},
		{secret, "*errors.errorString"},
	} {
		if got := plain(tt.err); got != tt.want {
			t.Errorf("%v: %q, want %q", tt.err, got, tt.want)
		}
	}
}
