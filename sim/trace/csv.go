package trace

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/expediterhq/expediter/sim/fleet"
)

const sessionsHeader = "session\tagent\tt_s\tthink_s\tinput_tokens\toutput_tokens\tapi_s\tblocks64"

// What the first line of a file may be, by how it looks.
var (
	errCSV = errors.New("the first line tells no format: want a JSON object, a header of t_s,input_tokens,output_tokens, " +
		"t_s,tenant,input_tokens,output_tokens or input_tokens,output_tokens, or a row of time,input,output")
	errJSON = errors.New(`the first object tells no format: want "t" or "block" as in the native format, or "timestamp" as in Mooncake's`)
	errTabs = fmt.Errorf("the first line tells no format: with tabs, want sessions with the header %q", sessionsHeader)
)

// simple is what formats have in common that need nothing special.
type simple struct{}

func (simple) accepted(int)   {}
func (simple) finish(*parser) {}

// detect tells the format from the first line; header says that it is no row.
func (p *parser) detect(line string) (f format, name string, header bool, err error) {
	if strings.HasPrefix(line, "{") {
		return p.detectJSON(line)
	}
	if strings.Contains(line, "\t") {
		if !strings.HasPrefix(line, sessionsHeader) {
			return nil, "", false, errTabs
		}
		p.out.Block = 64
		return newSessions(p), "sessions", true, nil
	}
	switch cols := strings.Split(line, ","); {
	case line == "input_tokens,output_tokens":
		return &lengths{p: p}, "lengths", true, nil
	case line == "t_s,input_tokens,output_tokens":
		return csv{tenant: -1, input: 1, output: 2}, "csv", true, nil
	case line == "t_s,tenant,input_tokens,output_tokens":
		return csv{tenant: 1, input: 2, output: 3}, "csv", true, nil
	case len(cols) == 3:
		if _, err := strconv.ParseFloat(cols[0], 64); err == nil {
			return csv{tenant: -1, input: 1, output: 2}, "csv", false, nil
		}
	}
	return nil, "", false, errCSV
}

func (p *parser) detectJSON(line string) (format, string, bool, error) {
	var keys map[string]any
	if err := decode(line, &keys); err != nil {
		return nil, "", false, err
	}
	if _, ok := keys["timestamp"]; ok {
		p.out.Block = 512
		return mooncake{}, "mooncake", false, nil
	}
	if b, ok := keys["block"]; ok {
		n, _ := b.(float64)
		if n < 1 || n > maxTokens || n != float64(int(n)) {
			return nil, "", false, fmt.Errorf("block is %v, want a number of tokens", b)
		}
		p.out.Block = int(n)
		return native{}, "native", true, nil
	}
	if _, ok := keys["t"]; ok {
		return native{}, "native", false, nil
	}
	return nil, "", false, errJSON
}

// csv has a time, and may have a tenant, in front of two lengths.
type csv struct {
	simple
	tenant, input, output int // columns; tenant -1 = none
}

func (c csv) row(line string) (r fleet.Request, err error) {
	cols := strings.Split(line, ",")
	if len(cols) != c.output+1 {
		return r, fmt.Errorf("row has %d columns, want %d", len(cols), c.output+1)
	}
	t, err := strconv.ParseFloat(cols[0], 64)
	if err != nil {
		return r, fmt.Errorf("time is %q, want seconds", cols[0])
	}
	if r.At, err = seconds(t); err != nil {
		return r, err
	}
	if c.tenant > 0 {
		r.Tenant = cols[c.tenant]
	}
	r.Prompt, r.Output, err = pair(cols[c.input], cols[c.output])
	return r, err
}

func pair(in, out string) (prompt, output int, err error) {
	if prompt, err = strconv.Atoi(in); err != nil {
		return 0, 0, fmt.Errorf("input tokens are %q, want a number", in)
	}
	if output, err = strconv.Atoi(out); err != nil {
		return 0, 0, fmt.Errorf("output tokens are %q, want a number", out)
	}
	return prompt, output, nil
}

// lengths has no times: they are made up.
type lengths struct {
	simple
	p  *parser
	at float64
}

func (l *lengths) row(line string) (r fleet.Request, err error) {
	in, out, ok := strings.Cut(line, ",")
	if !ok {
		return r, fmt.Errorf("row has one column, want 2")
	}
	l.at += l.p.rnd.ExpFloat64() / l.p.o.Rate
	r.At = time.Duration(l.at * float64(time.Second))
	r.Prompt, r.Output, err = pair(in, out)
	return r, err
}
