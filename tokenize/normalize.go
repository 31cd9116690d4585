package tokenize

import (
	"strings"

	"github.com/expediterhq/expediter/tokenize/internal/nfc"
)

// normalStep is one step of a normalizer.
type normalStep struct {
	kind     normalKind
	from, to string // normalReplace: what by what; normalPrepend: to
}

type normalKind uint8

const (
	normalNFC normalKind = iota
	normalPrepend
	normalReplace
)

// normalBuffers is the scratch space of normalization.
type normalBuffers struct {
	bufs [2][]byte
	nfc  nfc.Buffer
}

// normalize applies steps to s. The result is s itself, or it lies in the
// buffers and is valid until their next use.
func (n *normalBuffers) normalize(steps []normalStep, s string) string {
	free := 0
	for _, step := range steps {
		if s == "" {
			break
		}
		buf := n.bufs[free][:0]
		switch step.kind {
		case normalNFC:
			if nfc.Quick(s) == len(s) {
				continue
			}
			buf = nfc.Append(buf, s, &n.nfc)
		case normalPrepend:
			buf = append(append(buf, step.to...), s...)
		case normalReplace:
			if !strings.Contains(s, step.from) {
				continue
			}
			buf = appendReplaced(buf, s, step.from, step.to)
		}
		n.bufs[free] = buf
		s = view(buf)
		free = 1 - free
	}
	return s
}

// appendReplaced appends s with every from in it replaced by to.
func appendReplaced(dst []byte, s, from, to string) []byte {
	for {
		i := strings.Index(s, from)
		if i < 0 {
			return append(dst, s...)
		}
		dst = append(dst, s[:i]...)
		dst = append(dst, to...)
		s = s[i+len(from):]
	}
}
