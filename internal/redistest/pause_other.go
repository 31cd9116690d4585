//go:build !unix

package redistest

// Pause skips the test: a process cannot be stopped here.
func (s *Server) Pause() { s.t.Skip("a process cannot be stopped here without ending it") }

// Resume does nothing.
func (s *Server) Resume() {}
