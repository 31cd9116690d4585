// Embed puts the pipeline into an API server that a team already has: its own
// routes, its own login, its own middleware.
//
//	go run ./examples/embed            starts it on 127.0.0.1:8081 and prints a curl line
package main

import (
	"context"
	"crypto/subtle"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/expediterhq/expediter"
	"github.com/expediterhq/expediter/quota"
	"github.com/expediterhq/expediter/registry"
	"github.com/expediterhq/expediter/sim"
	"github.com/expediterhq/expediter/sse"
)

const about = `Usage of embed: embed [flags]
Serves a team's own page and login, with the pipeline under /v1/ in front of one simulated replica.
`

func main() {
	flags := flag.NewFlagSet("embed", flag.ExitOnError)
	addr := flags.String("addr", "127.0.0.1:8081", "address to listen on")
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), about)
		flags.PrintDefaults()
	}
	_ = flags.Parse(os.Args[1:]) // it exits
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *addr); err != nil {
		fmt.Fprintln(os.Stderr, "embed:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, addr string) error {
	// One simulated replica stands in for the team's vLLM.
	replica := sim.NewServer(sim.Config{Model: "llama-8b"})
	defer replica.Close()
	upstream := httptest.NewServer(replica)
	defer upstream.Close()

	llm, err := newLLM(upstream.URL)
	if err != nil {
		return err
	}
	defer llm.Close()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	// Where no middleware wraps the ResponseWriter, as logged does, ConnContext:
	// sse.ConnContext saves streams more processor time.
	server := &http.Server{Handler: logged(routes(llm)), ReadHeaderTimeout: 5 * time.Second}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		<-ctx.Done()
		grace, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = llm.Drain(grace) // streams end first, or are ended with an error event
		_ = server.Shutdown(grace)
	}()
	fmt.Printf("curl -sS -N http://%s/v1/chat/completions -H 'Cookie: session=ada:opensesame' -H 'Content-Type: application/json' -d '{\"model\":\"gpt-fast\",\"stream\":true,\"max_tokens\":16,\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}]}'\n", l.Addr())
	if err := server.Serve(sse.Listener(l)); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	<-stopped // the requests that still ran
	return nil
}

// newLLM wires the pipeline with the team's own login.
func newLLM(replicaURL string) (*expediter.Handler, error) {
	pool, err := registry.NewPool(registry.PoolConfig{Name: "small"})
	if err != nil {
		return nil, err
	}
	if _, err := pool.Add(registry.ReplicaConfig{URL: replicaURL}); err != nil {
		return nil, err
	}
	reg, err := registry.NewStatic(pool)
	if err != nil {
		return nil, err
	}
	return expediter.New(expediter.Config{
		Registry:     reg,
		Pools:        []expediter.Pool{{Name: "small", Served: "llama-8b"}},
		Models:       []expediter.Model{{Name: "gpt-fast", Pool: "small"}},
		Authenticate: session,
		Quota:        quota.NewMemory(quota.MemoryConfig{}),
	})
}

// routes are the team's own, with the pipeline under /v1/.
func routes(llm http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "the team's own page")
	})
	mux.Handle("/v1/", llm)
	return mux
}

// users are the accounts of the team's login. Each is a tenant.
var users = map[string]struct {
	password string
	tenant   *expediter.Tenant
}{
	"ada": {"opensesame", &expediter.Tenant{ID: "ada", Limit: quota.Limit{Concurrency: 8, Windows: []quota.Window{quota.PerMinute(200_000)}}}},
}

var errNoSession = errors.New("no valid session")

// session is the team's own authentication: a cookie, not an API key.
func session(r *http.Request) (*expediter.Tenant, error) {
	c, err := r.Cookie("session")
	if err != nil {
		return nil, errNoSession
	}
	name, password, _ := strings.Cut(c.Value, ":")
	u, ok := users[name]
	if !ok || subtle.ConstantTimeCompare([]byte(password), []byte(u.password)) != 1 {
		return nil, errNoSession
	}
	return u.tenant, nil
}

// logged is the team's own middleware. Because its writer has Unwrap, streams
// pass through it event by event.
func logged(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sw := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		began := time.Now()
		next.ServeHTTP(sw, r)
		slog.Info("request", "method", r.Method, "path", r.URL.Path, "status", sw.status, "took", time.Since(began))
	})
}

type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
