package main

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/expediterhq/expediter"
	"github.com/expediterhq/expediter/metrics"
	"github.com/expediterhq/expediter/quota"
	"github.com/expediterhq/expediter/registry"
	"github.com/expediterhq/expediter/sse"
	"github.com/expediterhq/expediter/tenant"
	"github.com/expediterhq/expediter/tokenize"
	"github.com/expediterhq/expediter/tokenize/demo"
)

// roles are what this program can be as a process of its own.
var roles = map[string]func(args []string) error{
	"replica":      serveReplica,
	"reverseproxy": serveReverseProxy,
	"expediter":    serveExpediter,
}

// process is a child and what its first line said.
type process struct {
	cmd  *exec.Cmd
	line string
	out  *bufio.Reader // of a child that announces itself
}

func (p *process) stop() {
	p.cmd.Process.Kill()
	p.cmd.Wait()
}

// memory returns what the process holds resident, in bytes. A program of ours
// first collects its garbage: how much of it there is depends on when it did so
// last, which differs by more than all streams need.
func (p *process) memory() (int64, error) {
	if p.out != nil {
		if err := p.cmd.Process.Signal(syscall.SIGUSR1); err != nil {
			return 0, err
		}
		if _, err := p.out.ReadString('\n'); err != nil {
			return 0, err
		}
	}
	return rss(p.cmd.Process.Pid)
}

// collect collects garbage each time it is asked, gives free memory back and says
// so.
func collect(asked <-chan os.Signal) {
	for range asked {
		debug.FreeOSMemory() // what is in pools lives through one collection
		debug.FreeOSMemory()
		fmt.Println("collected")
	}
}

// spawn starts a child as start does. If it announces itself, its first line
// is read.
func spawn(start func(*exec.Cmd) error, announces bool, name string, args ...string) (*process, error) {
	cmd := exec.Command(name, args...)
	cmd.Stderr = os.Stderr
	if !announces {
		return &process{cmd: cmd}, start(cmd)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := start(cmd); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, out: bufio.NewReader(out)}
	p.line, err = p.out.ReadString('\n')
	p.line = strings.TrimSpace(p.line)
	return p, err
}

func startReplicas() (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return spawn((*exec.Cmd).Start, true, self, "replica")
}

// subject is something to put between client and replica.
type subject struct {
	name    string
	missing string // why it cannot be measured here
	start   func() (p *process, addr string, err error)
	direct  string // address, for the subject that is nothing at all
}

func subjects(replicas *process) []subject {
	ports := strings.Fields(replicas.line)
	self, _ := os.Executable()
	own := func(role string) subject {
		return subject{name: role, start: func() (*process, string, error) {
			p, err := spawn(startSubject, true, self, append([]string{role}, ports...)...)
			if err != nil {
				return p, "", err
			}
			return p, p.line, nil
		}}
	}
	return []subject{
		{name: "direct", direct: "127.0.0.1:" + ports[0]},
		own("reverseproxy"),
		server("nginx", nginxConfig(ports[0]), "-p", "DIR", "-c", "FILE"),
		server("haproxy", haproxyConfig(ports[0]), "-db", "-f", "FILE"),
		own("expediter"),
	}
}

// serveReverseProxy is the standard library's proxy in front of one replica,
// with a transport that keeps its connections.
func serveReverseProxy(ports []string) error {
	target := &url.URL{Scheme: "http", Host: "127.0.0.1:" + ports[0]}
	p := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		FlushInterval: -1,
		Transport:     &http.Transport{MaxIdleConnsPerHost: 1000, DisableCompression: true},
		ErrorLog:      log.New(io.Discard, "", 0), // clients of the memory measurement leave
	}
	return announceAndServe(p, false)
}

