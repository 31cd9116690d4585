package vllm

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/expediterhq/expediter/registry"
	"github.com/expediterhq/expediter/tokenize/chat"
)

// Encoder is the gateway's side of a comparison of token ids. tokenize.Model
// is one.
type Encoder interface {
	// AppendPrompt appends the ids of a completion prompt.
	AppendPrompt(dst []uint32, text string) ([]uint32, error)
	// AppendChat appends the ids of a conversation. A *chat.Error says that
	// the model's template refuses it.
	AppendChat(dst []uint32, in chat.Input) ([]uint32, error)
}

// Verdict is what a comparison with a replica came to.
type Verdict uint8

// The verdicts.
const (
	Unknown Verdict = iota // the replica has not answered, or not what was asked
	Agrees                 // all ids were the same
	Differs                // some were not
)

// Finding is the outcome of the last comparison with one replica that came to
// one. A replica that has restarted is unknown until it has been asked again,
// unless it differed: that holds until it agrees.
type Finding struct {
	Verdict  Verdict
	Probe    string    // which text or conversation differs; empty unless Differs
	Position int       // of the first id that differs; -1 where the Encoder refuses what the replica renders
	At       time.Time // when the replica answered; zero while Unknown
}

// ParityConfig says what is compared with whom.
type ParityConfig struct {
	Pool    *registry.Pool // must be set
	Model   string         // the base model's name as the replicas know it. If empty, they use their own
	Encoder Encoder        // must be set

	Interval    time.Duration // between two comparisons with one replica. If zero, 10 min
	Retry       time.Duration // before a replica that could not answer is asked again. If zero, 15 s, or Interval if that is less
	Timeout     time.Duration // for one answer. If zero, 3 s. A comparison takes at most ten times as long
	Concurrency int           // replicas asked at a time. If zero, 4

	Transport http.RoundTripper // If nil, one of the Parity's own
	APIKey    string            // the engine's key. If empty, none is sent
	Logger    *slog.Logger      // hears when a replica begins and ceases to differ. If nil, nobody does
}

// Parity asks the replicas of a pool for the token ids of a small fixed set of
// texts and conversations, and compares them with the Encoder's: when a
// replica joins, when it has restarted, and at intervals. A model folder that
// is not the one the engine serves, another chat template or another version
// of the tokenizer shows itself so before it has spoilt counts and prefix
// hashes.
//
// Texts go to the replica's /tokenize. Conversations go to
// /v1/chat/completions/render, which answers with the ids that the engine
// would compute, and to /tokenize where that does not exist. A replica that
// does not answer is Unknown and not taken to differ. A difference counts if
// it shows twice in a row, since a template may write the date.
//
// All methods are safe for concurrent use.
type Parity struct {
	cfg     ParityConfig
	client  *http.Client
	differs atomic.Bool

	mu      sync.Mutex
	members map[*registry.Replica]*compared
}

// compared is what is known of one replica.
type compared struct {
	generation uint64 // for which routes and due hold
	finding    Finding
	routes     routes
	due        time.Time
	stop       context.CancelFunc // of the comparison under way; nil if there is none
	told       bool               // that the replica cannot be compared
}

