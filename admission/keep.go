package admission

import (
	"math"
	"time"
)

// fade is the time in which what others may take shrinks to 1/e, so that
// room adds up whatever they take at first.
const fade = 3 * time.Second

// holdAtMost is how long room is kept for one item. Work that does not fit by
// then is in the way of all others; it must wait as long again.
const holdAtMost = 30 * time.Second

// keep is the one item that room is kept for, and what others may take.
type keep struct {
	item  *Item
	since time.Time
	rate  float64 // tokens per second that others may take at first; below zero, any
	spent float64 // tokens they took
}

// consider keeps room for an item that did not fit, if it has been passed by
// as much as it needs itself and has been so for long enough: a quarter of
// its time, and at most ReserveAfter.
func (l *Line) consider(it *Item, now time.Time) {
	least := l.cfg.ReserveAfter
	if l.keep.item != nil || least < 0 || it.passed < int64(it.Tokens) {
		return
	}
	if !it.Deadline.IsZero() {
		least = min(least, it.Deadline.Sub(it.first)/4)
	}
	if now.Sub(it.first) < least || !it.kept.IsZero() && now.Sub(it.kept) < holdAtMost {
		return
	}
	l.keep = keep{item: it, since: now, rate: l.cfg.Backfill * l.rate.value(now)}
	if it.Keep != nil || l.cfg.Backfill == 1 {
		l.keep.rate = -1
	}
}

// kept is the item that room is kept for, or nil. There is at most one.
func (l *Line) kept() *Item { return l.keep.item }

// allows reports whether an item may be tried while room is kept for another:
// that other itself, higher tiers, and what the backfill leaves.
func (k *keep) allows(it *Item, now time.Time) bool {
	if k.item == nil || k.item == it || k.rate < 0 || it.Tier < k.item.Tier {
		return true
	}
	t := now.Sub(k.since).Seconds() / fade.Seconds()
	return k.spent+float64(it.Tokens) <= k.rate*fade.Seconds()*(1-math.Exp(-t))
}

// spend counts what others take.
func (k *keep) spend(it *Item) {
	if k.item != nil && k.item != it {
		k.spent += float64(it.Tokens)
	}
}

// drop ends the keeping of room for an item that leaves.
func (k *keep) drop(it *Item) {
	if k.item == it {
		*k = keep{}
	}
}

// expire gives up.
func (k *keep) expire(l *Line, now time.Time) {
	if k.item != nil && now.Sub(k.since) >= holdAtMost {
		k.item.kept = now
		l.keep = keep{}
	}
}