// serveExpediter is the gateway with everything on.
func serveExpediter(ports []string) error {
	model, err := tokenize.Load(demo.Files)
	if err != nil {
		return err
	}
	pool, err := registry.NewPool(registry.PoolConfig{Name: "bench"})
	if err != nil {
		return err
	}
	for _, p := range ports {
		if _, err := pool.Add(registry.ReplicaConfig{URL: "http://127.0.0.1:" + p}); err != nil {
			return err
		}
	}
	reg, err := registry.NewStatic(pool)
	if err != nil {
		return err
	}
	t := &tenant.Tenant{ID: "bench", Limit: quota.Limit{Concurrency: 100_000, Windows: []quota.Window{quota.PerMinute(1 << 50)}}}
	keys, err := tenant.NewKeys([]tenant.Key{{Digest: tenant.Digest(benchKey, nil), Tenant: t}}, tenant.Config{ForeignKeys: true})
	if err != nil {
		return err
	}
	m := metrics.New(metrics.Config{Names: metrics.Names{Pools: []string{"bench"}, Models: []string{"gpt-bench"}}})
	h, err := expediter.New(expediter.Config{
		Registry:     reg,
		Pools:        []expediter.Pool{{Name: "bench", Served: "bench-8b", Tokenizer: model, MaxModelLen: 1 << 20}},
		Models:       []expediter.Model{{Name: "gpt-bench", Pool: "bench"}},
		Authenticate: keys.Authenticate,
		Quota:        quota.NewMemory(quota.MemoryConfig{}),
		Usage:        m,
		Parity:       -1, // the replicas of the benchmark have no tokenizer
	})
	if err != nil {
		return err
	}
	return announceAndServe(h, true)
}

const benchKey = "bench-key-0123456789abcdef0123456789abcdef"

// announceAndServe serves h as everybody does, or as is best for streams.
func announceAndServe(h http.Handler, streams bool) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	go collect(asked)
	fmt.Println(l.Addr())
	if !streams {
		return http.Serve(l, h)
	}
	server := &http.Server{Handler: h, ConnContext: sse.ConnContext}
	return server.Serve(sse.Listener(l))
}

// server is a server program from elsewhere, run with a configuration file.
func server(name, config string, args ...string) subject {
	s := subject{name: name}
	bin, err := exec.LookPath(name)
	if err != nil {
		s.missing = "not installed"
		return s
	}
	s.start = func() (*process, string, error) {
		dir, err := os.MkdirTemp("", "bench")
		if err != nil {
			return nil, "", err
		}
		port, err := freePort()
		if err != nil {
			return nil, "", err
		}
		file := filepath.Join(dir, name+".conf")
		config := strings.NewReplacer("PORT", strconv.Itoa(port), "DIR", dir).Replace(config)
		if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
			return nil, "", err
		}
		for i := range args {
			args[i] = strings.NewReplacer("DIR", dir, "FILE", file).Replace(args[i])
		}
		p, err := spawn(startSubject, false, bin, args...)
		if err != nil {
			return nil, "", err
		}
		addr := fmt.Sprintf("127.0.0.1:%d", port)
		return p, addr, waitForPort(addr)
	}
	return s
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func waitForPort(addr string) error {
	var err error
	for range 100 {
		var c net.Conn
		if c, err = net.Dial("tcp", addr); err == nil {
			return c.Close()
		}
		time.Sleep(20 * time.Millisecond)
	}
	return err
}

func nginxConfig(port string) string {
	return `daemon off; master_process off; error_log stderr error; pid DIR/pid;
events { worker_connections 20000; }
http {
  access_log off;
  client_body_temp_path DIR/body; proxy_temp_path DIR/proxy; fastcgi_temp_path DIR/f; uwsgi_temp_path DIR/u; scgi_temp_path DIR/s;
  client_max_body_size 16m; client_body_buffer_size 1m;
  upstream replica { server 127.0.0.1:` + port + `; keepalive 1000; }
  server { listen 127.0.0.1:PORT; location / { proxy_pass http://replica; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off; } }
}
`
}

func haproxyConfig(port string) string {
	return `global
  maxconn 8000
  nbthread ` + strconv.Itoa(subjectThreads()) + `
defaults
  mode http
  option http-no-delay
  timeout connect 5s
  timeout client 60s
  timeout server 60s
frontend in
  bind 127.0.0.1:PORT
  default_backend out
backend out
  http-reuse always
  server replica 127.0.0.1:` + port + `
`
}
