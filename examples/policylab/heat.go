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

// mostWaiting is the darkest value of the queue maps, the same for all rules
// so that they can be compared.
func mostWaiting(rows []row) int {
	most := int32(4)
	for _, r := range rows {
		for _, p := range r.cells[0].report.Series {
			for _, w := range p.Waiting {
				most = max(most, w)
			}
		}
	}
	return int(most)
}

// heatMaps draws a run's KV caches and queues, replica by replica over time.
// Queues are drawn by their square root, so that a short one shows beside the
// longest of all rules.
func heatMaps(r *fleet.Report, most int) (kv, queue template.HTML) {
	if len(r.Series) == 0 {
		return "no data", "no data"
	}
	kv = heatMap(r, func(p fleet.Point, i int) float64 { return float64(p.KV[i]) }, "KV cache")
	queue = heatMap(r, func(p fleet.Point, i int) float64 { return math.Sqrt(float64(p.Waiting[i]) / float64(most)) }, "waiting")
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
	return template.HTML(fmt.Sprintf(`<svg viewBox="0 0 %v %v" role="img" aria-label="%s">`+
		`<image width="%v" height="%v" preserveAspectRatio="none" style="image-rendering:pixelated" href="data:image/png;base64,%s"/>`+
		`<text y="%v">0s</text><text x="%v" y="%v" text-anchor="middle">%s</text><text x="%v" y="%v" text-anchor="end">%v</text></svg>`,
		width, h+20, escape(label), width, h, base64.StdEncoding.EncodeToString(b.Bytes()),
		h+15, width/2, h+15, escape(label), width, h+15, end))
}

// legend draws the shades from 0 to 1 with a label under every fourth.
func legend(label func(share float64) string) template.HTML {
	const steps, cell = 16, 20.0
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %v 34">`, width)
	for i := range steps + 1 {
		c := shade(float64(i) / steps)
		x := 12 + cell*float64(i)
		fmt.Fprintf(&b, `<rect x="%v" width="%v" height="14" fill="#%02x%02x%02x"/>`, x, cell, c.R, c.G, c.B)
		if i%4 == 0 {
			fmt.Fprintf(&b, `<text x="%v" y="28" text-anchor="middle">%s</text>`, x+cell/2, escape(label(float64(i)/steps)))
		}
	}
	b.WriteString("</svg>")
	return template.HTML(b.String())
}

// shade goes from near white over blue to near black.
func shade(v float64) color.NRGBA {
	v = min(max(v, 0), 1)
	mix := func(a, b float64) uint8 { return uint8(a + (b-a)*v) }
	return color.NRGBA{mix(243, 20), mix(246, 24), mix(250, 90), 255}
}
