package quotatest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/expediterhq/expediter/quota"
)

func testRefusals(t *testing.T, b *bench) {
	l := limit(0, 1000, 2)
	first := b.res("first", 600, l)
	b.want(first, quota.OK)
	for range 50 {
		b.want(first, quota.Duplicate)
		b.want(b.res(unique(), 401, l), quota.OverQuota)
		b.want(b.res(unique(), 1001, l), quota.Never)
		for _, cost := range []int64{0, -1, -1_000_000, math.MinInt64, quota.MaxTokens + 1, math.MaxInt64} {
			b.want(b.res(unique(), cost, l), quota.Bad)
		}
	}
	b.room(l, 400)
	b.want(b.res("second", 1, l), quota.OK)
	if e := b.want(b.res("third", 1, l), quota.OverConcurrency); e.Limit != 2 || !e.CanFit() || e.RetryAfter() <= 0 {
		t.Errorf("over concurrency: limit %d, retry after %v", e.Limit, e.RetryAfter())
	}
	b.want(b.res("third", 600, l), quota.OverQuota)
	b.audit(2, 601, 0)
	if e := b.want(b.res("fourth", 2000, l), quota.Never); e.Window != "w" || e.Limit != 1000 || e.Cost != 2000 || e.CanFit() || e.RetryAfter() != 0 {
		t.Errorf("never: %+v", e)
	}
	b.want(b.res("fifth", 1, limit(5, 0, 0)), quota.Never)
	if err := b.st.Settle(background, first, -1); err == nil {
		t.Error("Settle of -1 tokens was accepted")
	}
	b.audit(2, 601, 0)
}

func testSettle(t *testing.T, b *bench) {
	l := limit(0, 10_000, 0)
	for _, tt := range []struct{ cost, used int64 }{{1000, 1000}, {1000, 1}, {1000, 0}, {1, 1}, {500, 700}} {
		before := int64(10_000)
		b.tenant = unique()
		r := b.res("r", tt.cost, l)
		b.want(r, quota.OK)
		b.room(l, before-tt.cost)
		b.audit(1, tt.cost, 0)
		b.settle(r, tt.used)
		b.room(l, before-tt.used)
		b.audit(0, 0, tt.used)
	}
}

func testIdempotent(t *testing.T, b *bench) {
	l := limit(0, 1000, 0)
	r := b.res("r", 600, l)
	b.want(r, quota.OK)
	b.settle(r, 100)
	b.settle(r, 100)
	b.settle(r, 0)
	b.settle(r, 600)
	b.renew(r)
	b.want(r, quota.Settled)
	b.room(l, 900)
	b.audit(0, 0, 100)
}

func testLateReserve(t *testing.T, b *bench) {
	l := limit(0, 1000, 0)
	r := b.res("r", 600, l)
	b.settle(r, 0)
	b.want(r, quota.Settled)
	b.room(l, 1000)
	b.audit(0, 0, 0)
}

func testUnknown(t *testing.T, b *bench) {
	l := limit(0, 1000, 1)
	r := b.res("r", 600, l)
	b.settle(r, 400)
	b.settle(r, 400)
	b.room(l, 600)
	b.audit(0, 0, 400)
	// An unknown one that is renewed is running: it is held, even without room.
	r2, r3 := b.res("r2", 500, l), b.res("r3", 500, l)
	b.renew(r2, r3)
	b.audit(2, 1000, 400)
	b.want(b.res("r4", 1, l), quota.OverQuota)
	b.settle(r2, 0)
	b.settle(r3, 0)
	b.room(l, 600)
	b.audit(0, 0, 400)
}

