package sim

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Config describes one simulated replica. Model must be set.
type Config struct {
	Model    string            // the served model name, which answers carry
	Aliases  []string          // further names of the base model
	Adapters map[string]string // LoRA adapters loaded at the start: name to path

	Profile     Profile // speed and size; if zero, Llama8BA100
	KVTokens    int     // KV cache capacity in tokens; if zero, the profile's
	MaxModelLen int     // longest prompt with its output; if zero, 32768 or what the cache holds
	MaxLoRAs    int     // GPU adapter slots; if zero, 8
	MaxCPULoRAs int     // adapters kept in host memory; if zero, MaxLoRAs
	Speed       float64 // how much faster than real time it runs; if zero, 1

	// Tokenize appends the token ids of text to dst. If nil, one id per 4 bytes.
	Tokenize func(dst []uint32, text string) []uint32
	// TokenizePrompt is Tokenize for the prompt of /v1/completions, to which an
	// engine adds its special tokens. If nil, Tokenize.
	TokenizePrompt func(dst []uint32, text string) []uint32
	// Render appends the text of a chat prompt. The arguments are the request's
	// messages and tools as they came. An error is the client's fault. If nil,
	// a template of its own.
	Render func(dst []byte, messages, tools json.RawMessage) ([]byte, error)
	// Natural returns how many tokens the model generates before it stops by
	// itself, given a hash of the prompt. If nil, 32 to 511.
	Natural func(prompt uint64) int

	APIKey           string // protects the paths under /v1, as --api-key
	StreamInterval   int    // tokens per stream event after the first, as --stream-interval; if zero, 1
	HideCachedTokens bool   // as without --enable-prompt-tokens-details
	ForceUsage       bool   // as with --enable-force-include-usage
	NoRuntimeLoRA    bool   // the adapter routes answer 404
	Version          string // what /version says; if empty, 0.24.0
	LedgerSize       int    // requests remembered; if zero, 100000

	// KVEvents publishes cache events. If nil, none are made.
	KVEvents *KVEvents

	// OnKill is called after Kill, and after a Fault has killed the replica, for
	// whoever owns the sockets or the process.
	OnKill func()

	// Engine changes scheduling; its Profile is replaced by the one above.
	Engine EngineConfig
}

// Server is a simulated vLLM replica: an http.Handler with vLLM's routes over
// an Engine that runs in real time. Its methods are safe for concurrent use.
//
// It starts no goroutine of its own while idle: steps are driven by timers, so
// that it can live in a testing/synctest bubble.
type Server struct {
	cfg Config
	mux *http.ServeMux

	mu                      sync.Mutex
	eng                     *Engine
	timer                   *time.Timer
	stepping                bool
	stepEnd                 time.Time // when the running step is over
	shown                   Stats     // as of the end of the latest step: what metrics show
	started                 time.Time
	epoch                   int // of the engine; steps of an earlier one are void
	closed                  bool
	asleep                  bool
	draining                bool
	hung                    bool
	dead                    bool
	onKill                  func()
	fault                   func(*Arrival) *Fault
	arrivals                int
	health, metrics, models Trouble

	adapters map[string]string
	order    []string // adapter names as loaded
	met      meters
	log      eventLog
	led      ledger
}

// NewServer returns an idle replica. It panics if cfg makes no sense, since
// that is a mistake in the program.
func NewServer(cfg Config) *Server {
	cfg = cfg.withDefaults()
	s := &Server{cfg: cfg, mux: http.NewServeMux(), started: time.Now(), adapters: map[string]string{}}
	s.led.limit = cfg.LedgerSize
	s.met = newMeters(cfg.MaxModelLen)
	if cfg.KVEvents != nil {
		s.log.cfg = cfg.KVEvents
		cfg.Engine.Removed = s.log.removed
		cfg.Engine.Stored = func(seq *Sequence, from, to int) {
			s.log.stored(seq.Value.(*choice), seq.adapter, from, to, cfg.Profile.BlockSize)
		}
	}
	eng, err := NewEngine(cfg.Engine)
	if err != nil {
		panic(err)
	}
	if most := eng.Capacity() * eng.BlockSize(); cfg.MaxModelLen > most {
		panic(fmt.Sprintf("sim: MaxModelLen is %d, want at most the KV cache of %d tokens", cfg.MaxModelLen, most))
	}
	s.eng = eng
	s.shown = eng.Stats()
	s.loadConfiguredLocked()
	s.routes()
	return s
}

