//go:build !linux || 386

package rawio

import "runtime"

// Yield lets other goroutines go first.
func Yield() { runtime.Gosched() }
