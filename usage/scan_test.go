package usage_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/expediterhq/expediter"
	"github.com/expediterhq/expediter/usage"
)

// lines returns n records with the ids 0, 1, 2, ... as JSON lines.
func lines(n int) []byte {
	var b []byte
	r := full()
	for i := range n {
		r.ID = fmt.Sprint(i)
		b = append(usage.AppendJSON(b, &r), '\n')
	}
	return b
}

// ids scans data and returns the ids found.
func ids(t testing.TB, data []byte) ([]string, usage.Scanned) {
	t.Helper()
	var got []string
	s, err := usage.Scan(bytes.NewReader(data), func(r expediter.Record) error {
		got = append(got, r.ID)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got, s
}

// A file cut at any byte loses exactly the record cut, and says so.
func TestScanOfAFileCutAnywhere(t *testing.T) {
	whole := lines(3)
	var ends []int
	for i, c := range whole {
		if c == '\n' {
			ends = append(ends, i)
		}
	}
	for cut := range len(whole) + 1 {
		want := usage.Scanned{}
		torn := cut > 0
		for _, end := range ends {
			if cut >= end { // whole, with or without its line end
				want.Records++
				torn = cut > end+1
			}
		}
		if torn {
			want.Torn = 1
		}
		if got, s := ids(t, whole[:cut]); s != want || len(got) != want.Records {
			t.Fatalf("cut at %d: %+v and %d records, want %+v", cut, s, len(got), want)
		}
	}
}

func TestScan(t *testing.T) {
	two := string(lines(2))
	first, second, _ := strings.Cut(two, "\n")
	tests := []struct {
		name, data string
		want       usage.Scanned
		err        string
	}{
		{"empty", "", usage.Scanned{}, ""},
		{"blank lines", "\n\n" + two + "\n", usage.Scanned{Records: 2}, ""},
		{"CRLF", strings.ReplaceAll(two, "\n", "\r\n"), usage.Scanned{Records: 2}, ""},
		{"torn in the middle", first + "\n" + first[:100] + "\n" + second, usage.Scanned{Records: 2, Torn: 1}, ""},
		{"torn with zeros", first + "\n" + first[:100] + strings.Repeat("\x00", 4096), usage.Scanned{Records: 1, Torn: 1}, ""},
		{"zeros only", first + "\n" + strings.Repeat("\x00", 4096), usage.Scanned{Records: 1}, ""},
		{"unknown field", `{"id":"x","later":1}`, usage.Scanned{Records: 1}, ""},
		{"no id", first + "\n{}\n" + second, usage.Scanned{Records: 1}, "usage: line 2: usage: record: id is missing"},
		{"cut, but no object", first + "\n[1,", usage.Scanned{Records: 1}, "usage: line 2"},
		{"not JSON", first + "\nhello\n", usage.Scanned{Records: 1}, "usage: line 2"},
		{"wrong type", first + "\n" + `{"id":5}` + "\n", usage.Scanned{Records: 1}, "usage: line 2"},
		{"two on a line", first + first + "\n", usage.Scanned{}, "usage: line 1"},
		{"torn then whole on a line", first[:100] + first + "\n", usage.Scanned{}, "usage: line 1"},
		{"too long", `{"id":"` + strings.Repeat("x", 1<<20), usage.Scanned{}, "usage: line 1: longer than 1048576 bytes"},
	}
	for _, tt := range tests {
		s, err := usage.Scan(strings.NewReader(tt.data), func(expediter.Record) error { return nil })
		if s != tt.want {
			t.Errorf("%s: Scan = %+v, want %+v", tt.name, s, tt.want)
		}
		if (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: error %v, want %q", tt.name, err, tt.err)
		}
	}
}

func TestScanStopsAtTheFunctionsError(t *testing.T) {
	mine := errors.New("mine")
	s, err := usage.Scan(bytes.NewReader(lines(5)), func(r expediter.Record) error {
		if r.ID == "2" {
			return mine
		}
		return nil
	})
	if !errors.Is(err, mine) || s.Records != 3 {
		t.Errorf("Scan = %+v, %v, want mine after the third", s, err)
	}
}

func FuzzScan(f *testing.F) {
	f.Add(lines(2))
	f.Add([]byte("{\"id\":\"a\"}\n{\"id\n\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		n := 0
		s, err := usage.Scan(bytes.NewReader(data), func(expediter.Record) error { n++; return nil })
		if s.Records != n {
			t.Errorf("Scanned %d records, gave %d", s.Records, n)
		}
		if max := bytes.Count(data, []byte("\n")) + 1; err == nil && s.Records+s.Torn > max {
			t.Errorf("%+v of %d lines", s, max)
		}
	})
}
