package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/expediterhq/expediter"
	"github.com/expediterhq/expediter/usage"
)

// Row is the sum of one tenant's requests for one model.
type Row struct {
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

func (r *Row) add(rec *expediter.Record) {
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

// Report is what the program prints.
type Report struct {
	Rows    []Row     `json:"rows"`
	Total   Row       `json:"total"` // of all tenants and models
	Torn    int       `json:"torn"`  // lines that break off
	Charges []Balance `json:"charges,omitempty"`
}

// period is a span of arrival times; a zero end is open.
type period struct{ from, to time.Time }

func (p period) holds(t time.Time) bool {
	return (p.from.IsZero() || !t.Before(p.from)) && (p.to.IsZero() || t.Before(p.to))
}

// sum adds up the records of the files that fall into the period.
func sum(files []string, in period) (*Report, error) {
	rows := make(map[[2]string]*Row)
	rep := new(Report)
	add := func(rec expediter.Record) error {
		if !in.holds(rec.Time) {
			return nil
		}
		key := [2]string{rec.Tenant, rec.Model}
		row := rows[key]
		if row == nil {
			row = &Row{Tenant: rec.Tenant, Model: rec.Model}
			rows[key] = row
		}
		row.add(&rec)
		rep.Total.add(&rec)
		return nil
	}
	for _, name := range files {
		scanned, err := scanFile(name, add)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		rep.Torn += scanned.Torn
	}
	for row := range maps.Values(rows) {
		rep.Rows = append(rep.Rows, *row)
	}
	slices.SortFunc(rep.Rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Model, b.Model))
	})
	return rep, nil
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
