package redisquota

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"time"

	"github.com/expediterhq/expediter/quota"
)

// op is one script call on its way to Redis.
type op struct {
	script *script
	keys   []string
	slot   uint16
	args   []any
	until  time.Time
	gone   atomic.Bool // its caller has left: no need to send it
	done   chan reply  // holds one
}

// reply is the answer to an op, or the reason there is none.
type reply struct {
	val any
	err error
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
	e := &quota.LimitError{Verdict: v.Verdict, ID: r.ID, Cost: r.Cost, After: v.after}
	switch v.Verdict {
	case quota.OK:
		return nil
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

func (s *Store) newOp(sc *script, tenant string, args []any) *op {
	k, sl := keys(s.cfg.Prefix, tenant)
	return &op{script: sc, keys: k, slot: sl, args: args, done: make(chan reply, 1)}
}

func (s *Store) reserveOp(r *quota.Reservation, token uint64) *op {
	w := r.Limit.Windows
	args := make([]any, 0, 5+2*len(w))
	args = append(args, s.keep, string(s.claim(r, token, float64(r.Limit.Concurrency))))
	args = appendFields(args, r)
	for i := range w {
		args = append(args, string(doubles(nil, w[i].Rate, float64(w[i].Burst))))
	}
	return s.newOp(s.reserve, r.Tenant, args)
}

// settleOp ends r; known says that an id Redis does not know is one it has
// forgotten.
func (s *Store) settleOp(r *quota.Reservation, used int64, known bool) *op {
	k := 0.0
	if known {
		k = 1
	}
	args := make([]any, 0, 5+2*len(r.Limit.Windows))
	args = append(args, s.keep, string(doubles(nil, float64(used), k)))
	return s.newOp(s.settle, r.Tenant, appendRates(appendFields(args, r), r))
}

func (s *Store) renewOp(r *quota.Reservation, token uint64) *op {
	args := make([]any, 0, 5+2*len(r.Limit.Windows))
	args = append(args, s.keep, string(s.claim(r, token)))
	return s.newOp(s.renew, r.Tenant, appendRates(appendFields(args, r), r))
}

// claim is what r asks for, as the scripts read it.
func (s *Store) claim(r *quota.Reservation, token uint64, more ...float64) []byte {
	b := doubles(make([]byte, 0, 40), float64(r.Cost), float64(r.Used))
	b = binary.BigEndian.AppendUint64(b, token)
	return doubles(doubles(b, lease(r)), more...)
}

func doubles(b []byte, fs ...float64) []byte {
	for _, f := range fs {
		b = binary.BigEndian.AppendUint64(b, math.Float64bits(f))
	}
	return b
}

// appendFields adds the fields of r's windows in one string, and the fields that
// the scripts read first.
func appendFields(args []any, r *quota.Reservation) []any {
	w := r.Limit.Windows
	fields := make([]string, len(w))
	for i := range w {
		fields[i] = "w:" + escape(w[i].Name)
	}
	args = append(args, strings.Join(fields, " "), "h", "r:"+r.ID)
	for _, f := range fields {
		args = append(args, f)
	}
	return args
}

func appendRates(args []any, r *quota.Reservation) []any {
	for i := range r.Limit.Windows {
		args = append(args, string(doubles(nil, r.Limit.Windows[i].Rate)))
	}
	return args
}

// lease is r's term in microseconds, rounded up.
func lease(r *quota.Reservation) float64 {
	return float64((r.Term() + time.Microsecond - 1) / time.Microsecond)
}
