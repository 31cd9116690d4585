package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/expediterhq/expediter/internal/faultbench"
	"github.com/expediterhq/expediter/internal/faultproxy"
)

// fleet is the replicas, each behind a proxy.
type fleet struct {
	plan     plan
	ledger   *faultbench.Ledger
	replicas []*faultbench.Replica
	proxies  []*faultproxy.Proxy

	mu      sync.Mutex
	rnd     *rand.Rand
	faults  map[string]int
	windows []window
}

// window is a time in which a whole replica was not well.
type window struct {
	replica  string
	from, to time.Time
}

func newFleet(p plan) (*fleet, error) {
	f := &fleet{
		plan: p, ledger: &faultbench.Ledger{Slim: true}, faults: make(map[string]int),
		rnd: rand.New(rand.NewPCG(p.seed, 1)),
	}
	for i := range p.replicas {
		r := &faultbench.Replica{Name: fmt.Sprintf("r%d", i), Ledger: f.ledger, Respond: f.respond}
		if err := r.Start(); err != nil {
			return nil, err
		}
		proxy, err := faultproxy.New(r.Addr())
		if err != nil {
			return nil, err
		}
		f.replicas = append(f.replicas, r)
		f.proxies = append(f.proxies, proxy)
	}
	return f, nil
}

func (f *fleet) close() {
	for i := range f.replicas {
		_ = f.proxies[i].Close()
		f.replicas[i].Stop()
	}
}

// chance draws numbers from the seed, for many goroutines.
func (f *fleet) chance(n int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rnd.IntN(n)
}

func (f *fleet) count(class string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults[class]++
}

// broken are the faults of single requests. Of those before the first token
// there are few, so that one request hardly meets five.
var broken = []struct {
	class string
	share int // of 1000
	make  func(s faultbench.Speech, at int) faultbench.Script
}{
	{"answer 503", 5, func(faultbench.Speech, int) faultbench.Script { return faultbench.JSON(503, []byte(`{}`), 0) }},
	{"answer 500", 5, func(faultbench.Speech, int) faultbench.Script { return faultbench.JSON(500, []byte(`{}`), 0) }},
	{"reset after request", 5, func(faultbench.Speech, int) faultbench.Script { return faultbench.Script{End: faultbench.DropRST} }},
	{"close after request", 5, func(faultbench.Speech, int) faultbench.Script { return faultbench.Script{End: faultbench.Drop} }},
	{"role chunk, then reset", 5, func(s faultbench.Speech, _ int) faultbench.Script {
		sc := faultbench.Stream(s.Role())
		sc.End = faultbench.RST
		return sc
	}},
	{"reset in stream", 10, partly(faultbench.RST)},
	{"close in stream", 10, partly(faultbench.FIN)},
	{"clean end in stream", 10, partly(faultbench.Clean)},
	{"silence in stream", 5, partly(faultbench.Stall)},
	{"error event", 10, func(s faultbench.Speech, at int) faultbench.Script {
		event := faultbench.Piece{Data: []byte(`data: {"error":{"message":"EngineCore died","type":"InternalServerError","code":500}}` + "\n\n")}
		return faultbench.Stream(append(s.Deltas(at), event, faultbench.Done())...)
	}},
	{"small writes", 30, func(s faultbench.Speech, _ int) faultbench.Script {
		sc := s.Script()
		sc.Slice = max(40, len(s.Text)/2)
		return sc
	}},
}

func partly(end faultbench.End) func(faultbench.Speech, int) faultbench.Script {
	return func(s faultbench.Speech, at int) faultbench.Script {
		sc := faultbench.Stream(s.Deltas(at)...)
		sc.End = end
		return sc
	}
}

// respond is what every replica does with a request.
func (f *fleet) respond(g *faultbench.Got) faultbench.Script {
	s := faultbench.Speak(g)
	s.TTFT = time.Duration(5+f.chance(100)) * time.Millisecond
	s.Pace = time.Duration(5+f.chance(15)) * time.Millisecond
	s.Text = g.Nonce + faultbench.Stamp
	if g.Ask.MaxTokens == hugeTokens {
		s.TTFT, s.Pace, s.Text = 0, time.Millisecond, huge // without a pace it would take all of the machine
		s.Ask.StreamOptions.Continuous = false             // as engines do that do not know it: all its chunks are one
	}
	n := f.chance(1000)
	for _, b := range broken {
		if n -= b.share; n >= 0 {
			continue
		}
		sc := b.make(s, 1+f.chance(s.Tokens))
		if !g.Ask.Stream && sc.Header.Get("Content-Type") == "text/event-stream; charset=utf-8" {
			break // faults of streams
		}
		f.count(b.class)
		return sc
	}
	sc := s.Script()
	if g.Ask.Stream {
		sc.Header = http.Header{"Content-Type": {"text/event-stream"}}
	}
	return sc
}

// torment does something to one replica after the other until stop is closed.
func (f *fleet) torment(stop <-chan struct{}) {
	for {
		pause := time.Duration(float64(f.plan.pause) * (0.5 + float64(f.chance(1000))/1000))
		if !wait(stop, pause) {
			return
		}
		i := f.chance(len(f.replicas))
		r, proxy := f.replicas[i], f.proxies[i]
		length := time.Duration(300+f.chance(1500)) * time.Millisecond
		w := window{replica: r.Name, from: time.Now()}
		switch f.chance(7) {
		case 0:
			f.count("replica dies")
			r.Kill()
			wait(stop, length)
			_ = r.Revive() // the port may be taken: then it stays dead
		case 1:
			f.count("replica hangs")
			proxy.Set(faultproxy.Up, faultproxy.Faults{Hold: true})
			proxy.Set(faultproxy.Down, faultproxy.Faults{Hold: true})
			wait(stop, 6*length) // longer than a gateway may wait for a token, mostly
			proxy.Heal()
		case 2:
			f.count("all connections reset")
			proxy.Cut(faultproxy.RST)
		case 3:
			f.count("all connections closed")
			proxy.Cut(faultproxy.FIN)
		case 4:
			f.count("slow network")
			proxy.Set(faultproxy.Down, faultproxy.Faults{Delay: 50 * time.Millisecond})
			wait(stop, length)
			proxy.Heal()
		case 5:
			f.count("connections refused")
			proxy.Refuse(true)
			proxy.Cut(faultproxy.RST)
			wait(stop, length)
			proxy.Heal()
		case 6:
			f.count("answers lost")
			proxy.Set(faultproxy.Down, faultproxy.Faults{Drop: true})
			wait(stop, length)
			proxy.Cut(faultproxy.RST)
			proxy.Heal()
		}
		w.to = time.Now().Add(500 * time.Millisecond)
		f.mu.Lock()
		f.windows = append(f.windows, w)
		f.mu.Unlock()
	}
}

// well reports whether nothing was wrong with a whole replica in a time.
func (f *fleet) well(replica string, from, to time.Time) bool {
	for _, w := range f.windows {
		if w.replica == replica && from.Before(w.to) && to.After(w.from) {
			return false
		}
	}
	return true
}

// wait returns false if stop was closed before d had passed.
func wait(stop <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-stop:
		return false
	}
}
