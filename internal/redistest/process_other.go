//go:build !linux

package redistest

import "os/exec"

// dieWithParent has no means here: servers outlive a killed test binary.
func dieWithParent(*exec.Cmd) {}
