package quota_test

import (
	"math"
	"testing"

	"github.com/expediterhq/expediter/quota"
)

func TestCost(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, tt := range []struct {
		input, n, output    int64
		perInput, perOutput float64
		want                int64 // 0 = refused
	}{
		{100, 1, 50, 1, 1, 150},
		{100, 3, 50, 1, 1, 250},
		{100, 2, 50, 0.5, 3, 350},
		{1, 1, 1, 0.3, 0.3, 1},
		{3, 1, 0, 0.5, 1, 2},
		{0, 0, 0, 1, 1, 1},
		{10, 1, 10, 0, 0, 1},
		{quota.MaxTokens, 0, 0, 1, 1, quota.MaxTokens},
		{quota.MaxTokens, 1, 1, 2, 1, 0},
		{1, 1 << 40, 1 << 40, 1, 1, 0},
		{1, math.MaxInt64, 1, 1, 1, 0},
		{1, 1, math.MaxInt64, 1, 1, 0},
		{-1, 1, 1, 1, 1, 0},
		{1, -1, 1, 1, 1, 0},
		{1, 1, -1_000_000, 1, 1, 0},
		{1, 1, 1, nan, 1, 0},
		{1, 1, 1, 1, nan, 0},
		{1, 1, 1, inf, 1, 0},
		{0, 0, 0, inf, 1, 0},
		{1, 1, 1, -1, 1, 0},
		{1, 1, 1, 1, -0.5, 0},
		{1, 1, 1, math.MaxFloat64, math.MaxFloat64, 0},
	} {
		got, err := quota.Cost(tt.input, tt.n, tt.output, tt.perInput, tt.perOutput)
		if got != tt.want || (err != nil) != (tt.want == 0) {
			t.Errorf("Cost(%d, %d, %d, %v, %v) = %d, %v, want %d", tt.input, tt.n, tt.output, tt.perInput, tt.perOutput, got, err, tt.want)
		}
		if tt.want == 0 && verdict(err) != quota.Bad {
			t.Errorf("Cost refused with %v, want a bad verdict", err)
		}
	}
}

func FuzzCost(f *testing.F) {
	f.Add(int64(100), int64(1), int64(50), 1.0, 2.0)
	f.Add(int64(-1), int64(1<<62), int64(1<<62), math.Inf(1), math.NaN())
	f.Fuzz(func(t *testing.T, input, n, output int64, perInput, perOutput float64) {
		c, err := quota.Cost(input, n, output, perInput, perOutput)
		if err == nil && (c < 1 || c > quota.MaxTokens) || err != nil && c != 0 {
			t.Errorf("Cost = %d, %v", c, err)
		}
	})
}
