package vllm

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"strings"
)

const (
	maxEngines  = 256
	maxAdapters = 4096
	maxTokens   = 1 << 40 // no replica holds or counts more in one gauge
)

// A page is a /metrics page being read.
type page struct {
	m       Metrics
	engines []engine
	store   [8]engine
	seen    bool    // some metric of the engine
	grade   int     // of the best source of CachedTokens so far
	newest  float64 // value of the adapter series kept so far
	running []byte  // its adapters
	waiting []byte
}

// engine is what one data-parallel rank shows.
type engine struct {
	rank                       []byte
	running, waiting, deferred float64
	usage, oldUsage            float64
	hasUsage                   bool
	tokens, blocks, blockSize  float64
}

// labels are the labels of one series that matter to some metric.
type labels struct {
	engine, reason, source, sleep     []byte
	tokens, blocks, blockSize         []byte
	maxLoRA, runningLoRA, waitingLoRA []byte
}

func parseMetrics(b []byte) (Metrics, error) {
	var p page
	p.engines = p.store[:0]
	for len(b) > 0 {
		end := bytes.IndexByte(b, '\n')
		if end < 0 {
			break // cut short: the number on it may be too
		}
		p.line(b[:end])
		b = b[end+1:]
	}
	if !p.seen {
		return Metrics{}, ErrNoMetrics
	}
	p.finish()
	return p.m, nil
}

// line reads one line of the page.
func (p *page) line(b []byte) {
	const own, process = "vllm:", "process_start_time_seconds"
	switch {
	case len(b) > len(own) && string(b[:len(own)]) == own:
		b = b[len(own):]
	case len(b) > len(process) && string(b[:len(process)]) == process:
		if _, v, ok := sample(b[len(process):]); ok {
			p.m.Started = v
		}
		return
	default:
		return
	}
	end := 0
	for end < len(b) && b[end] != '{' && b[end] != ' ' && b[end] != '\t' {
		end++
	}
	name := b[:end]
	if !wanted(name) {
		p.seen = p.seen || len(name) > 0
		return
	}
	if l, v, ok := sample(b[end:]); ok {
		p.seen = true
		p.series(bytes.TrimSuffix(name, []byte("_total")), &l, v)
	}
}

// wanted tells the dozen metrics that count from the hundreds of lines that do not.
func wanted(name []byte) bool {
	switch string(name) {
	case "num_requests_running", "num_requests_waiting", "num_requests_waiting_by_reason",
		"kv_cache_usage_perc", "gpu_cache_usage_perc",
		"prefix_cache_hits_total", "prefix_cache_hits", "gpu_prefix_cache_hits_total", "gpu_prefix_cache_hits",
		"num_preemptions_total", "num_preemptions", "iteration_tokens_total_count",
		"prompt_tokens_total", "prompt_tokens", "generation_tokens_total", "generation_tokens",
		"prompt_tokens_cached_total", "prompt_tokens_cached",
		"prompt_tokens_by_source_total", "prompt_tokens_by_source",
		"engine_sleep_state", "cache_config_info", "lora_requests_info":
		return true
	}
	return false
}

// series takes one value of a wanted metric.
func (p *page) series(name []byte, l *labels, v float64) {
	switch string(name) {
	case "iteration_tokens_total_count":
		p.m.Steps += uint64(v)
		p.m.CountsSteps = true
	case "num_preemptions":
		p.m.Preemptions += uint64(v)
	case "prompt_tokens":
		p.m.PromptTokens += v
	case "generation_tokens":
		p.m.GeneratedTokens += v
	case "prompt_tokens_cached":
		p.cached(4, v)
	case "prompt_tokens_by_source":
		if s := string(l.source); s == "local_cache_hit" || s == "external_kv_transfer" {
			p.cached(3, v)
		}
	case "prefix_cache_hits":
		p.cached(2, v)
	case "gpu_prefix_cache_hits":
		p.cached(1, v)
	case "engine_sleep_state":
		asleep := string(l.sleep) == "weights_offloaded" || string(l.sleep) == "discard_all"
		p.m.Asleep = p.m.Asleep || asleep && v > 0
	case "lora_requests_info":
		p.lora(l, v)
	default:
		if e := p.engine(l.engine); e != nil {
			e.gauge(name, l, v)
		}
	}
}

