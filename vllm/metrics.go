package vllm

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/expediterhq/expediter/registry"
)

// MaxMetricsPage is the largest page ParseMetrics reads, in bytes. A real one
// has 50 to 150 KB.
const MaxMetricsPage = 8 << 20

// The errors of reading metrics.
var (
	ErrNoMetrics    = errors.New("vllm: the page has no metric of the engine")
	ErrMetricsLarge = fmt.Errorf("vllm: the page of metrics is larger than %d bytes", MaxMetricsPage)
)

// Metrics is what one /metrics page says about a replica. Where the page
// shows several data-parallel engines, counts are their sums and KVUsage is
// the share of all their blocks together. Of a metric that the page lacks the
// value is zero.
type Metrics struct {
	Running  int // requests in the running set
	Waiting  int // requests queued in the engine, those put off included
	Deferred int // of Waiting, put off for another reason than room: an adapter slot, a transfer, a grammar
	Engines  int // engines that reported

	KVUsage   float64 // share of usable blocks held by requests, 0 to 1
	KVTokens  int     // capacity in tokens
	BlockSize int     // tokens

	Steps           uint64  // engine steps since the start
	CountsSteps     bool    // the page shows Steps, so that 0 is none yet
	Preemptions     uint64  // counter
	PromptTokens    float64 // counter, cached ones included
	CachedTokens    float64 // counter, prompt tokens found in the prefix cache
	GeneratedTokens float64 // counter

	MaxLoRA  int      // adapters on the GPU at a time; 0 without LoRA
	Adapters []string // adapters with requests in flight
	Asleep   bool     // some engine's weights are offloaded

	Started float64 // start of the server process in Unix seconds; 0 = not shown
}

// State returns the metrics as the registry wants them; at is when the page
// was received.
func (m *Metrics) State(at time.Time) registry.State {
	return registry.State{
		At: at, Running: m.Running, Waiting: m.Waiting,
		KVUsage: m.KVUsage, KVTokens: m.KVTokens, BlockSize: m.BlockSize,
		Steps: m.Steps, CountsSteps: m.CountsSteps, Preemptions: m.Preemptions,
		GeneratedTokens: m.GeneratedTokens, PromptTokens: m.PromptTokens, CachedTokens: m.CachedTokens,
		MaxLoRA: m.MaxLoRA, Adapters: m.Adapters, Asleep: m.Asleep,
	}
}

// ParseMetrics reads a page to its end. Lines that make no sense are passed
// over; a page without any metric of the engine is ErrNoMetrics.
func ParseMetrics(r io.Reader) (Metrics, error) {
	page, err := readPage(nil, r)
	if err != nil {
		return Metrics{}, err
	}
	return parseMetrics(page)
}

// readPage appends all of r to buf, up to the limit.
func readPage(buf []byte, r io.Reader) ([]byte, error) {
	for {
		if len(buf) == cap(buf) {
			grown := make([]byte, len(buf), max(2*cap(buf), 128<<10))
			copy(grown, buf)
			buf = grown
		}
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case len(buf) > MaxMetricsPage:
			return buf, ErrMetricsLarge
		case err == io.EOF:
			return buf, nil
		case err != nil:
			return buf, fmt.Errorf("vllm: reading metrics: %w", err)
		}
	}
}
