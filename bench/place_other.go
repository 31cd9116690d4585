//go:build !linux

package main

import (
	"errors"
	"os/exec"
	"runtime"
)

func placeApart() error { return errors.New("the system cannot divide its processors") }

func startSubject(cmd *exec.Cmd) error { return cmd.Start() }

func subjectThreads() int { return runtime.NumCPU() }