// NewParity returns a Parity that compares once Run is called.
func NewParity(cfg ParityConfig) (*Parity, error) {
	if cfg.Pool == nil || cfg.Encoder == nil {
		return nil, errors.New("vllm: ParityConfig: Pool and Encoder must be set")
	}
	set := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	set(&cfg.Interval, 10*time.Minute)
	set(&cfg.Retry, min(15*time.Second, cfg.Interval))
	set(&cfg.Timeout, 3*time.Second)
	if cfg.Concurrency <= 0 {
		cfg.Concurrency = 4
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Parity{
		cfg:     cfg,
		client:  NewClient(cfg.Transport, cfg.APIKey),
		members: make(map[*registry.Replica]*compared),
	}, nil
}

// Differs reports whether any replica of the pool differs.
func (p *Parity) Differs() bool { return p.differs.Load() }

// Findings returns what was found of each replica that is a member.
func (p *Parity) Findings() map[*registry.Replica]Finding {
	p.mu.Lock()
	defer p.mu.Unlock()
	found := make(map[*registry.Replica]Finding, len(p.members))
	for r, m := range p.members {
		found[r] = m.finding
	}
	return found
}

// look is how often members and their restarts are looked at.
const look = time.Second

// Run compares until ctx ends. When it returns none of its goroutines is
// left. It must not be called twice.
func (p *Parity) Run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer func() {
		cancel()
		wg.Wait()
		if p.cfg.Transport == nil {
			p.client.CloseIdleConnections()
		}
	}()
	slots := make(chan struct{}, p.cfg.Concurrency)
	tick := time.NewTicker(min(look, p.cfg.Retry))
	defer tick.Stop()
	for {
		for _, r := range p.follow() {
			ctx, gen, known := p.begin(ctx, r)
			wg.Go(func() {
				select {
				case <-ctx.Done():
					return
				case slots <- struct{}{}:
				}
				defer func() { <-slots }()
				limited, cancel := context.WithTimeout(ctx, 10*p.cfg.Timeout)
				defer cancel()
				c := comparison{Parity: p, base: r.URL(), routes: known}
				c.run(limited)
				if ctx.Err() == nil {
					p.record(r, gen, &c)
				}
			})
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// follow brings the members up to date and returns those to be asked.
func (p *Parity) follow() []*registry.Replica {
	now := time.Now()
	var due []*registry.Replica
	p.mu.Lock()
	defer p.mu.Unlock()
	present := make(map[*registry.Replica]bool, len(p.members))
	for _, r := range p.cfg.Pool.Replicas() {
		present[r] = true
		m := p.members[r]
		if m == nil {
			m = &compared{generation: r.Generation()}
			p.members[r] = m
		}
		if m.stop != nil {
			continue
		}
		if g := r.Generation(); g != m.generation {
			m.restarted(g)
		}
		if !now.Before(m.due) {
			due = append(due, r)
		}
	}
	for r, m := range p.members {
		if present[r] {
			continue
		}
		if m.stop != nil {
			m.stop()
		}
		delete(p.members, r)
	}
	p.sumLocked()
	return due
}

// restarted makes m ready to be asked again.
func (m *compared) restarted(generation uint64) {
	m.generation, m.due, m.routes, m.told = generation, time.Time{}, routes{}, false
	if m.finding.Verdict == Agrees {
		m.finding = Finding{}
	}
}

// begin marks r as being asked.
func (p *Parity) begin(ctx context.Context, r *registry.Replica) (context.Context, uint64, routes) {
	ctx, cancel := context.WithCancel(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.members[r]
	m.stop = cancel
	return ctx, m.generation, m.routes
}

// record keeps what c found, unless the replica it was found of is gone.
func (p *Parity) record(r *registry.Replica, generation uint64, c *comparison) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.members[r]
	if m == nil {
		return
	}
	m.stop()
	m.stop = nil
	if r.Generation() != generation {
		return // follow asks again
	}
	m.routes = c.routes
	log := p.cfg.Logger.With("pool", p.cfg.Pool.Name(), "replica", r.Name())
	was := m.finding
	if c.verdict == Unknown {
		m.due = now.Add(jitter(p.cfg.Retry))
		if !m.told {
			log.Info("replica's token ids cannot be compared", "probe", c.probe, "error", c.err)
		}
		m.told = true
		return
	}
	m.due, m.told = now.Add(jitter(p.cfg.Interval)), false
	m.finding = Finding{Verdict: c.verdict, At: now}
	if c.verdict == Differs {
		m.finding.Probe, m.finding.Position = c.probe, c.position
	}
	p.sumLocked()
	switch {
	case c.verdict == Differs && was.Verdict != Differs:
		log.Warn("replica's token ids differ from the gateway's", "probe", c.probe, "position", c.position)
	case c.verdict == Agrees && was.Verdict == Differs:
		log.Info("replica's token ids are the gateway's again")
	}
}

// sumLocked brings differs up to date.
func (p *Parity) sumLocked() {
	differs := false
	for _, m := range p.members {
		differs = differs || m.finding.Verdict == Differs
	}
	p.differs.Store(differs)
}

// jitter keeps the replicas from being asked all at once.
func jitter(d time.Duration) time.Duration {
	return time.Duration((0.9 + 0.2*rand.Float64()) * float64(d))
}
