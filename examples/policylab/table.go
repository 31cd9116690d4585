package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/expediterhq/expediter/sim/fleet"
)

// column is one figure of the comparison.
type column struct {
	key, head string
	value     func(*fleet.Report) float64
	digits    int
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }

var columns = []column{
	{"ttft_mean_ms", "TTFT mean ms", func(r *fleet.Report) float64 { return ms(r.TTFT.Mean) }, 0},
	{"ttft_p50_ms", "TTFT p50", func(r *fleet.Report) float64 { return ms(r.TTFT.P50) }, 0},
	{"ttft_p99_ms", "TTFT p99", func(r *fleet.Report) float64 { return ms(r.TTFT.P99) }, 0},
	{"tpot_p95_ms", "TPOT p95 ms", func(r *fleet.Report) float64 { return ms(r.TPOT.P95) }, 1},
	{"goodput", "in SLO %", func(r *fleet.Report) float64 { return 100 * r.Goodput }, 1},
	{"good_rate", "good/s", func(r *fleet.Report) float64 { return r.GoodRate }, 2},
	{"shed", "shed %", func(r *fleet.Report) float64 { return 100 * r.ShedRate }, 1},
	{"output_rate", "out tok/s", func(r *fleet.Report) float64 { return r.OutputRate }, 0},
	{"hit_rate", "hits %", func(r *fleet.Report) float64 { return 100 * r.HitRate }, 1},
	{"preemptions", "preempted", func(r *fleet.Report) float64 { return float64(r.Preemptions) }, 0},
	{"kv_mean", "KV %", func(r *fleet.Report) float64 { return 100 * r.KV }, 1},
	{"imbalance", "imbalance", func(r *fleet.Report) float64 { return r.Imbalance }, 2},
	{"adapter_loads", "loads", func(r *fleet.Report) float64 { return float64(r.Loads) }, 0},
}

// row is one rule at one speed, over its seeds.
type row struct {
	policy string
	speed  float64
	cells  []*cell
}

// rows groups the cells, in the order of the flags.
func (res *result) rows() []row {
	var out []row
	for _, speed := range res.lab.o.speeds {
		for _, policy := range res.lab.o.policies {
			r := row{policy: policy, speed: speed}
			for _, c := range res.cells {
				if c.policy == policy && c.speed == speed {
					r.cells = append(r.cells, c)
				}
			}
			out = append(out, r)
		}
	}
	return out
}

// over returns the mean of a figure over the seeds, and half its range.
func (r row) over(c column) (mean, spread float64) {
	lo, hi := c.value(r.cells[0].report), c.value(r.cells[0].report)
	for _, x := range r.cells {
		v := c.value(x.report)
		mean += v / float64(len(r.cells))
		lo, hi = min(lo, v), max(hi, v)
	}
	return mean, (hi - lo) / 2
}

func writeTable(w io.Writer, res *result) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(tw, "policy\tspeed\t")
	for _, c := range columns {
		fmt.Fprintf(tw, "%s\t", c.head)
	}
	fmt.Fprintln(tw)
	for _, r := range res.rows() {
		fmt.Fprintf(tw, "%s\t%v\t", r.policy, r.speed)
		for _, c := range columns {
			mean, spread := r.over(c)
			if len(r.cells) > 1 {
				fmt.Fprintf(tw, "%.*f ±%.*f\t", c.digits, mean, c.digits, spread)
			} else {
				fmt.Fprintf(tw, "%.*f\t", c.digits, mean)
			}
		}
		fmt.Fprintln(tw)
	}
	return tw.Flush()
}

// figure is a mean over seeds in JSON.
type figure struct {
	Mean   float64   `json:"mean"`
	Spread float64   `json:"half_range"`
	Seeds  []float64 `json:"seeds"`
}

func writeJSON(w io.Writer, res *result) error {
	type line struct {
		Policy  string            `json:"policy"`
		Speed   float64           `json:"speed"`
		Figures map[string]figure `json:"figures"`
	}
	o := res.lab.o
	doc := struct {
		Title    string  `json:"title"`
		Bad      int     `json:"bad_rows"`
		Long     int     `json:"long_prompts"`
		Gateways int     `json:"gateways"`
		Scrape   string  `json:"scrape"`
		Age      string  `json:"metric_age"`
		Delay    string  `json:"delay"`
		Direct   bool    `json:"direct"`
		TTFT     string  `json:"slo_ttft"`
		TPOT     string  `json:"slo_tpot"`
		Seconds  float64 `json:"took_seconds"`
		Rows     []line  `json:"rows"`
	}{res.Title, res.bad, res.long, o.gateways, o.scrape.String(), o.age.String(), o.delay.String(), o.direct, o.slo.TTFT.String(), o.slo.TPOT.String(), res.Took.Seconds(), nil}
	for _, r := range res.rows() {
		l := line{r.policy, r.speed, map[string]figure{}}
		for _, c := range columns {
			var f figure
			f.Mean, f.Spread = r.over(c)
			for _, x := range r.cells {
				f.Seeds = append(f.Seeds, c.value(x.report))
			}
			l.Figures[c.key] = f
		}
		doc.Rows = append(doc.Rows, l)
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(doc)
}
