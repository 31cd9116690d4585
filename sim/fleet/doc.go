// Package fleet runs a trace of requests through the library's own router,
// prefix map, admission line and quota in front of simulated vLLM replicas, in
// virtual time. It is for testing a routing rule, a limit or a fleet's size
// before it meets a GPU:
//
//	func TestMyRule(t *testing.T) {
//		trace := fleet.Workload{Rate: 60, Duration: time.Minute, Groups: 50, Shared: 1024}.Trace(1)
//		report, err := fleet.Run(fleet.Config{
//			Replicas: fleet.Uniform(16, sim.Llama8BA100()),
//			Router: func(seed uint64) *router.Router {
//				return router.New(router.Config{Scorers: []router.Scorer{myRule{}}})
//			},
//			SLO: fleet.SLO{TTFT: time.Second, TPOT: 60 * time.Millisecond},
//		}, trace)
//		if err != nil {
//			t.Fatal(err)
//		}
//		if report.Goodput < 0.99 || report.TTFT.P99 > time.Second {
//			t.Errorf("goodput %.3f, TTFT %v", report.Goodput, report.TTFT)
//		}
//	}
//
// Policies are never modelled: a request goes through quota.Memory,
// admission.Line, prefix.Map and router.Router as it does in a gateway, and a
// registry.Pool keeps the books from leases and reports. What is modelled is
// the engine (package sim), the network (a fixed delay) and the gateway's
// dispatch, retries and scrapes. The same Config and Trace give the same Report
// to the bit.
package fleet
