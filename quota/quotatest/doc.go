// Package quotatest checks implementations of quota.Store: the contract of each
// method, idempotence, leases and the death of their holder, limits that change,
// clocks that jump, random histories against a model, and, for concurrent
// callers, whether some order of the calls explains all answers.
//
//	func TestStore(t *testing.T) {
//		quotatest.Run(t, func(t *testing.T) quota.Store { return mystore.New() })
//	}
package quotatest
