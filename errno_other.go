//go:build !windows

package expediter

import "syscall"

// noAddress says that this machine has no such address, or no port left.
const noAddress = syscall.EADDRNOTAVAIL

// refusals are what a connection fails with when nobody is there to take it.
func refusals() []error {
	return []error{syscall.ECONNREFUSED, syscall.EHOSTUNREACH, syscall.ENETUNREACH}
}

// shortages are what a connection fails with for want of something on this
// machine.
func shortages() []error {
	return []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, noAddress}
}
