package vllm

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/expediterhq/expediter/tokenize/chat"
)

// comparison is one round of probes with one replica.
type comparison struct {
	*Parity
	base   string
	routes routes

	verdict  Verdict
	probe    string // that differs, or that was not answered
	position int
	err      error // why the verdict is Unknown
}

var errNothing = errors.New("vllm: there was nothing to compare")

// outcome is what one probe showed.
type outcome uint8

const (
	same outcome = iota
	different
	void // nothing was compared; not the replica's fault
	dumb // the replica did not answer
)

// run asks for one probe after the other until one decides.
func (c *comparison) run(ctx context.Context) {
	any := false
	c.err = errNothing
	for _, pr := range probes() {
		out, position, err := c.try(ctx, &pr)
		if out == different { // perhaps a date that has just changed
			out, position, err = c.try(ctx, &pr)
		}
		switch out {
		case different:
			c.verdict, c.probe, c.position, c.err = Differs, pr.name, position, nil
			return
		case same:
			any = true
		case dumb:
			if c.probe == "" {
				c.probe, c.err = pr.name, err
			}
			if !answered(err) { // nor will it answer the rest
				return
			}
		}
	}
	if any && c.probe == "" {
		c.verdict, c.err = Agrees, nil
	}
}

// try compares the ids of one probe.
func (c *comparison) try(ctx context.Context, pr *probe) (out outcome, position int, err error) {
	now := time.Now()
	ours, refused, err := pr.encode(c.cfg.Encoder, now)
	if err != nil {
		return void, 0, nil // nor can the pool serve it
	}
	theirs, from, err := c.ask(ctx, pr)
	switch {
	case err != nil && refused && answered(err):
		return void, 0, nil // they refuse it, too, with a 400 or, in a template that fails, a 500
	case err != nil:
		return dumb, 0, err
	case from == pathTokenize && pr.tools != "" && c.withoutTools(pr, theirs, now):
		return void, 0, nil // an engine whose /tokenize knows no tools
	case refused:
		return different, -1, nil
	case slices.Equal(ours, theirs):
		return same, 0, nil
	}
	return different, firstDifference(ours, theirs), nil
}

// withoutTools reports whether ids are those of the conversation without its
// tools.
func (c *comparison) withoutTools(pr *probe, ids []uint32, now time.Time) bool {
	bare := *pr
	bare.tools = ""
	plain, refused, err := bare.encode(c.cfg.Encoder, now)
	if err != nil || refused || !slices.Equal(plain, ids) {
		return false
	}
	with, refused, err := pr.encode(c.cfg.Encoder, now)
	return err == nil && (refused || !slices.Equal(with, plain))
}

// encode returns the Encoder's ids, or that its template refuses the
// conversation.
func (pr *probe) encode(e Encoder, now time.Time) (ids []uint32, refused bool, err error) {
	if pr.messages == "" {
		ids, err = e.AppendPrompt(nil, pr.prompt)
		return ids, false, err
	}
	ids, err = e.AppendChat(nil, chat.Input{
		Messages: json.RawMessage(pr.messages), Tools: json.RawMessage(pr.tools), Now: now,
	})
	var no *chat.Error
	if errors.As(err, &no) && !no.Limited() {
		return nil, true, nil
	}
	return ids, false, err
}

// firstDifference returns the first index at which a and b, which differ, do
// so.
func firstDifference(a, b []uint32) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
