package faultbench

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/expediterhq/expediter"
	"github.com/expediterhq/expediter/registry"
)

// restWithin is how long a gateway may take to come to rest, generously: the
// machine may be busy with other things.
const restWithin = 20 * time.Second

// Eventually waits until ok is true.
func (h *House) Eventually(what string, ok func() bool) {
	h.T.Helper()
	if !eventually(restWithin, ok) {
		h.T.Errorf("timed out waiting for %s", what)
	}
}

func eventually(limit time.Duration, ok func() bool) bool {
	end := time.Now().Add(limit)
	for !ok() {
		if time.Now().After(end) {
			return ok()
		}
		wait := time.NewTimer(2 * time.Millisecond)
		<-wait.C
	}
	return true
}

// Close ends the gateway and checks what must always be true.
func (h *House) Close() {
	h.closed.Do(func() {
		h.T.Helper()
		h.Check()
		_ = h.server.Close()
		<-h.served
		if err := h.Handler.Close(); err != nil {
			h.T.Errorf("Close = %v", err)
		}
		close(h.samples)
		h.sampled.Wait()
		h.Client.CloseIdleConnections()
		for _, r := range h.Replicas {
			r.Stop()
		}
		h.checkLeaks()
	})
}

// Check waits until nobody is served any more and checks what must always be
// true then; the leaks of the process are left to Close.
func (h *House) Check() {
	h.T.Helper()
	h.checkRest()
	recs := h.Records()
	h.checkRecords(recs)
	h.checkLedger(recs)
	h.checkSecrets(recs)
}

// checkRest: everything is given back, and nothing was ever negative.
func (h *House) checkRest() {
	h.T.Helper()
	h.Eventually("the gateway to come to rest", func() bool {
		if h.Handler.InFlight() != 0 {
			return false
		}
		for _, r := range h.Replicas {
			if r.Running() != 0 {
				return false
			}
		}
		return true
	})
	for _, m := range h.Members {
		if l := m.Load(); l != (registry.Load{}) {
			h.T.Errorf("replica %s at rest: load = %+v, want none", m.Name(), l)
		}
	}
	for name, s := range h.Handler.Lines() {
		if s.Waiting != 0 || s.WaitingTokens != 0 {
			h.T.Errorf("line of %s at rest: %d waiting with %d tokens, want none", name, s.Waiting, s.WaitingTokens)
		}
	}
	b, err := h.Quota.Balance(context.Background(), h.Tenant.ID)
	h.must(err)
	if b.Running != 0 || b.Reserved != 0 {
		h.T.Errorf("quota at rest: %d slots and %d tokens reserved, want none", b.Running, b.Reserved)
	}
	if n := h.negative.Load(); n > 0 {
		h.T.Errorf("a load was negative in %d samples", n)
	}
}

// checkRecords: one record for each accepted request, with a final status,
// and charges as in the quota store.
func (h *House) checkRecords(recs []expediter.Record) {
	h.T.Helper()
	refused := h.refused.Load() - h.others.Load()
	if got, want := int64(len(recs))+refused, h.posts.Load(); got != want {
		h.report("%d records and %d refusals for %d requests", len(recs), refused, want)
	}
	var charged int64
	ids := make(map[string]bool, len(recs))
	for i := range recs {
		r := &recs[i]
		if ids[r.ID] {
			h.report("request %s has two records", r.ID)
		}
		ids[r.ID] = true
		charged += r.Charged
		if r.Status == "" || r.Charged < 0 || r.Output < 0 || r.Input < 0 {
			h.report("record without a final state, or below zero: %+v", *r)
		}
		if r.Charged != 0 && r.Charged != int64(r.Input+r.Output) {
			h.report("record charges %d, want 0 or %d: %+v", r.Charged, r.Input+r.Output, *r)
		}
	}
	b, err := h.Quota.Balance(context.Background(), h.Tenant.ID)
	h.must(err)
	if charged != b.Charged {
		h.report("records charge %d tokens, the quota store %d", charged, b.Charged)
	}
}

// checkLedger: attempts and tokens are those of the replicas' ledger, and
// nothing was tried again after a token.
func (h *House) checkLedger(recs []expediter.Record) {
	h.T.Helper()
	ledger := h.Ledger.ByID()
	attempts := 0
	for i := range recs {
		r := &recs[i]
		got := ledger[r.ID]
		attempts += r.Attempts
		if len(got) > r.Attempts || len(got) < r.Attempts && !h.options.Unseen {
			h.report("%d attempts counted, %d in the ledgers: %+v", r.Attempts, len(got), *r)
		}
		for j, g := range got {
			if j < len(got)-1 && g.Tokens > 0 && g.Ask.Stream && !h.options.Loose && !h.options.Racing {
				h.report("request %s was tried again after %d tokens of %s", r.ID, g.Tokens, g.Replica)
			}
		}
		delete(ledger, r.ID)
		if h.options.Loose || len(got) == 0 {
			continue
		}
		sent := got[len(got)-1].Tokens
		if r.Output > sent || r.Status == expediter.StatusOK && r.Output != sent {
			h.report("the record says %d tokens, the ledger %d: %+v", r.Output, sent, *r)
		}
	}
	for id, got := range ledger {
		h.report("replica %s got a request %q that has no record: %.300s", got[0].Replica, id, got[0].Raw)
	}
}

// report is Errorf, but not a thousand times for one mistake.
func (h *House) report(format string, args ...any) {
	h.T.Helper()
	const most = 10
	if h.reports++; h.reports <= most {
		h.T.Errorf(format, args...)
	}
}

// checkSecrets: no key and no text of a request in any output.
func (h *House) checkSecrets(recs []expediter.Record) {
	h.T.Helper()
	var lines []byte
	for i := range recs {
		lines = fmt.Appendf(lines, "%+v\n", recs[i])
	}
	for where, text := range map[string]string{"log": h.Logs.String(), "metrics": h.Scrape(), "records": string(lines)} {
		h.NoSecrets(where, text)
	}
}

// NoSecrets checks a text that must hold no key, prompt or completion.
func (h *House) NoSecrets(where, text string) {
	h.T.Helper()
	for _, secret := range []string{h.Key, Prompt, strings.TrimSpace(Words), "nonce-"} {
		if i := strings.Index(text, secret); i >= 0 {
			h.T.Errorf("the %s holds %.8s…: …%s…", where, secret, text[max(i-200, 0):min(i+60, len(text))])
		}
	}
}

// checkLeaks: goroutines and file descriptors are back where they were.
func (h *House) checkLeaks() {
	h.T.Helper()
	const slack = 5
	if !eventually(restWithin, func() bool { return runtime.NumGoroutine() <= h.goroutines+slack }) {
		buf := make([]byte, 1<<20)
		h.T.Errorf("%d goroutines at the end, %d at the start:\n%s", runtime.NumGoroutine(), h.goroutines, buf[:runtime.Stack(buf, true)])
	}
	if !eventually(restWithin, func() bool { return openFiles() <= h.files+slack }) {
		h.T.Errorf("%d open files at the end, %d at the start", openFiles(), h.files)
	}
}
