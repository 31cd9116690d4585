package usage

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/expediterhq/expediter"
)

// maxLine bounds one line of a usage file, in bytes.
const maxLine = 1 << 20

// Scanned says what Scan came across.
type Scanned struct {
	Records int // given to the function
	Torn    int // lines that break off: the process or the machine died while writing them
}

// Scan reads records in JSON form, one per line, and calls f with each until
// r ends or f returns an error. A line that breaks off, as the last one does
// when a writer was killed, is left out and counted; every other line that is
// not a record is an error naming its number. A last line that is whole but
// lacks its line end counts as a record.
func Scan(r io.Reader, f func(expediter.Record) error) (Scanned, error) {
	var s Scanned
	br := bufio.NewReaderSize(r, maxLine)
	for n := 1; ; n++ {
		line, err := br.ReadSlice('\n')
		if err != nil && err != io.EOF {
			if errors.Is(err, bufio.ErrBufferFull) {
				err = fmt.Errorf("longer than %d bytes", maxLine)
			}
			return s, fmt.Errorf("usage: line %d: %w", n, err)
		}
		// A crash of the machine may leave zeros where data was not written.
		line = bytes.TrimRight(bytes.Trim(line, "\r\n "), "\x00")
		if len(line) > 0 {
			if ferr := s.line(line, f); ferr != nil {
				return s, fmt.Errorf("usage: line %d: %w", n, ferr)
			}
		}
		if err == io.EOF {
			return s, nil
		}
	}
}

func (s *Scanned) line(line []byte, f func(expediter.Record) error) error {
	rec, err := Parse(line)
	if err != nil {
		if breaksOff(line) {
			s.Torn++
			return nil
		}
		return err
	}
	s.Records++
	return f(rec)
}

// breaksOff reports whether line is the beginning of an object: a JSON decoder
// finds nothing wrong with it except its end.
func breaksOff(line []byte) bool {
	var v json.RawMessage
	err := json.NewDecoder(bytes.NewReader(line)).Decode(&v)
	return line[0] == '{' && errors.Is(err, io.ErrUnexpectedEOF)
}
