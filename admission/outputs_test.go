package admission_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/expediterhq/expediter/admission"
)

func TestOutputs(t *testing.T) {
	var o admission.Outputs
	expect := func(tenant string, limit, want int) {
		t.Helper()
		if got := o.Expect(tenant, limit); got != want {
			t.Errorf("Expect(%s, %d) = %d, want %d", tenant, limit, got, want)
		}
	}
	expect("a", 4096, 256)
	expect("a", 16, 16)
	for range 7 {
		o.Observe("a", 1000)
	}
	o.Observe("a", 0)
	o.Observe("a", -5)
	expect("a", 4096, 256) // too few
	o.Observe("a", 1000)
	expect("a", 4096, 1024)
	expect("a", 100, 100)
	expect("b", 4096, 256)
	for range 8 {
		o.Observe("one", 1)
		o.Observe("huge", math.MaxInt)
	}
	expect("one", 4096, 1)
	if got := o.Expect("huge", math.MaxInt); got < 1<<21 {
		t.Errorf("Expect(huge) = %d", got)
	}
	// Habits change: after a window or two the old ones do not count.
	for range 2500 {
		o.Observe("a", 30)
	}
	expect("a", 4096, 32)
}

// TestOutputsAgainstSorting: the answer is at least the quantile and less than
// half above it.
func TestOutputsAgainstSorting(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var o admission.Outputs
		n := 8 + rnd.IntN(400)
		all := make([]int, n)
		for i := range all {
			all[i] = 1 + int(math.Exp(rnd.NormFloat64()+5))
			o.Observe("t", all[i])
		}
		slices.Sort(all)
		q := all[int(math.Ceil(0.9*float64(n)))-1]
		if got := o.Expect("t", 1<<30); float64(got) < float64(q)-1 || float64(got) > 1.42*float64(q)+1 {
			t.Errorf("Expect = %d, want %d to %.0f", got, q, 1.42*float64(q))
		}
	}
}

func TestOutputsOfManyTenants(t *testing.T) {
	var o admission.Outputs
	for i := range 5000 {
		o.Observe(fmt.Sprint(i), 100)
	}
	for range 8 {
		o.Observe("0", 100)
	}
	// Those without a history of their own share one.
	if a, b := o.Expect("0", 1000), o.Expect("never seen", 1000); a != 128 || b != 128 {
		t.Errorf("Expect = %d and %d, want 128 and 128", a, b)
	}
}
