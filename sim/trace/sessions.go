package trace

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/expediterhq/expediter/sim/fleet"
)

// sessions are agents at work: each row waits for the answer to the one before
// of the same agent.
type sessions struct {
	p       *parser
	starts  map[string]time.Duration // of each session
	next    float64                  // when the latest session began, in seconds
	agents  map[string]int           // 1 + the place of each agent's latest request
	session string                   // of the row that is being read
	agent   string
}

func newSessions(p *parser) *sessions {
	return &sessions{p: p, starts: map[string]time.Duration{}, agents: map[string]int{}}
}

func (s *sessions) row(line string) (r fleet.Request, err error) {
	cols := strings.Split(line, "\t")
	if len(cols) != 8 {
		return r, fmt.Errorf("row has %d columns, want 8", len(cols))
	}
	s.session, s.agent = cols[0], cols[0]+"\t"+cols[1]
	start, ok := s.starts[s.session]
	if !ok {
		s.next += s.p.rnd.ExpFloat64() / s.p.o.Rate
		start = time.Duration(s.next * float64(time.Second))
		s.starts[s.session] = start
	}
	column, offset := cols[2], start
	if r.After = s.agents[s.agent]; r.After > 0 {
		column, offset = cols[3], 0
	}
	t, err := strconv.ParseFloat(column, 64)
	if err != nil {
		return r, fmt.Errorf("time is %q, want seconds", column)
	}
	at, err := seconds(t)
	if err != nil {
		return r, err
	}
	r.At = offset + at
	s.p.last = 0 // sessions overlap: their order is made at the end
	r.Tenant = "session-" + s.session
	if r.Prompt, r.Output, err = pair(cols[4], cols[5]); err != nil {
		return r, err
	}
	r.Content, err = blockRuns(cols[7], s.session)
	return r, err
}

func (s *sessions) accepted(i int) { s.agents[s.agent] = i + 1 }

// blockRuns reads block numbers such as 1-1112;1200;1300-1310, which mean
// something only inside their session.
func blockRuns(text, session string) ([]uint64, error) {
	if text == "" {
		return nil, nil
	}
	h := uint64(14695981039346656037)
	for i := range len(session) {
		h = (h ^ uint64(session[i])) * 1099511628211
	}
	var out []uint64
	for run := range strings.SplitSeq(text, ";") {
		a, b, ok := strings.Cut(run, "-")
		if !ok {
			b = a
		}
		first, err1 := strconv.ParseUint(a, 10, 40)
		last, err2 := strconv.ParseUint(b, 10, 40)
		if err1 != nil || err2 != nil || last < first || last-first > maxContent || len(out) > maxContent {
			return nil, fmt.Errorf("block run is %q, want numbers such as 3-7", run)
		}
		for id := first; id <= last; id++ {
			out = append(out, h+id*0x9e3779b97f4a7c15)
		}
	}
	return out, nil
}

// finish puts the sessions in order of time.
func (s *sessions) finish(p *parser) { p.out.Sort() }
