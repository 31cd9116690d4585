package main

import (
	"fmt"
	"html/template"
	"math"
	"strings"
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
	dots           bool // mark the points
	series         []series
}

const (
	width, height            = 560.0, 340.0
	left, right, top, bottom = 56.0, 12.0, 12.0, 44.0
)

// colors and dashes tell the lines apart; with both, two that lie on each
// other still show.
var (
	colors = []string{"#8a93a3", "#4e79a7", "#59a14f", "#f28e2b", "#b07aa1", "#17a2a8", "#d4a800", "#d62f3a", "#9c755f", "#000000"}
	dashes = []string{"", "7 4", "2 3"}
)

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
	fmt.Fprintf(&b, `<svg viewBox="0 0 %v %v" role="img" aria-label="%s">`, width, height+20*math.Ceil(float64(len(p.series))/4), escape(p.xLabel))
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
	style := fmt.Sprintf(`fill="none" stroke="%s" stroke-width="1.8" stroke-dasharray="%s"`, colors[i%len(colors)], dashes[i%len(dashes)])
	fmt.Fprintf(b, `<path %s d="`, style)
	for k, pt := range s.points {
		fmt.Fprintf(b, "%c%.1f %.1f", "ML"[min(k, 1)], x(pt.x), y(pt.y))
	}
	b.WriteString(`"/>`)
	for _, pt := range s.points {
		if p.dots {
			fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="2.6" fill="%s"/>`, x(pt.x), y(pt.y), colors[i%len(colors)])
		}
	}
	lx, ly := left+float64(i%4)*124, height+10+20*float64(i/4)
	fmt.Fprintf(b, `<path d="M%.1f %.1fh26" %s/><text x="%.1f" y="%.1f">%s</text>`, lx, ly-4, style, lx+31, ly, escape(s.name))
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
