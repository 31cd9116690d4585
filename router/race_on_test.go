//go:build race

package router_test

// sync.Pool drops items at random under the race detector, so that what does
// not allocate without it does with it.
const raceEnabled = true
