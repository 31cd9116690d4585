package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/expediterhq/expediter"
	"github.com/expediterhq/expediter/usage"
)

// row is the sum of one tenant's requests for one model.
type row struct {
	Tenant    string `json:"tenant"`
	Model     string `json:"model"`
	Requests  int    `json:"requests"`
	OK        int    `json:"ok"`
	Input     int64  `json:"input_tokens"`
	Cached    int64  `json:"cached_tokens"`
	Output    int64  `json:"output_tokens"`
	Estimated int    `json:"estimated"` // requests whose tokens the gateway counted itself
	Charged   int64  `json:"charged"`   // priced tokens
}

func (r *row) add(rec *expediter.Record) {
	r.Requests++
	if rec.Status == expediter.StatusOK {
		r.OK++
	}
	if rec.Estimated {
		r.Estimated++
	}
	r.Input += int64(rec.Input)
	r.Cached += int64(rec.Cached)
	r.Output += int64(rec.Output)
	r.Charged += rec.Charged
}

// result is what the program prints.
type result struct {
	Rows    []row    `json:"rows"`
	Total   row      `json:"total"`  // of all tenants and models
	Torn    int      `json:"torn"`   // lines that break off
	Copies  int      `json:"copies"` // entries of the stream that came twice
	Bad     int      `json:"bad"`    // entries of the stream that are no records
	Charges []charge `json:"charges,omitempty"`
}

// period is a span of arrival times; a zero end is open.
type period struct{ from, to time.Time }

func (p period) holds(t time.Time) bool {
	return (p.from.IsZero() || !t.Before(p.from)) && (p.to.IsZero() || t.Before(p.to))
}

// summer adds up the records that fall into a period.
type summer struct {
	in   period
	rows map[[2]string]*row
	rep  result
}

func (s *summer) add(rec expediter.Record) error {
	if !s.in.holds(rec.Time) {
		return nil
	}
	key := [2]string{rec.Tenant, rec.Model}
	r := s.rows[key]
	if r == nil {
		r = &row{Tenant: rec.Tenant, Model: rec.Model}
		s.rows[key] = r
	}
	r.add(&rec)
	s.rep.Total.add(&rec)
	return nil
}

// report returns the sums, sorted by tenant and model.
func (s *summer) report() *result {
	for r := range maps.Values(s.rows) {
		s.rep.Rows = append(s.rep.Rows, *r)
	}
	slices.SortFunc(s.rep.Rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Model, b.Model))
	})
	return &s.rep
}

// sum adds up the records of the files and, if o names one, of the stream.
func sum(ctx context.Context, o options) (*result, error) {
	s := &summer{in: o.in, rows: make(map[[2]string]*row)}
	for _, name := range o.files {
		scanned, err := scanFile(name, s.add)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		s.rep.Torn += scanned.Torn
	}
	if o.stream != "" {
		client, addrs, err := dial(o.redis)
		if err != nil {
			return nil, err
		}
		defer client.Close()
		scanned, err := usage.ScanStream(ctx, client, o.stream, s.add)
		if err != nil {
			return nil, fmt.Errorf("-redis %s: %w", addrs, err)
		}
		s.rep.Copies, s.rep.Bad = scanned.Copies, scanned.Bad
	}
	return s.report(), nil
}

// scanFile reads one file; "-" is the standard input.
func scanFile(name string, f func(expediter.Record) error) (usage.Scanned, error) {
	var r io.Reader = os.Stdin
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return usage.Scanned{}, err
		}
		defer file.Close()
		r = file
	}
	return usage.Scan(r, f)
}
