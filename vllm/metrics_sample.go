package vllm

import (
	"bytes"
	"math"
	"strconv"
	"strings"
)

// sample reads what follows a metric's name: labels, value, and perhaps a
// time stamp. Values that are not finite, below zero or beyond what a float
// counts exactly are none.
func sample(b []byte) (l labels, v float64, ok bool) {
	if len(b) > 0 && b[0] == '{' {
		if b, ok = l.read(b[1:]); !ok {
			return l, 0, false
		}
	}
	b = bytes.TrimLeft(b, " \t")
	if end := bytes.IndexAny(b, " \t\r"); end >= 0 {
		b = b[:end]
	}
	v, err := strconv.ParseFloat(string(b), 64)
	if err != nil || !(v >= 0) || math.IsInf(v, 0) || v >= 1<<53 {
		return l, 0, false
	}
	return l, v, true
}

// read reads labels up to the closing brace and returns what follows it.
func (l *labels) read(b []byte) ([]byte, bool) {
	for {
		b = bytes.TrimLeft(b, " \t,")
		if len(b) == 0 {
			return nil, false
		}
		if b[0] == '}' {
			return b[1:], true
		}
		eq := bytes.IndexByte(b, '=')
		if eq < 0 || eq+1 >= len(b) || b[eq+1] != '"' {
			return nil, false
		}
		name := b[:eq]
		b = b[eq+2:]
		end := closingQuote(b)
		if end < 0 {
			return nil, false
		}
		l.set(name, b[:end:end])
		b = b[end+1:]
	}
}

// closingQuote is the offset of the first quote that is not escaped.
func closingQuote(b []byte) int {
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return -1
}

func (l *labels) set(name, value []byte) {
	switch string(name) {
	case "engine":
		l.engine = value
	case "reason":
		l.reason = value
	case "source":
		l.source = value
	case "sleep_state":
		l.sleep = value
	case "kv_cache_size_tokens":
		l.tokens = value
	case "num_gpu_blocks":
		l.blocks = value
	case "block_size":
		l.blockSize = value
	case "max_lora":
		l.maxLoRA = value
	case "running_lora_adapters":
		l.runningLoRA = value
	case "waiting_lora_adapters":
		l.waitingLoRA = value
	}
}

// unescapeLabel returns a label's text.
func unescapeLabel(b []byte) string {
	if bytes.IndexByte(b, '\\') < 0 {
		return string(b)
	}
	return strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "\n").Replace(string(b))
}
