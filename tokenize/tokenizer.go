package tokenize

// Tokenizer turns text into token ids.
//
// Append appends the ids of text to dst and returns the extended slice. It
// does not keep text or dst. On an error the returned slice is dst with an
// unspecified number of ids appended. Implementations are safe for concurrent
// use, and equal texts always give equal ids.
type Tokenizer interface {
	Append(dst []uint32, text string) ([]uint32, error)
}
