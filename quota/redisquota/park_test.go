package redisquota

import (
	"io"
	"testing"
	"time"
)

func TestDebtFailed(t *testing.T) {
	refused := &KeyError{Err: replyError("WRONGTYPE")}
	for _, tt := range []struct {
		name       string
		tries      int // before
		err        error
		sent, away bool
		park       time.Duration // 0 = at once
		wantTries  int
	}{
		{"not sent", 0, errLate, false, false, 0, 0},
		{"never sent", 9, errLate, false, true, 0, 9},
		{"no answer", 0, io.EOF, true, true, 0, 1},
		{"no answer again", 1, io.EOF, true, true, 0, 2},
		{"no answer ever", 2, io.EOF, true, true, 4 * time.Second, 3},
		{"an outage", 0, replyError("LOADING"), true, true, 0, 1},
		{"this slot alone", 0, replyError("CLUSTERDOWN"), true, false, time.Second, 1},
		{"refused", 0, refused, false, false, time.Second, 1},
		{"refused before an outage", 0, refused, false, true, time.Second, 1},
		{"refused again", 3, refused, false, false, 8 * time.Second, 4},
		{"refused for long", 1000, refused, false, false, parkMost, 1001},
	} {
		t.Run(tt.name, func(t *testing.T) {
			now := time.Now()
			d := debt{tries: tt.tries}
			if got := d.failed(tt.err, tt.sent, tt.away, now); got != (tt.park > 0) {
				t.Errorf("failed = %v, want %v", got, tt.park > 0)
			}
			if tt.park > 0 && !d.next.Equal(now.Add(tt.park)) {
				t.Errorf("parked for %v, want %v", d.next.Sub(now), tt.park)
			}
			if d.tries != tt.wantTries || d.sent != tt.sent {
				t.Errorf("tries = %d, sent = %v, want %d, %v", d.tries, d.sent, tt.wantTries, tt.sent)
			}
			if got, want := d.from.IsZero(), d.refused == nil; got != want {
				t.Errorf("refused %v from %v", d.refused, d.from)
			}
		})
	}
}

// A tenant whose keys are broken leaves room for the debts of an outage.
func TestParkedLeaveRoom(t *testing.T) {
	now := time.Now()
	b := backlog{max: 100}
	for range 100 {
		d := debt{used: 2, since: now}
		d.r.Tenant = "acme"
		d.failed(&KeyError{Err: replyError("WRONGTYPE")}, false, false, now)
		b.add(d)
	}
	pending, dropped := b.size()
	if pending > 30 || pending+int(dropped) != 100 {
		t.Errorf("%d pending, %d dropped: want a quarter, and the others dropped", pending, dropped)
	}
	lost := b.losses(now, false)
	if l := lost["acme"]; len(lost) != 1 || l.settlements != int(dropped) || l.tokens != 2*int64(dropped) {
		t.Errorf("losses = %+v, want all %d of acme", lost, dropped)
	}
	if again := b.losses(now, false); again != nil {
		t.Errorf("losses = %+v, told twice", again)
	}
	if !b.add(debt{}) {
		t.Error("no room for another tenant's debt")
	}
	b.unpark(now.Add(time.Second), false)
	if n := len(b.take(1000)); n != pending+1 {
		t.Errorf("%d are due, want %d", n, pending+1)
	}
}
