//go:build unix

package redistest

import (
	"os"
	"syscall"
)

// Pause stops the process without ending it, so that connections stay open and
// nothing answers. Resume lets it go on.
func (s *Server) Pause() { s.signal(syscall.SIGSTOP) }

// Resume ends a Pause.
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig os.Signal) {
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Errorf("redistest: %v", err)
	}
}
