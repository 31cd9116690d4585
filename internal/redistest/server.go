package redistest

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Server is one redis-server process.
type Server struct {
	Addr string // host:port
	t    testing.TB
	dir  string
	port int
	args []string
	cmd  *exec.Cmd
	done chan struct{}
}

// Start starts a server with persistence off. Further arguments are those of
// redis-server, for example "--appendonly", "yes".
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	s := prepare(t, args...)
	s.Restart()
	return s
}

// prepare makes a server that is not running yet.
func prepare(t testing.TB, args ...string) *Server {
	t.Helper()
	Need(t)
	port := freePort(t)
	dir := dataDir(t)
	base := []string{"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", dir, "--save", "", "--daemonize", "no", "--repl-diskless-sync-delay", "0", "--logfile", filepath.Join(dir, "log")}
	s := &Server{Addr: "127.0.0.1:" + strconv.Itoa(port), t: t, dir: dir, port: port, args: append(base, args...)}
	t.Cleanup(s.Kill)
	return s
}

// dataDir is in memory where the system has such a place, so that appendfsync
// costs little.
func dataDir(t testing.TB) string {
	dir, err := os.MkdirTemp("/dev/shm", "redistest")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// Need skips the test where there is no redis-server, or fails it under CI=true.
func Need(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err == nil {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("redistest: redis-server is not installed")
	}
	t.Skip("redistest: redis-server is not installed")
}

// Restart starts the server, on the same port and with the same files, and
// waits until it answers. A server that runs is killed first.
func (s *Server) Restart() {
	s.t.Helper()
	s.Kill()
	cmd := exec.Command("redis-server", s.args...)
	dieWithParent(cmd)
	if err := cmd.Start(); err != nil {
		s.t.Fatalf("redistest: %v", err)
	}
	done := make(chan struct{})
	go func() {
		cmd.Wait()
		close(done)
	}()
	s.cmd, s.done = cmd, done
	Until(s.t, "redis-server at "+s.Addr+" answers", 20*time.Second, func() bool {
		select {
		case <-done:
			log, _ := os.ReadFile(filepath.Join(s.dir, "log"))
			s.t.Fatalf("redistest: redis-server ended at once: %s", log)
		default:
		}
		reply, err := s.command("PING")
		return err == nil && reply == "+PONG"
	})
}

// Kill ends the server with SIGKILL, as a crash would, and waits until it is
// gone. It does nothing to a server that does not run.
func (s *Server) Kill() {
	if s.cmd == nil {
		return
	}
	s.cmd.Process.Kill()
	<-s.done
	s.cmd = nil
}

// Do sends one command and returns the first line of its answer. It fails the
// test when there is none or it is an error.
func (s *Server) Do(args ...string) string {
	s.t.Helper()
	reply, err := s.command(args...)
	if err != nil || strings.HasPrefix(reply, "-") {
		s.t.Fatalf("redistest: %s: %s %v", strings.Join(args, " "), reply, err)
	}
	return reply
}

// command sends one command over its own connection and returns the first line
// of the answer; of a bulk string, the string.
func (s *Server) command(args ...string) (string, error) {
	c, err := net.DialTimeout("tcp", s.Addr, time.Second)
	if err != nil {
		return "", err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(5 * time.Second))
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := c.Write([]byte(b.String())); err != nil {
		return "", err
	}
	r := bufio.NewReader(c)
	line, err := r.ReadString('\n')
	line = strings.TrimRight(line, "\r\n")
	if err != nil || !strings.HasPrefix(line, "$") || line == "$-1" {
		return line, err
	}
	n, err := strconv.Atoi(line[1:])
	if err != nil {
		return "", err
	}
	buf := make([]byte, n)
	for i := range buf {
		if buf[i], err = r.ReadByte(); err != nil {
			return "", err
		}
	}
	return string(buf), nil
}

// freePort returns a port that is free now, and whose cluster bus port is as
// well.
func freePort(t testing.TB) int {
	t.Helper()
	for range 50 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatalf("redistest: %v", err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		l.Close()
		if port < 55000 {
			bus, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port+10000))
			if err != nil {
				continue
			}
			bus.Close()
			return port
		}
	}
	t.Fatal("redistest: no free port")
	return 0
}

// Until polls cond until it holds, and fails the test when it does not within
// the time given.
func Until(t testing.TB, what string, within time.Duration, cond func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("redistest: not within %v: %s", within, what)
		}
	}
}
