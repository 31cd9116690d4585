package redisquota_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/expediterhq/expediter/internal/redistest"
	"github.com/expediterhq/expediter/quota"
	"github.com/expediterhq/expediter/quota/redisquota"
)

// child is another process that runs this test binary.
type child struct {
	cmd  *exec.Cmd
	done chan struct{}
}

func startChild(t *testing.T, l *ledger, task childTask) *child {
	t.Helper()
	text, err := json.Marshal(task)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &child{cmd: cmd, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		l.read(out)
		cmd.Wait()
	}()
	t.Cleanup(c.kill)
	return c
}

func (c *child) kill() {
	c.cmd.Process.Kill()
	<-c.done
}

// processOps is how many operations TestProcesses makes: 100,000, a tenth of it
// with -short, or EXPEDITER_QUOTA_OPS.
func processOps(t *testing.T) int {
	if v := os.Getenv("EXPEDITER_QUOTA_OPS"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil {
			t.Fatalf("EXPEDITER_QUOTA_OPS: %v", err)
		}
		return n
	}
	if testing.Short() {
		return 10_000
	}
	return 100_000
}

// Three processes with clocks up to ten seconds apart work on the same tenants
// while the server is killed and restarted, hangs, forgets its scripts, and the
// network delays, loses and cuts; one of the processes is killed and replaced.
// Afterwards the books of the processes and those in Redis agree to the token.
func TestProcesses(t *testing.T) {
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	proxy := redistest.NewProxy(t, server.Addr)
	ops := processOps(t)
	l := &ledger{entries: map[string]*ledgerEntry{}}
	task := func(name string, skew time.Duration, ops int) childTask {
		return childTask{Name: name, Mode: "random", Addr: proxy.Addr, Skew: skew, Ops: ops, Seed: rand.Uint64()}
	}
	a := startChild(t, l, task("a", -5*time.Second, ops/3))
	b := startChild(t, l, task("b", 5*time.Second, ops/3))
	victim := startChild(t, l, task("c", 0, ops/3))

	stop := make(chan struct{})
	var faults map[string]int
	var wg sync.WaitGroup
	wg.Go(func() { faults = injectFaults(stop, server, proxy) })
	redistest.Until(t, "the processes are under way", 5*time.Minute, func() bool { return l.count() > ops/4 })
	victim.kill()
	rest := startChild(t, l, task("d", time.Second, ops-l.count()-ops/3))
	for _, c := range []*child{a, b, rest} {
		<-c.done
	}
	close(stop)
	wg.Wait()
	t.Logf("%d operations, %d granted, faults %v", l.count(), len(l.entries), faults)
	for _, w := range l.wrong {
		t.Errorf("a process says: %s", w)
	}
	if l.ended != 3 {
		t.Fatalf("%d processes came to their end, want 3", l.ended)
	}
	s := open(t, redisquota.Config{}, server.Addr)
	for _, tn := range tenants {
		compareBooks(t, s, l.of(tn.id), tn)
	}
	if n := checkKeys(t, server.Addr); n != 2*len(tenants) {
		t.Errorf("%d keys for %d tenants", n, len(tenants))
	}
}

// injectFaults does something bad about ten times a second.
func injectFaults(stop chan struct{}, server *redistest.Server, proxy *redistest.Proxy) map[string]int {
	count := map[string]int{}
	pause := func(d time.Duration) bool {
		select {
		case <-time.After(d):
			return true
		case <-stop:
			return false
		}
	}
	for pause(time.Duration(rand.Int64N(int64(150 * time.Millisecond)))) {
		switch p := rand.IntN(20); {
		case p < 5:
			count["script flush"]++
			server.Do("SCRIPT", "FLUSH")
		case p < 9:
			count["replies dropped"] += 3
			proxy.DropReplies(3)
		case p < 12:
			count["cut"]++
			proxy.Cut()
		case p < 15:
			count["delay"]++
			proxy.Delay(time.Duration(rand.Int64N(int64(40 * time.Millisecond))))
			pause(50 * time.Millisecond)
			proxy.Delay(0)
		case p < 16:
			count["silence"]++
			proxy.Silence(true)
			pause(200 * time.Millisecond)
			proxy.Silence(false)
			proxy.Cut() // what was swallowed would leave replies out of step
		case p < 17:
			count["refused"]++
			proxy.Refuse(true)
			proxy.Cut()
			pause(100 * time.Millisecond)
			proxy.Refuse(false)
		case p < 18:
			count["hung"]++
			server.Pause()
			pause(200 * time.Millisecond)
			server.Resume()
		default:
			count["killed"]++
			server.Restart()
		}
	}
	return count
}

