package quota

import (
	"math"
	"time"
)

// maxStepBack is how far a meter's clock may be set back before the meter
// follows it. Within it the meter waits for the clock to catch up, so that no
// span of time is counted twice.
const maxStepBack = int64(time.Minute)

// maxAfter bounds the wait that a LimitError names.
const maxAfter = 24 * time.Hour

// meter is a token bucket seen from the other side: what is spent, which drains
// at rate. The zero value has spent nothing.
type meter struct {
	spent float64 // tokens, never negative; above burst when a debt had to be taken
	at    int64   // nanoseconds, when spent was right
	rate  float64 // tokens per second since at
}

// drain brings the meter to now.
func (m *meter) drain(now int64) {
	d := now - m.at
	if d <= 0 {
		if d < -maxStepBack {
			m.at = now
		}
		return
	}
	m.spent = max(m.spent-m.rate*float64(d)/1e9, 0)
	m.at = now
}

// add takes n tokens, or gives them back when n is negative.
func (m *meter) add(n float64) { m.spent = max(m.spent+n, 0) }

// wait returns how long a drained meter needs until cost fits in w: 0 when it
// does now, negative when no time will do.
func (m *meter) wait(w *Window, cost int64) time.Duration {
	lack := float64(cost) - (float64(w.Burst) - m.spent)
	if lack <= 0 {
		return 0
	}
	if w.Rate == 0 {
		return -1
	}
	// What rounding may take away is asked for as well, so that the wait is enough.
	lack += (m.spent + float64(cost)) * 0x1p-50
	d := math.Ceil(lack/w.Rate*1e9) + 1e3
	if d > float64(maxAfter) {
		return maxAfter
	}
	return time.Duration(d)
}
