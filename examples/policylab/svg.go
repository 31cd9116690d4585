package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"html/template"
	"image"
	"image/color"
	"image/png"
	"math"
	"strings"
	"time"

	"github.com/expediterhq/expediter/sim/fleet"
)

type point struct{ x, y float64 }

type series struct {
	name   string
	points []point
}

// plot is a chart of lines.
type plot struct {
	xLabel, yLabel string
	logX           bool
	series         []series
}

const (
	width, height            = 560.0, 340.0
	left, right, top, bottom = 56.0, 12.0, 12.0, 44.0
)

var colors = []string{"#9aa3b2", "#4e79a7", "#59a14f", "#f28e2b", "#b07aa1", "#76b7b2", "#edc948", "#e15759", "#9c755f", "#000000"}

// svg draws the plot.
func (p plot) svg() template.HTML {
	x0, x1, y1 := math.Inf(1), math.Inf(-1), 0.0
	for _, s := range p.series {
		for _, pt := range s.points {
			x0, x1, y1 = min(x0, pt.x), max(x1, pt.x), max(y1, pt.y)
		}
	}
	if x0 > x1 {
		return "no data"
	}
	if !p.logX {
		x0 = 0
	}
	if x1 == x0 {
		x1 = x0 + 1
	}
	y1 = max(y1, 1e-9)
	scale := func(x float64) float64 {
		f := (x - x0) / (x1 - x0)
		if p.logX {
			f = math.Log(x/x0) / math.Log(x1/x0)
		}
		return left + f*(width-left-right)
	}
	yscale := func(y float64) float64 { return height - bottom - y/y1*(height-top-bottom) }
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %v %v" role="img" aria-label="%s">`, width, height+20*math.Ceil(float64(len(p.series))/5), escape(p.xLabel))
	for _, y := range ticks(0, y1) {
		fmt.Fprintf(&b, `<path d="M%.1f %.1fH%.1f" stroke="#e4e8ee"/><text x="%.1f" y="%.1f" text-anchor="end">%v</text>`, left, yscale(y), width-right, left-6, yscale(y)+4, y)
	}
	xs := ticks(x0, x1)
	if p.logX {
		xs = logTicks(x0, x1)
	}
	for _, x := range xs {
		fmt.Fprintf(&b, `<path d="M%.1f %.1fV%.1f" stroke="#e4e8ee"/><text x="%.1f" y="%.1f" text-anchor="middle">%v</text>`, scale(x), top, height-bottom, scale(x), height-bottom+16, x)
	}
	fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="middle">%s</text>`, (left+width-right)/2, height-bottom+34, escape(p.xLabel))
	fmt.Fprintf(&b, `<text transform="translate(13 %.1f) rotate(-90)" text-anchor="middle">%s</text>`, (top+height-bottom)/2, escape(p.yLabel))
	for i, s := range p.series {
		p.line(&b, i, s, scale, yscale)
	}
	b.WriteString("</svg>")
	return template.HTML(b.String())
}

// line draws one series and its legend.
func (p plot) line(b *strings.Builder, i int, s series, x, y func(float64) float64) {
	color := colors[i%len(colors)]
	fmt.Fprintf(b, `<path fill="none" stroke="%s" stroke-width="1.8" d="`, color)
	for k, pt := range s.points {
		fmt.Fprintf(b, "%c%.1f %.1f", "ML"[min(k, 1)], x(pt.x), y(pt.y))
	}
	b.WriteString(`"/>`)
	lx, ly := left+float64(i%5)*100, height+10+20*float64(i/5)
	fmt.Fprintf(b, `<path d="M%.1f %.1fh16" stroke="%s" stroke-width="3"/><text x="%.1f" y="%.1f">%s</text>`, lx, ly-4, color, lx+20, ly, escape(s.name))
}

// ticks returns round numbers from lo to hi.
func ticks(lo, hi float64) (out []float64) {
	step := math.Pow(10, math.Floor(math.Log10((hi-lo)/4)))
	for _, m := range []float64{1, 2, 5, 10} {
		if (hi-lo)/(step*m) <= 6 {
			step *= m
			break
		}
	}
	for k := math.Ceil(lo / step); k*step <= hi*(1+1e-9); k++ {
		out = append(out, math.Round(k*step*1e6)/1e6)
	}
	return out
}

func logTicks(lo, hi float64) (out []float64) {
	for d := math.Floor(math.Log10(lo)); d <= math.Ceil(math.Log10(hi)); d++ {
		for _, m := range []float64{1, 2, 5} {
			if v := m * math.Pow(10, d); v >= lo && v <= hi {
				out = append(out, math.Round(v*1e6)/1e6)
			}
		}
	}
	if len(out) > 9 { // tens only
		tens := out[:0]
		for _, v := range out {
			if l := math.Log10(v); math.Abs(l-math.Round(l)) < 1e-9 {
				tens = append(tens, v)
			}
		}
		out = tens
	}
	return out
}

// heatMaps draws a run's KV caches and queues, replica by replica over time.
func heatMaps(r *fleet.Report) (kv, queue template.HTML) {
	if len(r.Series) == 0 {
		return "no data", "no data"
	}
	most := int32(1)
	for _, p := range r.Series {
		for _, w := range p.Waiting {
			most = max(most, w)
		}
	}
	kv = heatMap(r, func(p fleet.Point, i int) float64 { return float64(p.KV[i]) }, "KV cache")
	queue = heatMap(r, func(p fleet.Point, i int) float64 { return float64(p.Waiting[i]) / float64(most) }, fmt.Sprintf("waiting, dark is %d", most))
	return kv, queue
}

// heatMap draws values from 0 to 1; of several points that share a pixel the
// largest shows.
func heatMap(r *fleet.Report, value func(fleet.Point, int) float64, label string) template.HTML {
	n := len(r.Series[0].KV)
	cols := min(len(r.Series), 480)
	img := image.NewNRGBA(image.Rect(0, 0, cols, n))
	heat := make([]float64, cols*n)
	for k, p := range r.Series {
		c := k * cols / len(r.Series)
		for i := range n {
			heat[c*n+i] = max(heat[c*n+i], value(p, i))
		}
	}
	for c := range cols {
		for i := range n {
			img.SetNRGBA(c, i, shade(heat[c*n+i]))
		}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		return "no data"
	}
	h := min(max(float64(n)*8, 40), 320)
	end := r.Series[len(r.Series)-1].At.Round(time.Second)
	return template.HTML(fmt.Sprintf(`<svg viewBox="0 0 %v %v"><image x="0" y="0" width="%v" height="%v" preserveAspectRatio="none" style="image-rendering:pixelated" href="data:image/png;base64,%s"/><text x="0" y="%v">%s</text><text x="%v" y="%v" text-anchor="end">%v</text></svg>`,
		width, h+20, width, h, base64.StdEncoding.EncodeToString(b.Bytes()), h+15, escape(label), width, h+15, end))
}

// shade goes from near white over blue to near black.
func shade(v float64) color.NRGBA {
	v = min(max(v, 0), 1)
	mix := func(a, b float64) uint8 { return uint8(a + (b-a)*v) }
	return color.NRGBA{mix(243, 20), mix(246, 24), mix(250, 90), 255}
}
