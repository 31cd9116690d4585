package metrics

import (
	"strconv"
	"unicode/utf8"

	"github.com/expediterhq/expediter"
)

// maxNames bounds each list of Names.
const maxNames = 1000

const (
	other = "other" // a value outside the closed set
	none  = "none"  // no value
)

// Names are the values that labels may take. Of each list the first 1,000
// are used.
type Names struct {
	Pools  []string // as in expediter.Pool
	Models []string // names that clients may ask for

	// Tenants are those with series of their own. If empty at New, there are
	// no metrics by tenant at all.
	Tenants []string
}

// nameSet is a closed set of label values.
type nameSet map[string]struct{}

func newNameSet(names []string) nameSet {
	s := make(nameSet, len(names))
	for _, n := range names[:min(len(names), maxNames)] {
		if utf8.ValidString(n) { // what Prometheus demands of a label
			s[n] = struct{}{}
		}
	}
	return s
}

func (s nameSet) label(name string) string {
	if name == "" {
		return none
	}
	if _, ok := s[name]; ok {
		return name
	}
	return other
}

func endpointLabel(e string) string {
	switch e {
	case "chat", "completions":
		return e
	}
	return other
}

func statusLabel(s expediter.Status) string {
	switch s {
	case expediter.StatusOK, expediter.StatusRefused, expediter.StatusCancelled, expediter.StatusTruncated,
		expediter.StatusFailed, expediter.StatusStalled, expediter.StatusPanicked:
		return string(s)
	}
	return other
}

// codeSet holds the HTTP statuses that a gateway or an engine sends, as
// labels.
type codeSet map[int]string

func newCodeSet() codeSet {
	s := make(codeSet)
	for _, code := range []int{200, 400, 401, 403, 404, 405, 408, 409, 413, 415, 422, 429, 431, 499, 500, 501, 502, 503, 504} {
		s[code] = strconv.Itoa(code)
	}
	return s
}

func (s codeSet) label(code int) string {
	if l, ok := s[code]; ok {
		return l
	}
	return other
}
