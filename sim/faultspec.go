package sim

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// ParseFaults turns a line of text into a chooser for Server.SetFault, for
// flags and scripts. Rules are separated by semicolons; the first that matches
// a request is applied:
//
//	WHEN:WHAT[@PHASE][+PAUSE]
//
// WHEN is all, every=N (each N-th request), rate=P (a share P of them, always
// the same ones) or marker=TEXT (the body contains TEXT). WHAT is an [Action]:
//
//	reset, hangup, stall, finish, die, none    of that name; none is Nothing
//	hang          Wedge
//	error         ErrorEvent
//	done          BareDone
//	status=CODE   Answer with a vLLM error of that status
//
// PHASE is headers, request, head, token=N or end; if missing, request. Error,
// done and finish need head, token or end, status headers or request. PAUSE is
// a duration waited before. For example:
//
//	marker=poison:die; rate=0.01:reset@token=5; every=10:none+2s
func ParseFaults(spec string) (func(*Arrival) *Fault, error) {
	type rule struct {
		when  func(*Arrival) bool
		fault Fault
	}
	var rules []rule
	for text := range strings.SplitSeq(spec, ";") {
		text = strings.TrimSpace(text)
		if text == "" {
			continue
		}
		when, what, ok := strings.Cut(text, ":")
		if !ok {
			return nil, fmt.Errorf("sim: fault %q: want WHEN:WHAT, such as all:reset", text)
		}
		match, err := parseWhen(strings.TrimSpace(when))
		if err != nil {
			return nil, fmt.Errorf("sim: fault %q: %w", text, err)
		}
		f, err := parseWhat(strings.TrimSpace(what))
		if err != nil {
			return nil, fmt.Errorf("sim: fault %q: %w", text, err)
		}
		rules = append(rules, rule{match, f})
	}
	return func(a *Arrival) *Fault {
		for i := range rules {
			if rules[i].when(a) {
				return &rules[i].fault
			}
		}
		return nil
	}, nil
}

func parseWhen(s string) (func(*Arrival) bool, error) {
	name, arg, _ := strings.Cut(s, "=")
	switch name {
	case "all":
		return func(*Arrival) bool { return true }, nil
	case "every":
		n, err := strconv.Atoi(arg)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("every is %q, want a number from 1", arg)
		}
		return func(a *Arrival) bool { return a.N%n == n-1 }, nil
	case "rate":
		p, err := strconv.ParseFloat(arg, 64)
		if err != nil || !(p >= 0 && p <= 1) {
			return nil, fmt.Errorf("rate is %q, want a share from 0 to 1", arg)
		}
		return func(a *Arrival) bool { return float64(mix64(uint64(a.N)+1)>>11)/(1<<53) < p }, nil
	case "marker":
		if arg == "" {
			return nil, fmt.Errorf("marker is empty")
		}
		return func(a *Arrival) bool { return bytes.Contains(a.Body(), []byte(arg)) }, nil
	}
	return nil, fmt.Errorf("%q is no condition, want all, every=N, rate=P or marker=TEXT", name)
}

func parseWhat(s string) (Fault, error) {
	f := Fault{At: AtRequest}
	s, pause, ok := strings.Cut(s, "+")
	if ok {
		d, err := time.ParseDuration(pause)
		if err != nil || d < 0 {
			return f, fmt.Errorf("pause is %q, want a duration", pause)
		}
		f.Pause = d
	}
	what, phase, ok := strings.Cut(s, "@")
	if ok {
		if err := f.parsePhase(phase); err != nil {
			return f, err
		}
	}
	name, arg, _ := strings.Cut(what, "=")
	actions := map[string]Action{
		"none": Nothing, "reset": Reset, "hangup": Hangup, "stall": Stall, "finish": Finish, "error": ErrorEvent,
		"done": BareDone, "die": Die, "hang": Wedge, "status": Answer,
	}
	do, ok := actions[name]
	if !ok {
		return f, fmt.Errorf("%q is no action, want reset, hangup, stall, finish, error, done, die, hang, none or status=CODE", name)
	}
	f.Do = do
	if do == Answer {
		code, err := strconv.Atoi(arg)
		if err != nil || code < 200 || code > 599 {
			return f, fmt.Errorf("status is %q, want 200 to 599", arg)
		}
		f.Status = code
		f.Header = http.Header{"Content-Type": {"application/json"}}
		f.Body = (&apiError{code, "InternalServerError", "", "injected fault"}).append(nil)
	}
	if f.At <= AtRequest && (do == ErrorEvent || do == BareDone || do == Finish) {
		return f, fmt.Errorf("%s needs a stream: want a phase of head, token or end", name)
	}
	if f.At > AtRequest && do == Answer {
		return f, fmt.Errorf("a status is sent at headers or request, not later")
	}
	return f, nil
}

func (f *Fault) parsePhase(s string) error {
	name, arg, _ := strings.Cut(s, "=")
	phases := map[string]Phase{"headers": AtHeaders, "request": AtRequest, "head": AtHead, "token": AtToken, "end": AtDone}
	p, ok := phases[name]
	if !ok {
		return fmt.Errorf("%q is no phase, want headers, request, head, token=N or end", name)
	}
	f.At = p
	if p == AtToken {
		n, err := strconv.Atoi(arg)
		if err != nil || n < 0 {
			return fmt.Errorf("token is %q, want a number", arg)
		}
		f.Tokens = n
	}
	return nil
}