// loadConfiguredLocked loads the adapters of the Config, in order of name.
func (s *Server) loadConfiguredLocked() {
	for _, name := range slices.Sorted(maps.Keys(s.cfg.Adapters)) {
		s.addAdapter(name, s.cfg.Adapters[name])
	}
}

func (c Config) withDefaults() Config {
	if c.Model == "" {
		panic("sim: Config.Model is empty")
	}
	if c.Profile.Name == "" && len(c.Profile.Linear) == 0 && c.Profile.Base == 0 {
		c.Profile = Llama8BA100()
	}
	if c.KVTokens != 0 {
		c.Profile.KVTokens = c.KVTokens
	}
	c.Profile = c.Profile.withDefaults()
	if c.MaxModelLen == 0 {
		c.MaxModelLen = min(32768, c.Profile.KVTokens/c.Profile.BlockSize*c.Profile.BlockSize)
	}
	if c.MaxLoRAs == 0 {
		c.MaxLoRAs = 8
	}
	if c.Speed == 0 {
		c.Speed = 1
	}
	if c.Version == "" {
		c.Version = "0.24.0"
	}
	if c.LedgerSize == 0 {
		c.LedgerSize = 100_000
	}
	if c.Tokenize == nil {
		c.Tokenize = fourBytes
	}
	if c.TokenizePrompt == nil {
		c.TokenizePrompt = c.Tokenize
	}
	if c.Render == nil {
		c.Render = renderChat
	}
	if c.Natural == nil {
		c.Natural = func(prompt uint64) int { return 32 + int(prompt%480) }
	}
	c.Engine.Profile = c.Profile
	c.Engine.MaxLoRAs, c.Engine.MaxCPULoRAs = c.MaxLoRAs, c.MaxCPULoRAs
	return c
}

func (s *Server) routes() {
	s.mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) { s.generate(w, r, true) })
	s.mux.HandleFunc("POST /v1/completions", func(w http.ResponseWriter, r *http.Request) { s.generate(w, r, false) })
	s.mux.HandleFunc("GET /v1/models", s.serveModels)
	s.mux.HandleFunc("POST /v1/load_lora_adapter", s.serveLoad)
	s.mux.HandleFunc("POST /v1/unload_lora_adapter", s.serveUnload)
	s.mux.HandleFunc("POST /v1/chat/completions/render", s.serveRender)
	s.mux.HandleFunc("POST /tokenize", s.serveTokenize)
	s.mux.HandleFunc("GET /metrics", s.serveMetrics)
	s.mux.HandleFunc("GET /health", s.serveHealth)
	s.mux.HandleFunc("GET /ping", s.serveHealth)
	s.mux.HandleFunc("POST /ping", s.serveHealth)
	s.mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"version": s.cfg.Version})
	})
	s.mux.HandleFunc("GET /load", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]int{"server_load": 0})
	})
}

// ServeHTTP answers as a vLLM API server does.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	dead := s.dead
	s.mu.Unlock()
	if dead {
		breakConn(w, true)
		return
	}
	lines := 0
	for _, v := range r.Header {
		lines += len(v)
	}
	if lines > maxHeaders {
		http.Error(w, "Invalid HTTP request received.", http.StatusBadRequest)
		return
	}
	if s.cfg.APIKey != "" && strings.HasPrefix(r.URL.Path, "/v1/") && r.Header.Get("Authorization") != "Bearer "+s.cfg.APIKey {
		writeJSON(w, http.StatusUnauthorized, map[string]string{"error": "Unauthorized"})
		return
	}
	s.mux.ServeHTTP(w, r)
}