func testWindows(t *testing.T, b *bench) {
	l := quota.Limit{Windows: []quota.Window{
		{Name: "minute", Burst: 1000}, {Name: "day", Burst: 1500}, {Name: "model llama/70b", Burst: 800},
	}}
	r := b.res("r", 700, l)
	b.want(r, quota.OK)
	if e := b.want(b.res("x", 200, l), quota.OverQuota); e.Window != "model llama/70b" || e.Limit != 800 {
		t.Errorf("refused by window %q of %d", e.Window, e.Limit)
	}
	other := l
	other.Windows = l.Windows[:2]
	if e := b.want(b.res("x", 400, other), quota.OverQuota); e.Window != "minute" {
		t.Errorf("refused by window %q, want minute", e.Window)
	}
	b.room(other, 300)
	b.settle(r, 650)
	b.room(l, 150)
	b.room(other, 350)
	b.room(quota.Limit{Windows: l.Windows[1:2]}, 850)
	if e := b.want(b.res("x", 801, l), quota.Never); e.Window != "model llama/70b" {
		t.Errorf("never by window %q", e.Window)
	}
	none := b.res("none", quota.MaxTokens, quota.Limit{})
	b.want(none, quota.OK)
	b.settle(none, 5)
	b.room(l, 150)
	b.audit(0, 0, 655)
}

func testLimitChange(t *testing.T, b *bench) {
	wide, narrow := limit(0, 1000, 5), limit(0, 500, 1)
	r := b.res("r", 700, wide)
	b.want(r, quota.OK)
	b.want(b.res("x", 1, narrow), quota.OverQuota)
	b.want(b.res("x", 300, wide), quota.OK)
	b.want(b.res("y", 1, limit(0, 2000, 2)), quota.OverConcurrency)
	b.want(b.res("y", 1000, limit(0, 2000, 3)), quota.OK)
	b.settle(b.res("x", 300, narrow), 0)
	// Settled under another limit: what is given back goes where it was taken.
	renamed := quota.Limit{Windows: []quota.Window{{Name: "new", Burst: 1000}}}
	r.Limit = renamed
	b.settle(r, 200)
	b.room(renamed, 1000)
	b.room(limit(0, 2000, 0), 800)
	b.audit(1, 1000, 200)
}

func testNames(t *testing.T, b *bench) {
	base := unique()
	l := limit(0, 1000, 0)
	tenants := []string{"a", "A", "", "{a}", "{}", "}{", "a b", "a\x00b", "a%20b", "ä", "a:h", "a}:h", "日本", strings.Repeat("x", 150), "%", "%25", "a\n"}
	for i, name := range tenants {
		b.tenant = base + name
		if i == 2 {
			b.tenant = ""
			b.settle(b.res(unique(), 1, quota.Limit{}), 1)
			continue // others may have spent in the name of nobody
		}
		r := b.res("same id", int64(i)+1, l)
		b.want(r, quota.OK)
		b.room(l, 999-int64(i))
	}
	for i, name := range tenants {
		if b.tenant = base + name; i != 2 {
			b.settle(b.res("same id", int64(i)+1, l), 0)
			b.room(l, 1000)
		}
	}
	b.tenant = unique()
	names := []string{"a", "a b", "a  b", "a%20b", "{", "}", "\x00", "ü", "1"}
	for i, name := range names {
		l := quota.Limit{Windows: []quota.Window{{Name: name, Burst: 100}}}
		b.want(b.res(fmt.Sprint("window ", i), int64(i)+1, l), quota.OK)
	}
	for i, name := range names {
		b.room(quota.Limit{Windows: []quota.Window{{Name: name, Burst: 100}}}, 99-int64(i))
	}
}

func testLarge(t *testing.T, b *bench) {
	l := limit(0, quota.MaxTokens, 0)
	r := b.res("r", quota.MaxTokens-1, l)
	b.want(r, quota.OK)
	b.room(l, 1)
	b.want(b.res("one", 1, l), quota.OK)
	b.settle(r, quota.MaxTokens-3)
	b.room(l, 2)
	b.audit(1, 1, quota.MaxTokens-3)
}

func testContext(t *testing.T, b *bench) {
	l := limit(0, 1000, 0)
	cause := errors.New("gone")
	ctx, cancel := context.WithCancelCause(background)
	cancel(cause)
	r := b.res("r", 1000, l)
	if err := b.st.Reserve(ctx, r); !errors.Is(err, cause) && !errors.Is(err, context.Canceled) {
		t.Errorf("Reserve with a cancelled context = %v", err)
	}
	b.room(l, 1000)
	b.want(r, quota.OK)
	if err := b.st.Settle(ctx, r, 0); err != nil {
		t.Errorf("Settle with a cancelled context = %v", err)
	}
	b.room(l, 1000)
}
