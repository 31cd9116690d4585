package expediter

import "syscall"

// Winsock's numbers. Package syscall has constants with the names of Unix, but
// no call fails with those.
const (
	wsaEMFILE        = syscall.Errno(10024)
	wsaEADDRNOTAVAIL = syscall.Errno(10049)
	wsaENETUNREACH   = syscall.Errno(10051)
	wsaENOBUFS       = syscall.Errno(10055)
	wsaECONNREFUSED  = syscall.Errno(10061)
	wsaEHOSTUNREACH  = syscall.Errno(10065)

	errorTooManyOpenFiles = syscall.Errno(4)
	errorNotEnoughMemory  = syscall.Errno(8)
)

// noAddress says that this machine has no such address, or no port left.
const noAddress = wsaEADDRNOTAVAIL

// refusals are what a connection fails with when nobody is there to take it.
// Networks in memory fail with the names of Unix.
func refusals() []error {
	return []error{
		wsaECONNREFUSED, wsaEHOSTUNREACH, wsaENETUNREACH,
		syscall.ECONNREFUSED, syscall.EHOSTUNREACH, syscall.ENETUNREACH,
	}
}

// shortages are what a connection fails with for want of something on this
// machine.
func shortages() []error {
	return []error{
		wsaEMFILE, wsaENOBUFS, noAddress, errorTooManyOpenFiles, errorNotEnoughMemory,
		syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EADDRNOTAVAIL,
	}
}
