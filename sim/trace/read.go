package trace

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/expediterhq/expediter/sim/fleet"
)

// Options say what to make of a file.
type Options struct {
	Lenient   bool    // bad rows are left out and counted, instead of refused
	MaxPrompt int     // rows with a longer prompt are left out and counted; if zero, none
	Rows      int     // rows read at most, bad ones included; if zero, all
	Rate      float64 // arrivals per second where the file has no times; if zero, 1
	Seed      uint64  // of arrivals that are made up
}

// Result is a trace and what was left out of it.
type Result struct {
	*fleet.Trace
	Format  string // "native", "mooncake", "csv", "lengths" or "sessions"
	Bad     int    // rows left out because they make no sense
	Long    int    // rows left out because of MaxPrompt
	Example error  // the first bad row
}

// RowError says what is wrong with a row.
type RowError struct {
	File string
	Line int
	Err  error
}

func (e *RowError) Error() string { return fmt.Sprintf("trace: %s:%d: %v", e.File, e.Line, e.Err) }

// Unwrap returns what is wrong.
func (e *RowError) Unwrap() error { return e.Err }

const (
	maxLine    = 16 << 20 // bytes
	maxTokens  = 1 << 23  // of one prompt or output
	maxSeconds = 10 * 365 * 24 * 3600
	maxContent = 1 << 20 // entries of one request
)

// Open reads a file.
func Open(path string, o Options) (*Result, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	defer f.Close()
	return Read(f, filepath.Base(path), o)
}

// Read reads a trace; name is for errors.
func Read(r io.Reader, name string, o Options) (*Result, error) {
	if o.Rate == 0 {
		o.Rate = 1
	}
	if !(o.Rate > 0) || o.Rows < 0 || o.MaxPrompt < 0 {
		return nil, fmt.Errorf("trace: rate %v, rows %d, max prompt %d: want none negative", o.Rate, o.Rows, o.MaxPrompt)
	}
	br := bufio.NewReader(r)
	if magic, _ := br.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		zr, err := gzip.NewReader(br)
		if err != nil {
			return nil, fmt.Errorf("trace: %s: %w", name, err)
		}
		br = bufio.NewReader(zr)
	}
	p := &parser{o: o, name: name, rnd: rand.New(rand.NewPCG(o.Seed, 0x7ace)), out: &Result{Trace: &fleet.Trace{}}}
	sc := bufio.NewScanner(br)
	sc.Buffer(make([]byte, 64<<10), maxLine)
	for sc.Scan() {
		p.line++
		if err := p.row(strings.TrimRight(sc.Text(), "\r")); err != nil {
			return nil, err
		}
		if o.Rows > 0 && p.rows == o.Rows {
			break
		}
	}
	if err := sc.Err(); err != nil {
		return nil, &RowError{name, p.line + 1, err}
	}
	if p.format == nil {
		return nil, fmt.Errorf("trace: %s is empty", name)
	}
	p.finish()
	if err := p.out.Validate(); err != nil {
		return nil, fmt.Errorf("trace: %s: %w", name, err)
	}
	return p.out, nil
}

// parser is one file being read.
type parser struct {
	o      Options
	name   string
	rnd    *rand.Rand
	line   int
	rows   int
	format format
	out    *Result
	last   time.Duration // of the latest row that waits for no other
}

// format reads the rows of one kind of file.
type format interface {
	// row turns a line into a request.
	row(line string) (fleet.Request, error)
	// accepted is told that the request got place i in the trace.
	accepted(i int)
	// finish completes the trace.
	finish(p *parser)
}

// row reads one line; the first one tells the format.
func (p *parser) row(line string) error {
	if p.format == nil {
		f, name, header, err := p.detect(line)
		if err != nil {
			return &RowError{p.name, p.line, err}
		}
		p.format, p.out.Format = f, name
		if header {
			return nil
		}
	}
	p.rows++
	r, err := p.format.row(line)
	if err == nil {
		err = p.check(&r)
	}
	if err == nil {
		if r.After == 0 {
			p.last = r.At
		}
		if p.o.MaxPrompt > 0 && r.Prompt > p.o.MaxPrompt {
			p.out.Long++
			return nil
		}
		p.out.Requests = append(p.out.Requests, r)
		p.format.accepted(len(p.out.Requests) - 1)
		return nil
	}
	bad := &RowError{p.name, p.line, err}
	if !p.o.Lenient {
		return bad
	}
	p.out.Bad++
	if p.out.Example == nil {
		p.out.Example = bad
	}
	return nil
}

// check refuses rows that make no sense.
func (p *parser) check(r *fleet.Request) error {
	switch {
	case r.Prompt < 1 || r.Prompt > maxTokens:
		return fmt.Errorf("prompt is %d tokens, want 1 to %d", r.Prompt, maxTokens)
	case r.Output < 1 || r.Output > maxTokens:
		return fmt.Errorf("output is %d tokens, want 1 to %d", r.Output, maxTokens)
	case r.MaxTokens != 0 && r.MaxTokens < r.Output:
		return fmt.Errorf("max tokens is %d, less than the output of %d", r.MaxTokens, r.Output)
	case r.After < 0 || r.After > len(p.out.Requests):
		return fmt.Errorf("after is %d, want the number of a request before it", r.After)
	case r.After == 0 && r.At < p.last:
		return fmt.Errorf("time %v is before that of the row ahead, %v", r.At, p.last)
	case len(r.Content) > maxContent:
		return fmt.Errorf("content has %d entries, want at most %d", len(r.Content), maxContent)
	}
	return nil
}

func (p *parser) finish() { p.format.finish(p) }

// seconds turns a time of a file into a duration.
func seconds(s float64) (time.Duration, error) {
	if !(s >= 0 && s <= maxSeconds) {
		return 0, fmt.Errorf("time is %v s, want 0 to %d", s, maxSeconds)
	}
	return time.Duration(s * float64(time.Second)), nil
}
