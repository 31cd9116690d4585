package redistest_test

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/expediterhq/expediter/internal/redistest"
)

func TestServerKeepsItsFilesAcrossAKill(t *testing.T) {
	s := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	s.Do("SET", "k", "v")
	s.Kill()
	s.Restart()
	if got := s.Do("GET", "k"); got != "v" {
		t.Errorf("GET k = %q, want v", got)
	}
}

func TestCluster(t *testing.T) {
	c := redistest.StartCluster(t, 3)
	for _, n := range c.Nodes {
		if info := n.Do("CLUSTER", "INFO"); !strings.Contains(info, "cluster_size:3") {
			t.Errorf("CLUSTER INFO = %s", info)
		}
	}
}

func TestSentinelFailover(t *testing.T) {
	s := redistest.StartSentinels(t)
	old := s.Master()
	s.Failover()
	if s.Master() == old {
		t.Error("the master is the same")
	}
	s.Master().Do("SET", "k", "v")
}

func TestProxy(t *testing.T) {
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr)
	ask := func() (string, error) {
		c, err := net.Dial("tcp", p.Addr)
		if err != nil {
			return "", err
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(300 * time.Millisecond))
		io.WriteString(c, "INCR n\r\n")
		buf := make([]byte, 100)
		n, err := c.Read(buf)
		return strings.TrimSpace(string(buf[:n])), err
	}
	if got, err := ask(); got != ":1" || err != nil {
		t.Fatalf("through the proxy: %q, %v", got, err)
	}
	p.DropReplies(1)
	if got, err := ask(); err == nil {
		t.Errorf("dropped reply arrived: %q", got)
	}
	if got, err := ask(); got != ":3" || err != nil {
		t.Errorf("after a dropped reply: %q, %v; want the dropped one to have counted", got, err)
	}
	p.Silence(true)
	if got, err := ask(); err == nil {
		t.Errorf("silent proxy answered %q", got)
	}
	p.Silence(false)
	p.Refuse(true)
	if got, err := ask(); err == nil {
		t.Errorf("refusing proxy answered %q", got)
	}
	p.Refuse(false)
	p.Delay(time.Second)
	if got, err := ask(); err == nil {
		t.Errorf("delayed reply arrived at once: %q", got)
	}
	p.Delay(0)
	if got, err := ask(); err != nil || !strings.HasPrefix(got, ":") {
		t.Errorf("at the end: %q, %v", got, err)
	}
	if p.Dropped() != 1 {
		t.Errorf("Dropped = %d, want 1", p.Dropped())
	}
}