// cached takes a count of cached prompt tokens. Releases differ in what they
// show; of several sources only the one of the highest grade counts.
func (p *page) cached(grade int, v float64) {
	if grade > p.grade {
		p.grade, p.m.CachedTokens = grade, 0
	}
	if grade == p.grade {
		p.m.CachedTokens += v
	}
}

// gauge takes a value of one engine. A gauge may have a series for each
// server process, of which one is current and the others are zero.
func (e *engine) gauge(name []byte, l *labels, v float64) {
	switch string(name) {
	case "num_requests_running":
		e.running = max(e.running, v)
	case "num_requests_waiting":
		e.waiting = max(e.waiting, v)
	case "num_requests_waiting_by_reason":
		if string(l.reason) == "deferred" {
			e.deferred = max(e.deferred, v)
		}
	case "kv_cache_usage_perc":
		e.usage, e.hasUsage = max(e.usage, v), true
	case "gpu_cache_usage_perc":
		e.oldUsage = max(e.oldUsage, v)
	case "cache_config_info":
		e.tokens = max(e.tokens, number(l.tokens))
		e.blocks = max(e.blocks, number(l.blocks))
		e.blockSize = max(e.blockSize, number(l.blockSize))
	}
}

// engine finds or adds the engine of a rank; nil if there are too many.
func (p *page) engine(rank []byte) *engine {
	for i := range p.engines {
		if bytes.Equal(p.engines[i].rank, rank) {
			return &p.engines[i]
		}
	}
	if len(p.engines) == maxEngines {
		return nil
	}
	p.engines = append(p.engines, engine{rank: rank})
	return &p.engines[len(p.engines)-1]
}

// lora keeps the newest series: a new combination of adapters makes a new
// series, whose value is the time, and the old ones stay for ever.
func (p *page) lora(l *labels, v float64) {
	if v < p.newest {
		return
	}
	p.newest = v
	p.m.MaxLoRA = int(min(number(l.maxLoRA), MaxCount))
	p.running, p.waiting = l.runningLoRA, l.waitingLoRA
}

// plus adds counts as far as an int can.
func plus(a int, b float64) int { return int(min(int64(a)+int64(b), math.MaxInt)) }

// finish adds up the engines.
func (p *page) finish() {
	m := &p.m
	var usage, weight float64
	for i := range p.engines {
		e := &p.engines[i]
		m.Engines++
		m.Running = plus(m.Running, min(e.running, MaxCount))
		m.Waiting = plus(m.Waiting, min(e.waiting, MaxCount))
		m.Deferred = plus(m.Deferred, min(e.deferred, MaxCount))
		tokens := e.tokens
		if tokens == 0 && e.blocks > 1 { // one block is never usable
			tokens = (e.blocks - 1) * e.blockSize
		}
		tokens = min(tokens, maxTokens)
		m.KVTokens = plus(m.KVTokens, tokens)
		m.BlockSize = max(m.BlockSize, int(min(e.blockSize, MaxCount)))
		if !e.hasUsage {
			e.usage = e.oldUsage
		}
		usage += min(e.usage, 1) * max(tokens, 1)
		weight += max(tokens, 1)
	}
	if weight > 0 {
		m.KVUsage = min(usage/weight, 1)
	}
	m.Adapters = appendAdapters(appendAdapters(nil, p.running), p.waiting)
}

// appendAdapters appends the names of a comma-separated list that dst lacks.
func appendAdapters(dst []string, list []byte) []string {
	for name := range strings.SplitSeq(unescapeLabel(list), ",") {
		name = strings.TrimSpace(name)
		if name == "" || len(dst) == maxAdapters || slices.Contains(dst, name) {
			continue
		}
		dst = append(dst, name)
	}
	return dst
}

// number reads a label that should hold a count; what does not is zero.
func number(label []byte) float64 {
	v, err := strconv.ParseFloat(string(label), 64)
	if err != nil || !(v > 0) || math.IsInf(v, 0) {
		return 0
	}
	return min(v, maxTokens)
}
