//go:build !race

package trace_test

// raced says that the race detector is on, which makes simulation 20 times as slow.
const raced = false