// compareBooks compares one tenant's ledger with the store at rest.
func compareBooks(t *testing.T, s *redisquota.Store, es []*ledgerEntry, tn processTenant) {
	t.Helper()
	var b quota.Balance
	redistest.Until(t, tn.id+": nothing is held after one lease", processLease+30*time.Second, func() bool {
		b = balance(t, s, tn.id)
		return b.Running == 0
	})
	least, most := charge(es)
	if b.Charged < least || b.Charged > most {
		t.Errorf("%s: %d charged, the processes used %d to %d", tn.id, b.Charged, least, most)
	}
	if b.Reserved != 0 || spent(b, "w") != float64(b.Charged) {
		t.Errorf("%s: at rest %+v", tn.id, b)
	}
	for _, w := range b.Windows {
		if w.Spent < 0 {
			t.Errorf("%s: window %s has spent %v", tn.id, w.Name, w.Spent)
		}
	}
	if burst := tn.limit.Windows[0].Burst; b.Charged > burst {
		t.Errorf("%s: %d charged of a budget of %d", tn.id, b.Charged, burst)
	}
	if c := tn.limit.Concurrency; c > 0 {
		n := overlap(es)
		t.Logf("%s: %d grants, %d at once", tn.id, len(es), n)
		if n > c {
			t.Errorf("%s: %d ran at once, the cap is %d", tn.id, n, c)
		}
	}
	if tn.exact {
		checkRate(t, tn.id, es, tn.limit.Windows[1], true)
	}
}

const (
	holders     = 500
	holderLease = 2 * time.Second
)

func holderReservation(id string) quota.Reservation {
	return quota.Reservation{ID: id, Tenant: "t", Limit: only(0, 1_000_000, holders+20), Cost: 100, Lease: holderLease}
}

// A gateway with 500 streams is killed. What it held comes back after its lease
// and not before, though another gateway keeps serving the tenant, whose own
// streams stay.
func TestG7HolderKilled(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	l := &ledger{entries: map[string]*ledgerEntry{}}
	dead := startChild(t, l, childTask{Name: "dead", Mode: "hold", Addr: server.Addr})
	s := open(t, redisquota.Config{}, server.Addr)
	ctx := context.Background()
	var mine []quota.Reservation
	for i := range 20 {
		r := holderReservation(fmt.Sprint("mine", i))
		if err := s.Reserve(ctx, r); err != nil {
			t.Fatal(err)
		}
		mine = append(mine, r)
	}
	redistest.Until(t, "500 streams are open and renewed", 20*time.Second, func() bool {
		if err := s.Renew(ctx, mine); err != nil {
			t.Fatal(err)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.renewed > 0 && balance(t, s, "t").Running == holders+20
	})
	dead.kill()
	if len(l.wrong) > 0 {
		t.Fatal(l.wrong)
	}
	var first time.Time
	tries, extra := 0, 0
	redistest.Until(t, "the dead gateway's slots are free", 30*time.Second, func() bool {
		if err := s.Renew(ctx, mine); err != nil {
			t.Fatal(err)
		}
		tries++
		r := holderReservation(fmt.Sprint("try", tries))
		if err := s.Reserve(ctx, r); err == nil {
			if first.IsZero() {
				first = time.Now()
			}
			extra++
			if err := s.Settle(ctx, r, 0); err != nil {
				t.Fatal(err)
			}
		}
		return balance(t, s, "t").Running == len(mine)
	})
	if free := time.Unix(0, l.renewed).Add(holderLease); first.Before(free) {
		t.Errorf("a slot was free %v before the dead gateway's streams had to be over", free.Sub(first))
	}
	// The dead gateway had noted 30 tokens used in each of its streams.
	if b := balance(t, s, "t"); b.Charged != 30*holders || b.Reserved != int64(100*len(mine)) {
		t.Errorf("afterwards %+v", b)
	}
	for _, r := range mine {
		if err := s.Settle(ctx, r, 1); err != nil {
			t.Fatal(err)
		}
	}
	atRest(t, s, "t", 30*holders+int64(len(mine)))
}
