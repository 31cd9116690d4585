package redistest

import (
	"os/exec"
	"syscall"
)

// dieWithParent asks the kernel to kill the process when the test binary is
// killed before it could clean up.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
