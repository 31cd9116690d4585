// Package faultbench puts a whole gateway in front of replicas that follow a
// script, over real loopback sockets, and checks after each scenario what must
// always be true: everything given back, one record for each request, no
// attempt that nobody counted, nothing left running, no secret in any output,
// and no stream that looks complete but is not. It is for tests.
package faultbench