// maxHeaders is the number of header lines that vLLM's HTTP parser accepts.
const maxHeaders = 256

// Close aborts all requests and stops the engine; requests that come later are
// answered as a replica answers that is shutting down.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.stopLocked()
	s.led.endAll(Aborted)
}

// stopLocked forgets the engine's work; its timer, if it fires still, finds a
// different epoch.
func (s *Server) stopLocked() {
	s.epoch++
	s.stepping = false
	if s.timer != nil {
		s.timer.Stop()
	}
	s.eng.Reset()
	s.shown = s.eng.Stats()
	s.log.events, s.log.n, s.log.number = s.log.events[:0], 0, 0
}

// Stats returns the engine's state as of this moment.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.eng.Stats()
}

// Requests returns a copy of the ledger of generation requests, oldest first.
func (s *Server) Requests() []Received {
	return s.led.snapshot()
}

// kickLocked starts a step if there is work and none runs.
func (s *Server) kickLocked(from time.Time) {
	if s.stepping || s.hung || s.closed || s.dead || s.asleep {
		return
	}
	d, ok := s.eng.Begin()
	if !ok {
		return
	}
	s.stepping = true
	s.met.step(s.eng.Step())
	for _, seq := range s.eng.Started() {
		seq.Value.(*choice).started = from
	}
	s.stepEnd = from.Add(time.Duration(float64(d) / s.cfg.Speed))
	epoch := s.epoch
	s.timer = time.AfterFunc(time.Until(s.stepEnd), func() { s.stepDone(epoch) })
}

// maxLag is how far the engine's clock may fall behind before it stops
// catching up, when the machine is too slow for the speed asked for.
const maxLag = time.Second

// stepDone hands out what the step produced and starts the next.
func (s *Server) stepDone(epoch int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if epoch != s.epoch || s.hung {
		return
	}
	now := time.Now()
	s.stepping = false
	for _, o := range s.eng.End() {
		s.deliver(o, now)
	}
	s.shown = s.eng.Stats()
	if s.log.cfg != nil {
		s.log.flush(now)
	}
	from := s.stepEnd
	if now.Sub(from) > maxLag {
		from = now
	}
	s.kickLocked(from)
}

// deliver tells a request about one step of one of its sequences.
func (s *Server) deliver(o Output, now time.Time) {
	c := o.Seq.Value.(*choice)
	s.met.token(c, o, now)
	if o.First {
		c.call.entry.update(func(e *Received) {
			if e.FirstToken.IsZero() {
				e.FirstToken = now
			}
			e.CachedTokens += c.cachedShare()
		})
	}
	if o.Reason == Aborted {
		c.call.freed(now)
		return
	}
	c.call.push(event{choice: c.index, reason: o.Reason})
}

// submit starts all sequences of a request.
func (s *Server) submit(c *call) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.draining {
		return errShutdown
	}
	if s.dead {
		return errDead
	}
	for i := range c.choices {
		if err := s.eng.Submit(&c.choices[i].seq); err != nil {
			for j := range i {
				s.eng.Abort(&c.choices[j].seq)
			}
			return err
		}
	}
	c.epoch = s.epoch
	s.led.live(c)
	s.kickLocked(time.Now())
	return nil
}

// abort ends what is left of a request.
func (s *Server) abort(c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.led.gone(c)
	if c.epoch != s.epoch {
		return // the engine it ran on is gone
	}
	now := time.Now()
	for i := range c.choices {
		ch := &c.choices[i]
		if ch.seq.state != idle && s.eng.Abort(&ch.seq) {
			c.freed(now)
		}
	}
	if !s.stepping {
		s.shown = s.eng.Stats() // an engine without work makes an empty step
	}
}
