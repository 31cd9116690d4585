// Package routertest checks that an implementation of router.Scorer keeps the
// promises of that interface: what it writes and what it leaves alone, that
// its costs are numbers, and that many goroutines may ask it. Whether the
// costs are good ones it does not say; package sim/fleet may. A Scorer may rule
// every replica out, though a gateway then refuses the request with a 503.
//
//	func TestScorer(t *testing.T) {
//		routertest.Run(t, func(*testing.T) routertest.Subject {
//			return routertest.Subject{Scorer: myScorer{}}
//		})
//	}
package routertest
