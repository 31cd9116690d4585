package metrics_test

import (
	"fmt"
	"io"
	"maps"
	"math"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/expediterhq/expediter"
	"github.com/expediterhq/expediter/metrics"
)

// scrape returns the value of every series of the package's own metrics.
func scrape(t testing.TB, m *metrics.Metrics) map[string]string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	body, _ := io.ReadAll(w.Result().Body)
	if w.Code != 200 {
		t.Fatalf("scrape = %d %s", w.Code, body)
	}
	series := make(map[string]string)
	for line := range strings.Lines(string(body)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "} "); ok && strings.HasPrefix(line, "expediter_") {
			series[name+"}"] = value
		} else if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && strings.HasPrefix(line, "expediter_") {
			series[name] = value
		}
	}
	return series
}

func names() metrics.Names {
	return metrics.Names{Pools: []string{"p1", "p2"}, Models: []string{"llama", "sql"}}
}

func record() *expediter.Record {
	return &expediter.Record{
		Endpoint: "chat", Stream: true, Tenant: "acme", Model: "llama", Pool: "p1", Attempts: 2,
		Input: 1000, Cached: 600, Predicted: 640, Output: 50, Estimated: true, Reserved: 1500, Charged: 1050,
		QueueWait: 30 * time.Millisecond, TTFT: 150 * time.Millisecond, TPOT: 20 * time.Millisecond, Total: 2 * time.Second,
		Status: expediter.StatusOK, HTTPStatus: 200, Objective: expediter.Met,
	}
}

func TestWriteCountsARecord(t *testing.T) {
	n := names()
	n.Tenants = []string{"acme"}
	m := metrics.New(metrics.Config{Names: n, Version: "v1.2.3"})
	m.Write(record())
	m.Write(record())
	m.Refused(401)
	got := scrape(t, m)
	for series, want := range map[string]string{
		`expediter_requests_total{endpoint="chat",model="llama",pool="p1",status="ok",stream="true"}`: "2",
		`expediter_responses_total{code="200"}`:                                                       "2",
		`expediter_rejected_total{code="401"}`:                                                        "1",
		`expediter_attempts_total{pool="p1"}`:                                                         "4",
		`expediter_tokens_total{kind="input",model="llama",pool="p1"}`:                                "2000",
		`expediter_tokens_total{kind="cached",model="llama",pool="p1"}`:                               "1200",
		`expediter_tokens_total{kind="predicted",model="llama",pool="p1"}`:                            "1280",
		`expediter_tokens_total{kind="output",model="llama",pool="p1"}`:                               "100",
		`expediter_priced_tokens_total{kind="reserved",model="llama",pool="p1"}`:                      "3000",
		`expediter_priced_tokens_total{kind="charged",model="llama",pool="p1"}`:                       "2100",
		`expediter_estimated_total{model="llama",pool="p1"}`:                                          "2",
		`expediter_objective_total{model="llama",objective="met",pool="p1"}`:                          "2",
		`expediter_ttft_seconds_bucket{model="llama",pool="p1",le="0.1"}`:                             "0",
		`expediter_ttft_seconds_bucket{model="llama",pool="p1",le="0.2"}`:                             "2",
		`expediter_ttft_seconds_sum{model="llama",pool="p1"}`:                                         "0.3",
		`expediter_tpot_seconds_bucket{model="llama",pool="p1",le="0.015"}`:                           "0",
		`expediter_tpot_seconds_bucket{model="llama",pool="p1",le="0.02"}`:                            "2",
		`expediter_queue_wait_seconds_bucket{model="llama",pool="p1",le="0.025"}`:                     "0",
		`expediter_queue_wait_seconds_bucket{model="llama",pool="p1",le="0.05"}`:                      "2",
		`expediter_duration_seconds_sum{model="llama",pool="p1"}`:                                     "4",
		`expediter_tenant_requests_total{status="ok",tenant="acme"}`:                                  "2",
		`expediter_tenant_tokens_total{kind="charged",tenant="acme"}`:                                 "2100",
	} {
		if got[series] != want {
			t.Errorf("%s = %q, want %q", series, got[series], want)
		}
	}
	build := slices.IndexFunc(slices.Collect(maps.Keys(got)), func(s string) bool {
		return strings.HasPrefix(s, "expediter_build_info{goversion=") && strings.Contains(s, `version="v1.2.3"`)
	})
	if build < 0 {
		t.Error("no build_info of v1.2.3")
	}
}

