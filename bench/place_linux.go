package main

import (
	"errors"
	"fmt"
	"math/bits"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unsafe"
)

// cpuSet is a set of processors, a bit for each.
type cpuSet [16]uint64

func (s *cpuSet) add(n int) { s[n/64] |= 1 << (n % 64) }

func (s *cpuSet) count() (n int) {
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

// call gets or sets the processors that the calling thread may run on.
func (s *cpuSet) call(trap uintptr) error {
	if _, _, errno := syscall.RawSyscall(trap, 0, unsafe.Sizeof(*s), uintptr(unsafe.Pointer(s))); errno != 0 {
		return os.NewSyscallError("sched affinity", errno)
	}
	return nil
}

// placed is the variable that tells a program that was started again which
// processors are the subjects'.
const placed = "BENCH_SUBJECT_CPUS"

// placeApart starts the program again on one half of the processors, if it has
// not been. The other half is for the subjects.
func placeApart() error {
	if os.Getenv(placed) != "" {
		return nil
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all, own cpuSet
	if err := all.call(syscall.SYS_SCHED_GETAFFINITY); err != nil {
		return err
	}
	n := all.count()
	if n < 2 {
		return errors.New("there is one processor")
	}
	var rest []string
	for cpu := range 64 * len(all) {
		if all[cpu/64]&(1<<(cpu%64)) == 0 {
			continue
		}
		if own.count() < (n+1)/2 {
			own.add(cpu)
		} else {
			rest = append(rest, strconv.Itoa(cpu))
		}
	}
	if err := own.call(syscall.SYS_SCHED_SETAFFINITY); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return os.NewSyscallError("exec", syscall.Exec(self, os.Args, append(os.Environ(), placed+"="+strings.Join(rest, ","))))
}

// subjectCPUs returns the processors of the subjects, or nil if all share all.
func subjectCPUs() (*cpuSet, error) {
	list := os.Getenv(placed)
	if list == "" {
		return nil, nil
	}
	s := new(cpuSet)
	for f := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(f)
		if err != nil || n < 0 || n >= 64*len(s) {
			return nil, fmt.Errorf("%s: expected numbers of processors, got %q", placed, list)
		}
		s.add(n)
	}
	return s, nil
}

// startSubject starts cmd on the subjects' processors: a child has those of the
// thread that starts it.
func startSubject(cmd *exec.Cmd) error {
	theirs, err := subjectCPUs()
	if err != nil {
		return err
	}
	if theirs == nil {
		return cmd.Start()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var own cpuSet
	if err := own.call(syscall.SYS_SCHED_GETAFFINITY); err != nil {
		return err
	}
	if err := theirs.call(syscall.SYS_SCHED_SETAFFINITY); err != nil {
		return err
	}
	err = cmd.Start()
	return errors.Join(err, own.call(syscall.SYS_SCHED_SETAFFINITY))
}

// subjectThreads is how many processors a subject has.
func subjectThreads() int {
	if s, err := subjectCPUs(); err == nil && s != nil {
		return s.count()
	}
	return runtime.NumCPU()
}
