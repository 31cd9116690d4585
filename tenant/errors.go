package tenant

import (
	"errors"
	"fmt"
	"time"
)

// ErrUnauthorized is the one answer to every request without a valid key:
// none, malformed, unknown, expired, or of a disabled tenant. Which of them
// it was is not told, not even inside the gateway.
var ErrUnauthorized = errors.New("tenant: no valid API key")

// TooManyError says that an address has failed too often. It is also an
// ErrUnauthorized, so whoever does not look for it answers as to any other
// bad key.
type TooManyError struct {
	After time.Duration // how long to wait
}

// Error says when to try again.
func (e *TooManyError) Error() string {
	return fmt.Sprintf("tenant: too many failed attempts, retry after %v", e.RetryAfter())
}

// Unwrap returns ErrUnauthorized.
func (e *TooManyError) Unwrap() error { return ErrUnauthorized }

// RetryAfter returns After rounded up to whole seconds, at least one.
func (e *TooManyError) RetryAfter() time.Duration {
	return max(time.Second, (e.After + time.Second - 1).Truncate(time.Second))
}
