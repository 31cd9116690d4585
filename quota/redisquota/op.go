package redisquota

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/expediterhq/expediter/quota"
)

// op is one script call on its way to Redis. It is used again once its answer has
// been received.
type op struct {
	script *script
	slot   uint16
	args   []any // of the command
	until  time.Time
	stage  atomic.Int32
	done   chan reply // holds one
	timer  *time.Timer

	err    error // of the last attempt
	unsure bool  // an attempt before it may have reached Redis
	mute   bool  // its failure says nothing about Redis

	buf  []byte   // the arguments, one after the other
	cuts []int    // where each ends
	text []string // the same, cut; args point to them
}

// The stages of an op.
const (
	queued int32 = iota
	taken        // to be sent, or sent
	left         // its caller has gone before that
)

// reply is the answer to an op, or the reason there is none.
type reply struct {
	val  any
	err  error
	sent bool // it may have reached Redis
}

// verdict is what a script said.
type verdict struct {
	quota.Verdict
	window int // from 1
	after  time.Duration
}

// parse reads a script's answer: 0, or three integers.
func (r reply) parse() (verdict, error) {
	if r.err != nil {
		return verdict{}, r.err
	}
	if n, ok := r.val.(int64); ok && n == 0 {
		return verdict{}, nil
	}
	l, ok := r.val.([]any)
	if !ok || len(l) != 3 {
		return verdict{}, fmt.Errorf("redisquota: script answered %T", r.val)
	}
	var n [3]int64
	for i, v := range l {
		if n[i], ok = v.(int64); !ok {
			return verdict{}, fmt.Errorf("redisquota: script answered a %T", v)
		}
	}
	return verdict{quota.Verdict(n[0]), int(n[1]), time.Duration(n[2]) * time.Microsecond}, nil
}

// limitError turns what a script said about r into what callers see.
func (v verdict) limitError(r *quota.Reservation) error {
	if v.Verdict == quota.OK {
		return nil
	}
	e := &quota.LimitError{Verdict: v.Verdict, ID: r.ID, Cost: r.Cost, After: v.after}
	switch v.Verdict {
	case quota.OverQuota, quota.Never:
		if v.window < 1 || v.window > len(r.Limit.Windows) {
			return errors.New("redisquota: script named no window")
		}
		w := &r.Limit.Windows[v.window-1]
		e.Window, e.Limit = w.Name, w.Burst
	case quota.OverConcurrency:
		e.Limit = int64(r.Limit.Concurrency)
	case quota.Bad:
		e.Detail = "refused by the script"
	}
	return e
}

// newOp begins a call of sc for the tenant.
func (s *Store) newOp(sc *script, tenant string) *op {
	o, _ := s.ops.Get().(*op)
	if o == nil {
		o = &op{done: make(chan reply, 1)}
	}
	o.script, o.buf, o.cuts = sc, o.buf[:0], o.cuts[:0]
	o.err, o.unsure, o.mute = nil, false, false
	o.stage.Store(queued)
	var from, to int
	o.buf, from, to = appendKey(o.buf, s.cfg.Prefix, tenant, 'h')
	o.slot = slot(o.buf[from:to])
	o.cut()
	o.buf, _, _ = appendKey(o.buf, s.cfg.Prefix, tenant, 'z')
	o.cut()
	return o
}

// cut ends an argument.
func (o *op) cut() { o.cuts = append(o.cuts, len(o.buf)) }

// add adds a whole argument.
func (o *op) add(b string) {
	o.buf = append(o.buf, b...)
	o.cut()
}

// seal makes the command of what was added: one string holds all of it.
func (s *Store) seal(o *op) *op {
	all, from := string(o.buf), 0
	o.text = o.text[:0]
	for _, to := range o.cuts {
		o.text = append(o.text, all[from:to])
		from = to
	}
	o.args = append(o.args[:0], "evalsha", o.script.arg, 2, o.text[0], o.text[1], s.keep)
	for i := 2; i < len(o.text); i++ {
		o.args = append(o.args, &o.text[i])
	}
	return o
}

func (s *Store) reserveOp(r *quota.Reservation, token uint64) *op {
	o := s.newOp(s.reserve, r.Tenant)
	o.claim(r, token)
	o.buf = appendDouble(o.buf, float64(r.Limit.Concurrency))
	o.cut()
	o.fields(r)
	for i := range r.Limit.Windows {
		w := &r.Limit.Windows[i]
		o.buf = appendDouble(appendDouble(o.buf, w.Rate), float64(w.Burst))
		o.cut()
	}
	return s.seal(o)
}

// settleOp ends r; known says that an id Redis does not know is one it has
// forgotten.
func (s *Store) settleOp(r *quota.Reservation, used int64, known bool) *op {
	o := s.newOp(s.settle, r.Tenant)
	k := 0.0
	if known {
		k = 1
	}
	o.buf = appendDouble(appendDouble(o.buf, float64(used)), k)
	o.cut()
	o.fields(r)
	o.rates(r)
	return s.seal(o)
}

func (s *Store) renewOp(r *quota.Reservation, token uint64) *op {
	o := s.newOp(s.renew, r.Tenant)
	o.claim(r, token)
	o.cut()
	o.fields(r)
	o.rates(r)
	return s.seal(o)
}

func (s *Store) balanceOp(tenant string) *op {
	o := s.newOp(s.balance, tenant)
	for _, a := range []string{"", "", "h", ""} {
		o.add(a)
	}
	return s.seal(o)
}

// claim adds what r asks for; the argument is not ended.
func (o *op) claim(r *quota.Reservation, token uint64) {
	o.buf = appendDouble(appendDouble(o.buf, float64(r.Cost)), float64(r.Used))
	o.buf = binary.BigEndian.AppendUint64(o.buf, token)
	// The lease in microseconds, rounded up.
	o.buf = appendDouble(o.buf, float64((r.Term()+time.Microsecond-1)/time.Microsecond))
}

// fields adds the fields of r's windows in one argument, and the fields that the
// scripts read first.
func (o *op) fields(r *quota.Reservation) {
	for i := range r.Limit.Windows {
		if i > 0 {
			o.buf = append(o.buf, ' ')
		}
		o.buf = appendEscaped(append(o.buf, "w:"...), r.Limit.Windows[i].Name)
	}
	o.cut()
	o.add("h")
	o.buf = append(o.buf, "r:"...)
	o.add(r.ID)
	for i := range r.Limit.Windows {
		o.buf = appendEscaped(append(o.buf, "w:"...), r.Limit.Windows[i].Name)
		o.cut()
	}
}

func (o *op) rates(r *quota.Reservation) {
	for i := range r.Limit.Windows {
		o.buf = appendDouble(o.buf, r.Limit.Windows[i].Rate)
		o.cut()
	}
}

func appendDouble(b []byte, f float64) []byte {
	return binary.BigEndian.AppendUint64(b, math.Float64bits(f))
}
