package quota_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/expediterhq/expediter/quota"
)

func TestUnavailableErrorKeepsItsCausePrivate(t *testing.T) {
	cause := errors.New("dial tcp 10.1.2.3:6379: connection refused")
	for _, tt := range []struct {
		err   *quota.UnavailableError
		after time.Duration
	}{
		{&quota.UnavailableError{Err: cause}, time.Second},
		{&quota.UnavailableError{After: 1500 * time.Millisecond, Err: cause}, 2 * time.Second},
		{&quota.UnavailableError{After: -time.Second}, time.Second},
	} {
		if !errors.Is(tt.err, quota.ErrUnavailable) {
			t.Errorf("%v is not ErrUnavailable", tt.err)
		}
		if errors.Is(tt.err, cause) != (tt.err.Err != nil) {
			t.Errorf("%v: its cause cannot be found", tt.err)
		}
		if strings.Contains(tt.err.Error(), "10.1.2.3") {
			t.Errorf("Error = %q tells the address", tt.err)
		}
		if got := tt.err.RetryAfter(); got != tt.after {
			t.Errorf("RetryAfter = %v, want %v", got, tt.after)
		}
	}
}

func TestUnavailableErrorTellsTheLogItsCause(t *testing.T) {
	for _, tt := range []struct {
		cause error
		want  string
	}{
		{errors.New("dial tcp 10.1.2.3:6379: connection refused"), "quota: store unavailable: dial tcp 10.1.2.3:6379: connection refused"},
		{nil, "quota: store unavailable"},
	} {
		if got := (&quota.UnavailableError{Err: tt.cause}).LogValue().String(); got != tt.want {
			t.Errorf("LogValue = %q, want %q", got, tt.want)
		}
	}
}

func TestVerdictString(t *testing.T) {
	seen := map[string]bool{}
	for v := quota.OK; v <= quota.Bad+1; v++ {
		if s := v.String(); s == "" || seen[s] {
			t.Errorf("verdict %d is called %q", uint8(v), s)
		} else {
			seen[s] = true
		}
	}
}
