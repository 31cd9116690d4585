package quota

import (
	"fmt"
	"math"
)

// Cost is the price, in priced tokens, of input prompt tokens and of n answers
// of output tokens each: input*perInput + n*output*perOutput, rounded up, at
// least 1. It refuses negative counts, prices that are negative or not finite,
// and results above MaxTokens.
func Cost(input, n, output int64, perInput, perOutput float64) (int64, error) {
	switch {
	case input < 0 || input > MaxTokens:
		return 0, bad("input", "%d: want 0 to %d tokens", input, int64(MaxTokens))
	case n < 0 || n > MaxTokens:
		return 0, bad("n", "%d: want 0 to %d", n, int64(MaxTokens))
	case output < 0 || output > MaxTokens:
		return 0, bad("output", "%d: want 0 to %d tokens", output, int64(MaxTokens))
	case !price(perInput):
		return 0, bad("input price", "%v: want a finite number, 0 or more", perInput)
	case !price(perOutput):
		return 0, bad("output price", "%v: want a finite number, 0 or more", perOutput)
	}
	c := math.Ceil(float64(input)*perInput + float64(n)*float64(output)*perOutput)
	if !(c <= MaxTokens) {
		return 0, bad("cost", "%v: want at most %d tokens", c, int64(MaxTokens))
	}
	return max(int64(c), 1), nil
}

func price(p float64) bool { return p >= 0 && !math.IsInf(p, 1) }

func bad(field, format string, args ...any) *LimitError {
	return &LimitError{Verdict: Bad, Detail: field + " " + fmt.Sprintf(format, args...)}
}
