package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/expediterhq/expediter"
	"github.com/expediterhq/expediter/internal/redistest"
	"github.com/expediterhq/expediter/quota"
	"github.com/expediterhq/expediter/quota/redisquota"
	"github.com/expediterhq/expediter/usage"
)

// write puts the records into a file and returns its name.
func write(t *testing.T, records ...expediter.Record) string {
	t.Helper()
	var b []byte
	for i, r := range records {
		r.ID = fmt.Sprint(i)
		b = append(usage.AppendJSON(b, &r), '\n')
	}
	name := filepath.Join(t.TempDir(), "usage.jsonl")
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func report(t *testing.T, args ...string) (out, errOut string, code int) {
	t.Helper()
	var o, e strings.Builder
	code = run(t.Context(), args, &o, &e)
	return o.String(), e.String(), code
}

func day(d int) time.Time { return time.Date(2026, 11, d, 12, 0, 0, 0, time.UTC) }

func sample() []expediter.Record {
	return []expediter.Record{
		{Time: day(1), Tenant: "beta", Model: "llama", Input: 100, Cached: 64, Output: 10, Charged: 110, Status: expediter.StatusOK},
		{Time: day(2), Tenant: "acme", Model: "sql", Input: 50, Output: 5, Charged: 55, Status: expediter.StatusCancelled, Estimated: true},
		{Time: day(3), Tenant: "acme", Model: "llama", Input: 1000, Cached: 512, Output: 100, Charged: 1100, Status: expediter.StatusOK},
		{Time: day(4), Tenant: "acme", Model: "llama", Status: expediter.StatusRefused},
		{Time: day(5), Tenant: "acme", Model: "\x1b[2Jevil", Status: expediter.StatusRefused},
	}
}

func TestTable(t *testing.T) {
	out, errOut, code := report(t, write(t, sample()...))
	const want = `
  tenant          model  requests  ok  input  cached  output  estimated  charged
    acme  "\x1b[2Jevil"         1   0      0       0       0          0        0
    acme          llama         2   1   1000     512     100          0     1100
    acme            sql         1   0     50       0       5          1       55
    beta          llama         1   1    100      64      10          0      110
   total                        5   2   1150     576     115          1     1265
`
	if got := "\n" + out; got != want || errOut != "" || code != 0 {
		t.Errorf("code %d, errors %q, table\n%swant%s", code, errOut, out, want)
	}
}

func TestJSONAndPeriod(t *testing.T) {
	name := write(t, sample()...)
	if f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0); err == nil {
		f.WriteString(`{"id":"torn","ten`)
		f.Close()
	}
	out, errOut, code := report(t, "-json", "-from", "2026-11-02", "-to", "2026-11-03T12:00:01Z", name, name)
	var rep result
	if err := json.Unmarshal([]byte(out), &rep); err != nil || code != 0 {
		t.Fatalf("code %d, %s, %v: %s", code, errOut, err, out)
	}
	want := []row{
		{Tenant: "acme", Model: "llama", Requests: 2, OK: 2, Input: 2000, Cached: 1024, Output: 200, Charged: 2200},
		{Tenant: "acme", Model: "sql", Requests: 2, Input: 100, Output: 10, Estimated: 2, Charged: 110},
	}
	if len(rep.Rows) != 2 || rep.Rows[0] != want[0] || rep.Rows[1] != want[1] || rep.Torn != 2 || rep.Total.Charged != 2310 {
		t.Errorf("%+v, want rows %+v, 2 torn, 2310 charged", rep, want)
	}
	if out, _, _ := report(t, "-to", "2026-11-03T12:00:00Z", name); strings.Contains(out, "1000") {
		t.Errorf("a record of the very end of the period is in it:\n%s", out)
	}
	if out, _, _ := report(t, name); !strings.Contains(out, "1 lines break off") {
		t.Errorf("the table does not speak of the torn line:\n%s", out)
	}
}

func TestWrongArguments(t *testing.T) {
	tests := []struct {
		args []string
		want string
		code int
	}{
		{nil, "usagereport: want the files to read\nUsage of usagereport: usagereport [flags] FILE...", 2},
		{[]string{"-stream", "s"}, "want -redis", 2},
		{[]string{"-nonsense"}, "not defined", 2},
		{[]string{"-from", "yesterday", "x"}, `usagereport: -from is "yesterday", want a time as 2026-11-01 or 2026-11-01T09:30:00Z` + "\n", 2},
		{[]string{"-to", "2026-13-01", "x"}, `usagereport: -to is "2026-13-01", want a time as 2026-11-01 or 2026-11-01T09:30:00Z` + "\n", 2},
		{[]string{"-redis", "x", "-from", "2026-01-01", "x"}, "cannot be used", 2},
		{[]string{filepath.Join(t.TempDir(), "none")}, "no such file", 1},
	}
	for _, tt := range tests {
		if _, errOut, code := report(t, tt.args...); code != tt.code || !strings.Contains(errOut, tt.want) {
			t.Errorf("%q: code %d, %q, want %d and %q", tt.args, code, errOut, tt.code, tt.want)
		}
	}
	name := write(t, sample()...)
	for _, at := range []string{"rediss://user:SECRET@[::1", "user:SECRET@127.0.0.1:1"} {
		if _, errOut, code := report(t, "-redis", at, name); code != 1 || strings.Contains(errOut, "SECRET") || !strings.Contains(errOut, "form rediss://") {
			t.Errorf("-redis %s: code %d, %q, want 1, the form and no password", at, code, errOut)
		}
	}
}

