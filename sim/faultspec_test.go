package sim_test

import (
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/expediterhq/expediter/sim"
)

// arrivals asks a chooser about requests, the n-th with the n-th body.
func choose(t *testing.T, spec string, n int, body string) *sim.Fault {
	t.Helper()
	f, err := sim.ParseFaults(spec)
	if err != nil {
		t.Fatalf("%q: %v", spec, err)
	}
	return f(&sim.Arrival{N: n, Request: &http.Request{Body: io.NopCloser(strings.NewReader(body))}})
}

func TestParseFaults(t *testing.T) {
	tests := []struct {
		spec, body string
		n          int
		want       *sim.Fault
	}{
		{"", "", 0, nil},
		{"all:reset", "", 7, &sim.Fault{At: sim.AtRequest, Do: sim.Reset}},
		{"all:hangup@headers", "", 7, &sim.Fault{At: sim.AtHeaders, Do: sim.Hangup}},
		{"every=3:stall@token=5+1s500ms", "", 2, &sim.Fault{At: sim.AtToken, Tokens: 5, Pause: 1500 * time.Millisecond, Do: sim.Stall}},
		{"every=3:stall", "", 3, nil},
		{"marker=bad:die; all:none+1s", "very bad", 0, &sim.Fault{At: sim.AtRequest, Do: sim.Die}},
		{"marker=bad:die; all:none+1s", "good", 0, &sim.Fault{At: sim.AtRequest, Pause: time.Second}},
		{"rate=1:error@end", "", 0, &sim.Fault{At: sim.AtDone, Do: sim.ErrorEvent}},
		{"rate=0:hang", "", 0, nil},
	}
	for _, tt := range tests {
		if got := choose(t, tt.spec, tt.n, tt.body); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%q for request %d = %+v, want %+v", tt.spec, tt.n, got, tt.want)
		}
	}
	if f := choose(t, "all:status=503", 0, ""); f.Do != sim.Answer || f.Status != 503 || !strings.Contains(string(f.Body), `"code":503`) {
		t.Errorf("status = %+v", f)
	}
	hit := 0
	for n := range 10000 {
		if choose(t, "rate=0.25:reset", n, "") != nil {
			hit++
		}
	}
	if hit < 2350 || hit > 2650 {
		t.Errorf("rate=0.25 hits %d of 10000", hit)
	}
}

var badFaults = []string{
	"reset", "all:", "all:explode", "all:status=99", "all:status", "every=0:reset", "every=:reset", "rate=2:reset", "rate=NaN:reset",
	"marker=:die", "some:reset", "all:reset@noon", "all:reset@token", "all:reset+soon", "all:reset+-1s", "all:done", "all:error@request",
	"all:status=500@head",
}

func TestParseFaultsRefuses(t *testing.T) {
	for _, spec := range badFaults {
		if _, err := sim.ParseFaults(spec); err == nil {
			t.Errorf("%q is accepted", spec)
		}
	}
}

// Who gets a word wrong is told the right ones.
func TestParseFaultsListsTheWords(t *testing.T) {
	for spec, want := range map[string]string{
		"bar":          `sim: fault "bar": want WHEN:WHAT, such as all:reset`,
		"foo:reset":    `sim: fault "foo:reset": "foo" is no condition, want all, every=N, rate=P or marker=TEXT`,
		"all:bar":      `sim: fault "all:bar": "bar" is no action, want reset, hangup, stall, finish, error, done, die, hang, none or status=CODE`,
		"all:none@bar": `sim: fault "all:none@bar": "bar" is no phase, want headers, request, head, token=N or end`,
	} {
		if _, err := sim.ParseFaults(spec); err == nil || err.Error() != want {
			t.Errorf("ParseFaults(%q) = %v, want %s", spec, err, want)
		}
	}
	for _, what := range []string{"reset", "hangup", "stall", "finish@end", "error@end", "done@end", "die", "hang", "none", "status=503"} {
		if choose(t, "all:"+what, 0, "") == nil {
			t.Errorf("%s chooses no fault", what)
		}
	}
}

func FuzzParseFaults(f *testing.F) {
	for _, s := range append(badFaults, "marker=a:die; rate=0.5:reset@token=5+1s; every=2:status=503") {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, spec string) {
		choose, err := sim.ParseFaults(spec)
		if err != nil {
			return
		}
		for n := range 3 {
			a := &sim.Arrival{N: n, Request: &http.Request{Body: io.NopCloser(strings.NewReader("x"))}}
			if got := choose(a); got != nil && (got.Pause < 0 || got.Tokens < 0 || got.Do == sim.Answer && got.Status < 200) {
				t.Errorf("%q gives %+v", spec, got)
			}
		}
	})
}
