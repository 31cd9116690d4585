package sim

import "time"

// Kill ends the process in effect: every open request's connection is reset,
// and so is every later one, until Restart. A Replica refuses connections too.
func (s *Server) Kill() {
	s.mu.Lock()
	s.dead = true
	s.stopLocked()
	s.led.endAll(killed)
	s.mu.Unlock()
	for _, f := range []func(){s.onKill, s.cfg.OnKill} {
		if f != nil {
			f()
		}
	}
}

// killed marks the events that make a handler reset its connection.
const killed Reason = "killed"

// Restart replaces the process: as Kill, and at once there is a new engine with
// an empty cache, counters at zero, a new start time and the adapters of the
// Config.
func (s *Server) Restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopLocked()
	s.led.endAll(killed)
	s.dead, s.hung, s.closed, s.asleep, s.draining = false, false, false, false, false
	s.met = newMeters(s.cfg.MaxModelLen)
	clear(s.adapters)
	s.order = nil
	s.loadConfiguredLocked()
}

// Hang stops the engine: no step ends any more, metrics keep their values,
// /health still answers 200, and requests are accepted.
func (s *Server) Hang() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hung = true
	if s.timer != nil {
		s.timer.Stop()
	}
}

// Resume lets a hung engine go on with the step it was in.
func (s *Server) Resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.hung {
		return
	}
	s.hung = false
	if s.stepping {
		s.stepEnd = time.Now()
		epoch := s.epoch
		s.timer = time.AfterFunc(0, func() { s.stepDone(epoch) })
		return
	}
	s.kickLocked(time.Now())
}

// Drain is what SIGTERM does with a shutdown time-out: requests that run are
// finished, later ones are answered as after Close, and /health stays 200.
func (s *Server) Drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = true
}

// Idle reports whether no request is in the engine.
func (s *Server) Idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.eng.Idle()
}

// Sleep offloads the weights, as POST /sleep does: the cache is dropped, the
// metrics say so, and requests wait until Wake. It reports false, and does
// nothing, while requests are running.
func (s *Server) Sleep() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.eng.Idle() || !s.eng.ResetPrefixCache() {
		return false
	}
	s.asleep = true
	return true
}

// Wake brings the weights back.
func (s *Server) Wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asleep = false
	s.kickLocked(time.Now())
}

// SetSpeed changes Config.Speed from the next step on: below 1 the replica is slow.
func (s *Server) SetSpeed(speed float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cfg.Speed = speed
}

// Count returns how many requests a path has had.
func (s *Server) Count(path string) int {
	s.led.mu.Lock()
	defer s.led.mu.Unlock()
	return s.led.counts[path]
}

// Replica is a Server with an address in a Network.
type Replica struct {
	*Server
	Host *Host
}

// Replica starts a Server on addr. The caller must Close it.
func (n *Network) Replica(addr string, cfg Config) (*Replica, error) {
	srv := NewServer(cfg)
	host, err := n.Serve(addr, srv)
	if err != nil {
		return nil, err
	}
	srv.onKill = func() {
		host.Refuse(true)
		host.Reset()
	}
	return &Replica{srv, host}, nil
}

// URL is the replica's base address.
func (r *Replica) URL() string { return r.Host.URL() }

// Restart kills the process and starts a new one in its place.
func (r *Replica) Restart() {
	r.Host.Reset()
	r.Server.Restart()
	r.Host.Refuse(false)
}

// Close ends the replica and all its connections.
func (r *Replica) Close() error {
	r.Server.Close()
	return r.Host.Close()
}
