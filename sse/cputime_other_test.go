//go:build !unix

package sse_test

import "time"

// cpuTime returns the time of day in nanoseconds, where that of the processor
// is not to be had.
func cpuTime() int64 { return time.Now().UnixNano() }
