package tokenize

import (
	"errors"
	"fmt"
)

// ErrInvalidUTF8 is returned for text that is not valid UTF-8. Such text has no
// token ids: engines refuse or rewrite it before they tokenize.
var ErrInvalidUTF8 = errors.New("tokenize: text is not valid UTF-8")

// ErrTooComplex is returned for text that a model's own split pattern takes too
// long to match: the work is bounded, so that no text can cost unbounded time.
// The patterns of the well-known model families never cause it.
var ErrTooComplex = errors.New("tokenize: text takes too many steps to split")

// ErrTooLong is what every *LimitError is, for use with errors.Is.
var ErrTooLong = errors.New("tokenize: text is too long")

// LimitError reports text that exceeds a limit given in Options.
type LimitError struct {
	Unit string // "bytes" or "tokens"
	Max  int    // the limit exceeded
}

// Error describes the error.
func (e *LimitError) Error() string {
	return fmt.Sprintf("tokenize: text has more than %d %s", e.Max, e.Unit)
}

// Is reports whether target is ErrTooLong.
func (e *LimitError) Is(target error) bool { return target == ErrTooLong }

// UnsupportedError reports that a model needs something this package does not
// implement. The model is refused as a whole: its ids would be wrong.
type UnsupportedError struct {
	Where   string // part of the file, such as "pre_tokenizer"
	Feature string // what was found there
}

// Error describes the error.
func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("tokenize: %s: %s is not supported", e.Where, e.Feature)
}

// FormatError reports a tokenizer file that is malformed or inconsistent.
type FormatError struct {
	Where string // part of the file, such as "model.merges"
	Cause error
}

// Error describes the error.
func (e *FormatError) Error() string { return fmt.Sprintf("tokenize: %s: %v", e.Where, e.Cause) }

// Unwrap returns the cause.
func (e *FormatError) Unwrap() error { return e.Cause }

func malformed(where, format string, args ...any) error {
	return &FormatError{where, fmt.Errorf(format, args...)}
}
