package usage

import (
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/expediterhq/expediter"
)

// AppendJSON appends the JSON form of r to dst, without a line end.
func AppendJSON(dst []byte, r *expediter.Record) []byte {
	w := writer{append(dst, '{')}
	w.text("id", r.ID)
	w.field("time")
	w.b = append(w.b, '"')
	w.b = r.Time.UTC().AppendFormat(w.b, time.RFC3339Nano)
	w.b = append(w.b, '"')
	w.text("endpoint", r.Endpoint)
	w.bool("stream", r.Stream)
	w.text("tenant", r.Tenant)
	w.int("tier", int64(r.Tier))
	w.text("model", r.Model)
	w.text("served", r.Served)
	w.text("pool", r.Pool)
	w.text("adapter", r.Adapter)
	w.text("replica", r.Replica)
	w.field("generation")
	w.b = strconv.AppendUint(w.b, r.Generation, 10)
	w.int("attempts", int64(r.Attempts))
	w.int("input_tokens", int64(r.Input))
	w.int("cached_tokens", int64(r.Cached))
	w.int("predicted_cached_tokens", int64(r.Predicted))
	w.int("output_tokens", int64(r.Output))
	w.bool("estimated", r.Estimated)
	w.bool("approximate", r.Approximate)
	w.int("reserved", r.Reserved)
	w.int("charged", r.Charged)
	w.millis("queue_wait_ms", r.QueueWait)
	w.millis("ttft_ms", r.TTFT)
	w.millis("tpot_ms", r.TPOT)
	w.millis("total_ms", r.Total)
	w.text("objective", string(r.Objective))
	w.text("status", string(r.Status))
	w.int("http_status", int64(r.HTTPStatus))
	w.text("finish_reason", r.FinishReason)
	w.text("ended_by", string(r.EndedBy))
	w.text("error", r.Error)
	return append(w.b, '}')
}

// writer appends the fields of one JSON object to b.
type writer struct{ b []byte }

func (w *writer) field(name string) {
	if w.b[len(w.b)-1] != '{' {
		w.b = append(w.b, ',')
	}
	w.b = append(w.b, '"')
	w.b = append(w.b, name...)
	w.b = append(w.b, '"', ':')
}

func (w *writer) int(name string, v int64) {
	w.field(name)
	w.b = strconv.AppendInt(w.b, v, 10)
}

func (w *writer) bool(name string, v bool) {
	w.field(name)
	w.b = strconv.AppendBool(w.b, v)
}

// millis writes d in milliseconds with as many of six decimals as it needs.
func (w *writer) millis(name string, d time.Duration) {
	w.field(name)
	u := uint64(d)
	if d < 0 {
		w.b = append(w.b, '-')
		u = -u
	}
	w.b = strconv.AppendUint(w.b, u/1e6, 10)
	rest := u % 1e6
	if rest == 0 {
		return
	}
	w.b = append(w.b, '.')
	for digit := uint64(1e5); rest > 0; digit /= 10 {
		w.b = append(w.b, byte('0'+rest/digit))
		rest %= digit
	}
}

// text writes a string with the escapes of RFC 8259. What is not UTF-8
// becomes U+FFFD.
func (w *writer) text(name, s string) {
	const hex = "0123456789abcdef"
	w.field(name)
	w.b = append(w.b, '"')
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == '"' || c == '\\':
			w.b = append(w.b, '\\', c)
		case c < ' ' || c == 0x7f:
			w.b = append(w.b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		case c < utf8.RuneSelf:
			w.b = append(w.b, c)
		default:
			r, size := utf8.DecodeRuneInString(s[i:])
			w.b = utf8.AppendRune(w.b, r)
			i += size
			continue
		}
		i++
	}
	w.b = append(w.b, '"')
}
