package redistest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Cluster is a Redis cluster of masters without replicas.
type Cluster struct {
	Nodes []*Server
	Addrs []string
}

// StartCluster starts a cluster of n masters that share the slots evenly, and
// waits until all of them know it.
func StartCluster(t testing.TB, n int, args ...string) *Cluster {
	t.Helper()
	c := &Cluster{}
	args = append([]string{"--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--cluster-require-full-coverage", "no"}, args...)
	for i := range n {
		s := Start(t, args...)
		c.Nodes = append(c.Nodes, s)
		c.Addrs = append(c.Addrs, s.Addr)
		s.Do("CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(i*16384/n), strconv.Itoa((i+1)*16384/n-1))
		s.Do("CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
		if i > 0 {
			s.Do("CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(c.Nodes[0].port))
		}
	}
	for _, s := range c.Nodes {
		Until(t, "cluster is formed", 20*time.Second, func() bool {
			info := s.Do("CLUSTER", "INFO")
			return strings.Contains(info, "cluster_state:ok") &&
				strings.Contains(info, "cluster_slots_assigned:16384") &&
				strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d", n))
		})
	}
	return c
}

// AddReplica starts one of the n-th node, which takes over when that dies, and waits
// until it follows and all nodes know it.
func (c *Cluster) AddReplica(t testing.TB, n int) {
	t.Helper()
	master := c.Nodes[n]
	r := Start(t, "--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--cluster-require-full-coverage", "no")
	r.Do("CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(master.port))
	id := strings.TrimSpace(master.Do("CLUSTER", "MYID"))
	Until(t, "the replica knows its master", 20*time.Second, func() bool {
		return strings.Contains(r.Do("CLUSTER", "NODES"), id) && strings.Contains(r.Do("CLUSTER", "INFO"), "cluster_state:ok")
	})
	r.Do("CLUSTER", "REPLICATE", id)
	Until(t, "the replica follows", 20*time.Second, func() bool {
		return strings.Contains(r.Do("INFO", "replication"), "master_link_status:up")
	})
	own := strings.TrimSpace(r.Do("CLUSTER", "MYID"))
	for _, node := range c.Nodes {
		Until(t, "all nodes know the replica", 20*time.Second, func() bool {
			for line := range strings.Lines(node.Do("CLUSTER", "NODES")) {
				if strings.HasPrefix(line, own) {
					return strings.Contains(line, "slave "+id)
				}
			}
			return false
		})
	}
}

// Sentinels is a master with one replica, watched by three sentinels under the
// name Name.
type Sentinels struct {
	Name  string
	Addrs []string // of the sentinels
	Nodes []*Server
	t     testing.TB
}

// StartSentinels starts the set and waits until the replica follows and the
// sentinels know each other.
func StartSentinels(t testing.TB, args ...string) *Sentinels {
	t.Helper()
	s := &Sentinels{Name: "main", t: t}
	master := Start(t, args...)
	replica := Start(t, append([]string{"--replicaof", "127.0.0.1 " + strconv.Itoa(master.port)}, args...)...)
	s.Nodes = []*Server{master, replica}
	Until(t, "replica follows", 20*time.Second, func() bool {
		return strings.Contains(replica.Do("INFO", "replication"), "master_link_status:up")
	})
	var watchers []*Server
	for range 3 {
		w := prepare(t)
		conf := filepath.Join(w.dir, "sentinel.conf")
		text := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\nlogfile %s\nsentinel monitor %s 127.0.0.1 %d 2\n"+
			"sentinel down-after-milliseconds %s 500\nsentinel failover-timeout %s 4000\n",
			w.port, w.dir, filepath.Join(w.dir, "log"), s.Name, master.port, s.Name, s.Name)
		if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
			t.Fatalf("redistest: %v", err)
		}
		w.args = []string{conf, "--sentinel"}
		w.Restart()
		watchers = append(watchers, w)
		s.Addrs = append(s.Addrs, w.Addr)
	}
	for _, w := range watchers {
		Until(t, "sentinels know each other", 30*time.Second, func() bool {
			info := w.Do("INFO", "sentinel")
			return strings.Contains(info, "status=ok") && strings.Contains(info, "slaves=1,sentinels=3")
		})
	}
	return s
}

// Master returns the node that is the master by its own word.
func (s *Sentinels) Master() *Server {
	for _, n := range s.Nodes {
		if n.cmd == nil {
			continue
		}
		if info, err := n.command("INFO", "replication"); err == nil && strings.Contains(info, "role:master") {
			return n
		}
	}
	return nil
}

// Failover kills the master with SIGKILL and waits until the other node has
// taken its place.
func (s *Sentinels) Failover() {
	s.t.Helper()
	old := s.Master()
	old.Kill()
	Until(s.t, "another master is chosen", 30*time.Second, func() bool {
		m := s.Master()
		return m != nil && m != old
	})
}