func TestWriteLeavesOutWhatWasNot(t *testing.T) {
	m := metrics.New(metrics.Config{Names: names()})
	m.Write(&expediter.Record{Status: expediter.StatusRefused, HTTPStatus: 429})
	for s := range scrape(t, m) {
		for _, absent := range []string{"ttft", "tpot", "queue_wait", "estimated", "objective", "tenant"} {
			if strings.HasPrefix(s, "expediter_"+absent) {
				t.Errorf("series %s of a request that never ran", s)
			}
		}
	}
}

// Values no engine should report must neither panic nor take counters back.
func TestWriteOfNonsense(t *testing.T) {
	m := metrics.New(metrics.Config{Names: names()})
	m.Write(&expediter.Record{
		Pool: "p1", Model: "llama", Input: -5, Cached: math.MinInt, Output: -1, Attempts: -1, Reserved: math.MinInt64, Charged: -1,
		QueueWait: -1, TTFT: -1, TPOT: -1, Total: math.MinInt64, Status: "\xff", HTTPStatus: -1, Endpoint: "\n",
	})
	got := scrape(t, m)
	if v := got[`expediter_tokens_total{kind="input",model="llama",pool="p1"}`]; v != "0" {
		t.Errorf("input tokens = %q, want 0", v)
	}
	if v := got[`expediter_requests_total{endpoint="other",model="llama",pool="p1",status="other",stream="false"}`]; v != "1" {
		t.Errorf("requests = %q, want 1", v)
	}
}

// 100,000 names of every field a client can touch, and codes an engine might
// send, leave the number of series where a few hundred put it.
func TestSeriesStayConstantUnderJunk(t *testing.T) {
	n := names()
	n.Tenants = []string{"acme"}
	m := metrics.New(metrics.Config{Names: n})
	statuses := []expediter.Status{"ok", "refused", "client_cancelled", "truncated", "failed", "client_stalled", "panicked"}
	junk := func(i int) {
		name := fmt.Sprintf("junk-%d", i)
		r := record()
		r.Model, r.Served, r.ID, r.Adapter, r.Replica, r.FinishReason, r.Error = name, name, name, name, name, name, name
		r.Status = statuses[i%len(statuses)]
		r.Stream = i%2 == 0
		r.HTTPStatus = i % 1000
		switch i % 11 {
		case 0:
			r.Pool = name
		case 1:
			r.Endpoint = name
		case 2:
			r.Tenant = name
		case 3:
			r.Status = expediter.Status(name)
		case 4:
			r.Pool = ""
		}
		m.Write(r)
		m.Refused(i % 2000)
	}
	const all = 11 * 7 * 2000
	for i := range all {
		junk(i)
	}
	before := len(scrape(t, m))
	for i := range 100_000 {
		junk(all + i)
	}
	after := scrape(t, m)
	if len(after) != before {
		t.Errorf("%d series, then %d after 100,000 more names", before, len(after))
	}
	for s := range after {
		if strings.Contains(s, "junk") {
			t.Errorf("a client's name became a label: %s", s)
		}
	}
}

// A name that is no UTF-8 must not panic: it shares the label of the unknown.
func TestNamesThatAreNoText(t *testing.T) {
	m := metrics.New(metrics.Config{Names: metrics.Names{Pools: []string{"p\xff"}, Models: []string{"m\xff"}, Tenants: []string{"t\xff"}}})
	m.WatchSink("s\xff", fakeSink{1, 2, 3})
	m.Write(&expediter.Record{Pool: "p\xff", Model: "m\xff", Tenant: "t\xff", Estimated: true})
	got := scrape(t, m)
	if v := got[`expediter_estimated_total{model="other",pool="other"}`]; v != "1" {
		t.Errorf("estimated = %q, want 1", v)
	}
	if v := got["expediter_usage_waiting{sink=\"s\ufffd\"}"]; v != "3" {
		t.Errorf("waiting = %q, want 3", v)
	}
}