// Which Redis does not answer is said, without the password.
func TestNamesTheRedis(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil { // nobody listens there
		t.Fatal(err)
	}
	name := write(t, sample()...)
	for _, args := range [][]string{{"-redis", addr, name}, {"-redis", "redis://user:SECRET@" + addr, name}, {"-redis", addr, "-stream", "s"}} {
		_, errOut, code := report(t, args...)
		if code != 1 || !strings.HasPrefix(errOut, "usagereport: -redis "+addr+": ") || strings.Contains(errOut, "SECRET") {
			t.Errorf("%q: code %d, %q, want 1 and %s in it", args, code, errOut, addr)
		}
	}
}

// -h says what the program is for and is no mistake.
func TestHelp(t *testing.T) {
	out, errOut, code := report(t, "-h")
	if code != 0 || out != "" || !strings.HasPrefix(errOut, about) {
		t.Errorf("-h: code %d, %q, %q", code, out, errOut)
	}
}

// settle reserves cost for a request of the tenant and settles used.
func settle(t *testing.T, s quota.Store, tenant, id string, cost, used int64) {
	t.Helper()
	r := quota.Reservation{ID: id, Tenant: tenant, Cost: cost, Limit: quota.Limit{Windows: []quota.Window{quota.PerDay(1_000_000)}}}
	if err := s.Reserve(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if err := s.Settle(t.Context(), r, used); err != nil {
		t.Fatal(err)
	}
}

// open returns a store under the prefix "test:", and its client.
func open(t *testing.T, addr string) (*redisquota.Store, redis.UniversalClient) {
	t.Helper()
	client := redisquota.Client(redis.UniversalOptions{Addrs: []string{addr}})
	t.Cleanup(func() { client.Close() })
	store, err := redisquota.New(client, redisquota.Config{Policy: redisquota.Closed, Prefix: "test:", Timeout: 10 * time.Second, Patience: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store, client
}

// A tenant that was charged and has no record at all is found by its charges.
func TestChargesWithoutRecords(t *testing.T) {
	server := redistest.Start(t)
	store, _ := open(t, server.Addr)
	settle(t, store, "acme", "a1", 5000, 1155)
	settle(t, store, "beta", "b1", 500, 110)
	settle(t, store, "lost", "l1", 500, 42)
	out, errOut, code := report(t, "-json", "-redis", server.Addr, "-prefix", "test:", write(t, sample()...))
	var rep result
	if err := json.Unmarshal([]byte(out), &rep); err != nil || code != 3 {
		t.Fatalf("code %d, %s, %v: %s", code, errOut, err, out)
	}
	want := charge{Tenant: "lost", Charged: 42, Difference: 42}
	if len(rep.Charges) != 3 || rep.Charges[2] != want || rep.Charges[0].Difference != 0 {
		t.Errorf("charges %+v, want %+v last", rep.Charges, want)
	}
}

func TestCharges(t *testing.T) {
	server := redistest.Start(t)
	store, client := open(t, server.Addr)
	settle(t, store, "beta", "b1", 500, 110)
	settle(t, store, "acme", "a1", 500, 55)
	settle(t, store, "acme", "a2", 5000, 1100)
	name := write(t, sample()...)
	out, errOut, code := report(t, "-redis", server.Addr, "-prefix", "test:", name)
	if code != 0 || strings.Contains(out, "positive") || !strings.Contains(out, "acme") {
		t.Errorf("all agree: code %d, %s\n%s", code, errOut, out)
	}
	settle(t, store, "beta", "b2", 100, 7) // its record is missing
	out, errOut, code = report(t, "-json", "-redis", "redis://"+server.Addr, "-prefix", "test:", name)
	var rep result
	if err := json.Unmarshal([]byte(out), &rep); err != nil || code != 3 {
		t.Fatalf("code %d, %s, %v: %s", code, errOut, err, out)
	}
	want := []charge{{Tenant: "acme", Recorded: 1155, Charged: 1155}, {Tenant: "beta", Recorded: 110, Charged: 117, Difference: 7}}
	if len(rep.Charges) != 2 || rep.Charges[0] != want[0] || rep.Charges[1] != want[1] {
		t.Errorf("charges %+v, want %+v", rep.Charges, want)
	}
	if out, _, code := report(t, "-redis", server.Addr, "-prefix", "test:", name); code != 3 || !strings.Contains(out, "+7") {
		t.Errorf("one differs: code %d\n%s", code, out)
	}
	sink, err := usage.NewRedis(client, usage.RedisConfig{Stream: "s"})
	if err != nil {
		t.Fatal(err)
	}
	missing := expediter.Record{ID: "b2", Tenant: "beta", Model: "llama", Charged: 7}
	sink.Write(&missing)
	sink.Write(&missing)
	if err := sink.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	client.XAdd(t.Context(), &redis.XAddArgs{Stream: "s", Values: []any{"x", "y"}})
	if out, errOut, code := report(t, "-redis", server.Addr, "-prefix", "test:", "-stream", "s", name); code != 0 || !strings.Contains(out, "1 entries of the stream are no records") {
		t.Errorf("with the stream that holds the missing record, twice: code %d, %s\n%s", code, errOut, out)
	}
	server.Kill()
	if _, errOut, code := report(t, "-redis", server.Addr, name); code != 1 || errOut == "" {
		t.Errorf("Redis is gone: code %d, %q, want 1 and a reason", code, errOut)
	}
}
