package main

import (
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"os"
	"strings"
	"time"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// page is what the template shows.
type page struct {
	Title, Terms string
	Head         []string
	Rows         []pageRow
	Speed        float64
	TTFT, TPOT   template.HTML
	Load         template.HTML // empty with one speed
	Maps         []mapPair
	KVScale      template.HTML
	QueueScale   template.HTML
}

// pageRow is a line of the table.
type pageRow struct {
	First bool // of its speed
	Cells []string
}

// mapPair is the two heat maps of one rule.
type mapPair struct {
	Policy string
	KV     template.HTML
	Queue  template.HTML
}

// checkPage finds out before the runs whether writePage can write to path. It
// leaves what is there, and leaves nothing where nothing is.
func checkPage(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		return errors.Join(f.Close(), os.Remove(path))
	}
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	if f, err = os.OpenFile(path, os.O_WRONLY, 0); err != nil {
		return err
	}
	return f.Close()
}

// writePage writes the comparison as one page that needs nothing else.
func writePage(path string, res *result) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := pageTemplate.Execute(f, newPage(res)); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}

func newPage(res *result) page {
	o := res.lab.o
	p := page{
		Title: res.Title, Speed: o.speeds[len(o.speeds)-1],
		Terms: fmt.Sprintf("Gateways: %d. Metrics every %v, %v old. Network delay %v. Objective: TTFT %v, TPOT %v. Seeds: %d. Simulated in %v.",
			o.gateways, o.scrape, o.age, o.delay, o.slo.TTFT, o.slo.TPOT, o.seeds, res.Took.Round(time.Second/10)),
		Head: []string{"policy", "speed"},
	}
	for _, c := range columns {
		p.Head = append(p.Head, c.head)
	}
	rows := res.rows()
	var last []row // at the last speed
	for _, r := range rows {
		line := pageRow{First: r.policy == o.policies[0], Cells: []string{r.policy, fmt.Sprint(r.speed)}}
		for _, c := range columns {
			mean, spread := r.over(c)
			text := fmt.Sprintf("%.*f", c.digits, mean)
			if s := fmt.Sprintf("%.*f", c.digits, spread); s != fmt.Sprintf("%.*f", c.digits, 0.0) {
				text += " ±" + s
			}
			line.Cells = append(line.Cells, text)
		}
		p.Rows = append(p.Rows, line)
		if r.speed == p.Speed {
			last = append(last, r)
		}
	}
	p.TTFT = curves("time to first token, ms", last, func(c *cell) []time.Duration { return c.report.TTFTCurve })
	p.TPOT = curves("time per output token, ms", last, func(c *cell) []time.Duration { return c.report.TPOTCurve })
	if len(o.speeds) > 1 {
		p.Load = loadCurve(res, rows)
	}
	most := mostWaiting(last)
	p.KVScale = legend(func(share float64) string { return fmt.Sprintf("%.0f%%", 100*share) })
	p.QueueScale = legend(func(share float64) string { return fmt.Sprintf("%.0f", share*share*float64(most)) })
	for _, r := range last {
		kv, queue := heatMaps(r.cells[0].report, most)
		p.Maps = append(p.Maps, mapPair{r.policy, kv, queue})
	}
	return p
}

// curves plots the quantiles of the first seed's run of each rule.
func curves(label string, rows []row, of func(*cell) []time.Duration) template.HTML {
	pl := plot{xLabel: label, yLabel: "share of requests, %", logX: true}
	for _, r := range rows {
		s := series{name: r.policy}
		for i, d := range of(r.cells[0]) {
			s.points = append(s.points, point{max(float64(d)/1e6, 0.1), float64(i)})
		}
		pl.series = append(pl.series, s)
	}
	return pl.svg()
}

// loadCurve plots the requests per second within the objective against those
// that arrive.
func loadCurve(res *result, rows []row) template.HTML {
	pl := plot{xLabel: "requests offered per second", yLabel: "within the objective per second", dots: true}
	good := columns[5]
	for _, policy := range res.lab.o.policies {
		s := series{name: policy}
		for _, r := range rows {
			if r.policy != policy {
				continue
			}
			rep := r.cells[0].report
			offered := 0.0
			if rep.Goodput > 0 {
				offered = rep.GoodRate / rep.Goodput
			} else if rep.Elapsed > 0 {
				offered = float64(rep.Requests) / rep.Elapsed.Seconds()
			}
			mean, _ := r.over(good)
			s.points = append(s.points, point{offered, mean})
		}
		pl.series = append(pl.series, s)
	}
	return pl.svg()
}

// escape makes text safe inside SVG.
func escape(s string) string {
	var b strings.Builder
	template.HTMLEscape(&b, []byte(s))
	return b.String()
}
