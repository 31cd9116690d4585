package faultbench_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/expediterhq/expediter"
	"github.com/expediterhq/expediter/internal/faultbench"
	"github.com/expediterhq/expediter/registry"
	"github.com/expediterhq/expediter/vllm"
)

// Frame types and flags of HTTP/2 (RFC 9113, section 6).
const (
	frameData, frameHeaders, frameSettings, framePing, frameGoAway = 0, 1, 4, 6, 7
	flagEnd, flagAck, flagEndHeaders                               = 1, 1, 4
)

// leaving is an HTTP/2 server that says GOAWAY when the first request of its
// first connection is complete. It answers what it has not turned away.
type leaving struct {
	t       *testing.T
	ln      net.Listener
	process bool // the GOAWAY covers the request: it will be answered

	mu     sync.Mutex
	conns  []net.Conn
	bodies [][]byte // of requests that were carried out
	wg     sync.WaitGroup
}

func (s *leaving) serve() {
	for n := 0; ; n++ {
		c, err := s.ln.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.conns = append(s.conns, c)
		s.mu.Unlock()
		s.wg.Go(func() {
			defer c.Close()
			s.one(c, n == 0)
		})
	}
}

func (s *leaving) close() {
	_ = s.ln.Close()
	s.mu.Lock()
	for _, c := range s.conns {
		_ = c.Close()
	}
	s.mu.Unlock()
	s.wg.Wait()
}

func writeFrame(w io.Writer, typ, flags byte, stream uint32, payload []byte) error {
	head := []byte{byte(len(payload) >> 16), byte(len(payload) >> 8), byte(len(payload)), typ, flags, 0, 0, 0, 0}
	binary.BigEndian.PutUint32(head[5:], stream)
	_, err := w.Write(append(head, payload...))
	return err
}

// one serves a connection.
func (s *leaving) one(c net.Conn, goAway bool) {
	preface := make([]byte, 24)
	if _, err := io.ReadFull(c, preface); err != nil {
		return
	}
	_ = writeFrame(c, frameSettings, 0, 0, nil)
	bodies := make(map[uint32][]byte)
	for {
		var head [9]byte
		if _, err := io.ReadFull(c, head[:]); err != nil {
			return
		}
		payload := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
		if _, err := io.ReadFull(c, payload); err != nil {
			return
		}
		stream := binary.BigEndian.Uint32(head[5:])
		switch head[3] {
		case frameSettings:
			if head[4]&flagAck == 0 {
				_ = writeFrame(c, frameSettings, flagAck, 0, nil)
			}
		case framePing:
			if head[4]&flagAck == 0 {
				_ = writeFrame(c, framePing, flagAck, 0, payload)
			}
		case frameData:
			bodies[stream] = append(bodies[stream], payload...)
		}
		if (head[3] == frameData || head[3] == frameHeaders) && head[4]&flagEnd != 0 {
			if !s.complete(c, stream, bodies[stream], goAway) {
				return
			}
		}
	}
}

// complete deals with a request that has come whole.
func (s *leaving) complete(c net.Conn, stream uint32, body []byte, goAway bool) bool {
	if goAway {
		last := make([]byte, 8)
		if s.process {
			binary.BigEndian.PutUint32(last, stream)
		}
		_ = writeFrame(c, frameGoAway, 0, 0, last)
		if !s.process {
			return true // and hears no more of it
		}
		wait := time.NewTimer(50 * time.Millisecond)
		<-wait.C
	}
	s.mu.Lock()
	s.bodies = append(s.bodies, body)
	s.mu.Unlock()
	var ask faultbench.Ask
	if err := json.Unmarshal(body, &ask); err != nil {
		s.t.Errorf("the body came as %q", body)
	}
	answer := faultbench.Speech{Ask: ask, ID: "x", Text: "a", Tokens: 3, Prompt: 7}.Whole()
	const contentType = "application/json"
	head := append([]byte{0x88, 0x0f, 0x10, byte(len(contentType))}, contentType...) // :status 200 and content-type, in HPACK
	_ = writeFrame(c, frameHeaders, flagEndHeaders, stream, head)
	return writeFrame(c, frameData, flagEnd, stream, answer) == nil
}

// TestM4GoAway: of a replica that speaks HTTP/2 and says GOAWAY, a request it
// will not carry out is sent again, whole and once; one that it will is left
// to finish.
func TestM4GoAway(t *testing.T) {
	for name, process := range map[string]bool{"M4 not processed": false, "M4 processed": true} {
		t.Run(name, func(t *testing.T) {
			certs := httptest.NewUnstartedServer(nil)
			certs.StartTLS()
			config := &tls.Config{Certificates: certs.TLS.Certificates, NextProtos: []string{"h2"}}
			roots := x509.NewCertPool()
			roots.AddCert(certs.Certificate())
			certs.Close()
			ln, err := tls.Listen("tcp", "127.0.0.1:0", config)
			if err != nil {
				t.Fatal(err)
			}
			s := &leaving{t: t, ln: ln, process: process}
			s.wg.Go(s.serve)
			transport := vllm.NewTransport(vllm.TransportConfig{HTTP2: true, TLS: &tls.Config{RootCAs: roots}})
			h := faultbench.Open(t, faultbench.Options{
				Unseen: true, Loose: true,
				Config: func(c *expediter.Config) {
					c.Scrape = -1
					c.Pools[0].Transport = transport
				},
			})
			h.Pool.Remove(h.Members[0])
			if _, err := h.Pool.Add(registry.ReplicaConfig{Name: "h2", URL: "https://" + ln.Addr().String()}); err != nil {
				t.Fatal(err)
			}
			a := h.Do(context.Background(), faultbench.Request{MaxTokens: 3, Pad: 50_000})
			if !a.OK() || a.Text != "aaa" {
				t.Errorf("%v, status %d: %s", a.Err, a.Status, a.Body)
			}
			h.Check()
			want := 2
			if process {
				want = 1
			}
			if r := h.Records()[0]; r.Attempts != want || r.Charged != 10 {
				t.Errorf("record = %+v, want %d attempts", r, want)
			}
			closeIdle(transport)
			s.close()
			s.mu.Lock()
			defer s.mu.Unlock()
			if len(s.bodies) != 1 || !bytes.Contains(s.bodies[0], []byte(fmt.Sprintf("%.50000s", bytes.Repeat([]byte("x"), 50_000)))) {
				t.Errorf("%d requests were carried out, or not whole", len(s.bodies))
			}
		})
	}
}
