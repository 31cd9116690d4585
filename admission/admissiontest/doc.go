// Package admissiontest checks that an implementation of admission.Admitter
// keeps the promises of that interface: when start is called and when not,
// what comes of an Admit whose context, deadline or Admitter ends, and that
// room taken and room given back are the same. The order in which work starts
// is not checked: it is the implementation's own.
//
//	func TestAdmitter(t *testing.T) {
//		admissiontest.Run(t, func(t *testing.T) admissiontest.Subject {
//			return admissiontest.Subject{Admitter: myadmitter.New()}
//		})
//	}
//
// Each check runs in a bubble of package testing/synctest, in which no real
// time passes. What an Admitter waits for has to be inside the bubble too: its
// own goroutines and timers, not the network.
package admissiontest
