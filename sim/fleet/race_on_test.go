//go:build race

package fleet

// Raced says that the race detector is on, which makes simulation 20 times as slow.
const Raced = true
