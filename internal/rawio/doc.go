// Package rawio reads, writes and looks at sockets without telling Go's scheduler.
//
// A system call on a socket that is in non-blocking mode never blocks. net
// nevertheless announces each to the scheduler, which wakes its monitor thread
// after every pause to see whether the call takes long: for a process that is
// idle between two small events of a stream, that costs a sixth of all its
// time. Only Linux has it, and not on 386; under the race detector the calls are
// announced, since it learns from them what happened before what. Elsewhere
// everything goes the usual way.
package rawio
