package faultbench_test

import "os"

// full is how much of something a test does: usually part of it, all where
// EXPEDITER_FULL is 1.
func full(part, all int) int {
	if os.Getenv("EXPEDITER_FULL") == "1" {
		return all
	}
	return part
}
