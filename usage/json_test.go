package usage_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"math"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/expediterhq/expediter"
	"github.com/expediterhq/expediter/usage"
)

var update = flag.Bool("update", false, "write the golden files anew")

// full has a value other than zero in every field.
func full() expediter.Record {
	return expediter.Record{
		ID: "req-1", Time: time.Date(2026, 11, 29, 18, 30, 5, 123456789, time.UTC), Endpoint: "chat", Stream: true,
		Tenant: "acme", Tier: 2, Model: "llama", Served: "meta-llama/Llama-3.1-8B", Pool: "main", Adapter: "sql",
		Replica: "gpu-7", Generation: 3, Attempts: 2,
		Input: 1800, Cached: 1024, Predicted: 1040, Output: 50, Estimated: true, Approximate: true,
		Reserved: 2824, Charged: 1850,
		QueueWait: 12*time.Millisecond + 345678, TTFT: 150 * time.Millisecond, TPOT: 20*time.Millisecond + 100000, Total: 1500 * time.Millisecond,
		Objective: expediter.Met, Status: expediter.StatusOK, HTTPStatus: 200, FinishReason: "stop", EndedBy: expediter.ByEngine, Error: `a "quoted" \ reason` + "\n",
	}
}

func TestFullIsFull(t *testing.T) {
	v := reflect.ValueOf(full())
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			t.Errorf("full leaves %s zero: the golden test would not see it", v.Type().Field(i).Name)
		}
	}
}

// The names and forms of the fields are promised to those who read the files.
func TestJSONGolden(t *testing.T) {
	const path = "testdata/record.golden.jsonl"
	r, empty := full(), expediter.Record{ID: "req-2"}
	got := append(usage.AppendJSON(nil, &r), '\n')
	got = append(usage.AppendJSON(got, &empty), '\n')
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("AppendJSON =\n%swant\n%s", got, want)
	}
}

// Every field of Record is in the JSON form: setting any one changes it.
func TestJSONHoldsEveryField(t *testing.T) {
	base := usage.AppendJSON(nil, &expediter.Record{})
	f := full()
	for i := range reflect.TypeFor[expediter.Record]().NumField() {
		var r expediter.Record
		reflect.ValueOf(&r).Elem().Field(i).Set(reflect.ValueOf(f).Field(i))
		if bytes.Equal(usage.AppendJSON(nil, &r), base) {
			t.Errorf("the JSON form lacks %s", reflect.TypeFor[expediter.Record]().Field(i).Name)
		}
	}
}

func TestJSONRoundTrip(t *testing.T) {
	r := full()
	for _, d := range []time.Duration{0, 1, 999999, 1000000, 1000001, -1, -1500000, 100 * 24 * time.Hour, 99*24*time.Hour + 1} {
		r.TTFT = d
		got, err := usage.Parse(usage.AppendJSON(nil, &r))
		if err != nil || got != r {
			t.Errorf("with TTFT %d: Parse = %+v, %v, want %+v", d, got, err, r)
		}
	}
}

func FuzzJSON(f *testing.F) {
	f.Add("id", "model \u2028 é \x00 \xff", "\"\\/\b\x7f", int64(math.MinInt64), int64(-5), uint64(math.MaxUint64), true)
	f.Add("x", "", "\xed\xa0\x80", int64(1), int64(123456789), uint64(0), false)
	f.Fuzz(func(t *testing.T, id, model, reason string, charged, dur int64, gen uint64, stream bool) {
		r := expediter.Record{ID: id, Model: model, Error: reason, Charged: charged, Total: time.Duration(dur), Generation: gen, Stream: stream}
		line := usage.AppendJSON(nil, &r)
		if !json.Valid(line) || !utf8.Valid(line) || bytes.IndexByte(line, '\n') >= 0 {
			t.Fatalf("AppendJSON = %q, want one line of valid JSON", line)
		}
		if id == "" {
			return
		}
		got, err := usage.Parse(line)
		if err != nil {
			t.Fatal(err)
		}
		valid := func(s string) string {
			var b strings.Builder
			for _, c := range s { // ranging replaces each bad byte with U+FFFD
				b.WriteRune(c)
			}
			return b.String()
		}
		want := r
		want.ID, want.Model, want.Error = valid(id), valid(model), valid(reason)
		if diff := (got.Total - want.Total).Abs(); diff > 0 && want.Total.Abs() < 100*24*time.Hour {
			t.Errorf("Total = %d, want %d", got.Total, want.Total)
		}
		got.Total = want.Total
		if got != want {
			t.Errorf("Parse = %+v, want %+v", got, want)
		}
	})
}

func FuzzParse(f *testing.F) {
	r := full()
	f.Add(usage.AppendJSON(nil, &r))
	f.Add([]byte(`{"id":"a","ttft_ms":1e300,"time":"0001-01-01T00:00:00Z"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		rec, err := usage.Parse(line)
		if err != nil {
			return
		}
		again, err := usage.Parse(usage.AppendJSON(nil, &rec))
		if err != nil {
			t.Fatalf("what Parse accepted does not come back: %v", err)
		}
		if again.ID != rec.ID || again.Charged != rec.Charged || !again.Time.Equal(rec.Time) {
			t.Errorf("Parse = %+v, want %+v", again, rec)
		}
	})
}

func TestAppendJSONAllocatesNothing(t *testing.T) {
	r := full()
	buf := make([]byte, 0, 4096)
	if n := testing.AllocsPerRun(100, func() { buf = usage.AppendJSON(buf[:0], &r) }); n != 0 {
		t.Errorf("AppendJSON allocates %v times, want 0", n)
	}
}

func BenchmarkAppendJSON(b *testing.B) {
	r := full()
	buf := make([]byte, 0, 4096)
	for b.Loop() {
		buf = usage.AppendJSON(buf[:0], &r)
	}
	b.SetBytes(int64(len(buf)))
}