func TestSetNames(t *testing.T) {
	n := names()
	n.Tenants = []string{"acme", "beta"}
	m := metrics.New(metrics.Config{Names: n})
	for _, pool := range []string{"p1", "p2"} {
		for _, model := range []string{"llama", "sql"} {
			for _, tenant := range []string{"acme", "beta"} {
				r := record()
				r.Pool, r.Model, r.Tenant = pool, model, tenant
				m.Write(r)
			}
		}
	}
	m.SetNames(metrics.Names{Pools: []string{"p1"}, Models: []string{"llama", "new"}, Tenants: []string{"beta"}})
	got := scrape(t, m)
	for s := range got {
		for _, gone := range []string{`"p2"`, `"sql"`, `"acme"`} {
			if strings.Contains(s, gone) {
				t.Errorf("series %s is left of %s", s, gone)
			}
		}
	}
	const kept = `expediter_tokens_total{kind="output",model="llama",pool="p1"}`
	if got[kept] != "100" {
		t.Errorf("%s = %q, want 100: what stays keeps its count", kept, got[kept])
	}
	r := record()
	r.Model, r.Pool = "new", "p2"
	m.Write(r)
	if v := scrape(t, m)[`expediter_estimated_total{model="new",pool="other"}`]; v != "1" {
		t.Errorf("the new model in the gone pool = %q, want 1", v)
	}
}

// While names change, writers never bring a series back.
func TestSetNamesBesideWriters(t *testing.T) {
	m := metrics.New(metrics.Config{Names: names()})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 2000 {
				m.Write(record())
			}
		})
	}
	for range 50 {
		m.SetNames(names())
		m.SetNames(metrics.Names{})
		for s := range scrape(t, m) {
			if strings.Contains(s, `"p1"`) || strings.Contains(s, `"llama"`) {
				t.Fatalf("series %s after its names were taken out", s)
			}
		}
	}
	wg.Wait()
}

func TestNamesAreBounded(t *testing.T) {
	var n metrics.Names
	for i := range 1500 {
		n.Models = append(n.Models, fmt.Sprint("m", i))
	}
	m := metrics.New(metrics.Config{Names: n})
	for _, name := range n.Models {
		m.Write(&expediter.Record{Model: name, Estimated: true})
	}
	count := 0
	for s := range scrape(t, m) {
		if strings.HasPrefix(s, "expediter_estimated_total") {
			count++
		}
	}
	if count != 1001 {
		t.Errorf("%d series by model, want 1000 and one for the rest", count)
	}
}

type fakeSink struct {
	written, dropped uint64
	waiting          int
}

func (s fakeSink) Written() uint64 { return s.written }
func (s fakeSink) Dropped() uint64 { return s.dropped }
func (s fakeSink) Waiting() int    { return s.waiting }

func TestWatchSink(t *testing.T) {
	m := metrics.New(metrics.Config{})
	m.WatchSink("file", fakeSink{10, 2, 3})
	m.WatchSink("redis", fakeSink{1, 0, 0})
	m.WatchSink("redis", nil)
	got := scrape(t, m)
	for series, want := range map[string]string{
		`expediter_usage_written_total{sink="file"}`: "10",
		`expediter_usage_dropped_total{sink="file"}`: "2",
		`expediter_usage_waiting{sink="file"}`:       "3",
		`expediter_usage_waiting{sink="redis"}`:      "",
	} {
		if got[series] != want {
			t.Errorf("%s = %q, want %q", series, got[series], want)
		}
	}
}

// Two Metrics in one process, and the global registry, stay apart.
func TestRegistryIsItsOwn(t *testing.T) {
	a, b := metrics.New(metrics.Config{Names: names()}), metrics.New(metrics.Config{Names: names()})
	a.Write(record())
	if got := scrape(t, b)[`expediter_attempts_total{pool="p1"}`]; got != "" {
		t.Errorf("b shows a's attempts: %s", got)
	}
	families, err := prometheus.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "expediter") {
			t.Errorf("the global registry has %s", f.GetName())
		}
	}
	own := prometheus.NewGauge(prometheus.GaugeOpts{Name: "expediter_own"})
	if err := a.Register(own); err != nil {
		t.Error(err)
	}
	if err := a.Register(own); err == nil {
		t.Error("Register accepted the same metric twice")
	}
}

func TestWriteAllocatesNothing(t *testing.T) {
	n := names()
	n.Tenants = []string{"acme"}
	m := metrics.New(metrics.Config{Names: n})
	r := record()
	if got := testing.AllocsPerRun(100, func() { m.Write(r) }); got != 0 {
		t.Errorf("Write allocates %v times, want 0", got)
	}
}

func BenchmarkWrite(b *testing.B) {
	m := metrics.New(metrics.Config{Names: names()})
	r := record()
	for b.Loop() {
		m.Write(r)
	}
}
