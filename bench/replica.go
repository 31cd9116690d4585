package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/expediterhq/expediter/sse"
)

// replicaPorts is how many replicas there are. All are one process: what is
// measured is what stands in front of it.
const replicaPorts = 64

// keepAlive is how long the engine's server keeps a connection between two
// requests, unless it is told otherwise.
const keepAlive = 5 * time.Second

// serveReplica is the process of the replicas: it prints its ports and
// streams events until it is killed.
func serveReplica([]string) error {
	var ports []string
	failed := make(chan error)
	for range replicaPorts {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		ports = append(ports, strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
		server := &http.Server{Handler: http.HandlerFunc(answer), IdleTimeout: keepAlive}
		go func() { failed <- server.Serve(sse.Listener(l)) }()
	}
	fmt.Println(strings.Join(ports, " "))
	return <-failed
}

func answer(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		if r.URL.Path == "/metrics" {
			io.WriteString(w, replicaMetrics)
		}
		return
	}
	var body struct {
		User          string
		StreamOptions struct {
			Continuous bool `json:"continuous_usage_stats"`
		} `json:"stream_options"`
	}
	raw, err := io.ReadAll(r.Body)
	if err != nil || json.Unmarshal(raw, &body) != nil {
		http.Error(w, "bad body", http.StatusBadRequest)
		return
	}
	// The load generator says in "user" what the stream shall be like.
	n, pause := 50, 20*time.Millisecond
	fmt.Sscanf(body.User, "%d %d", &n, (*int64)(&pause))
	stream(w, r, n, pause, body.StreamOptions.Continuous)
}

const replicaMetrics = `vllm:num_requests_running{engine="0",model_name="bench"} 5.0
vllm:num_requests_waiting{engine="0",model_name="bench"} 0.0
vllm:kv_cache_usage_perc{engine="0",model_name="bench"} 0.1
vllm:cache_config_info{block_size="16",num_gpu_blocks="200001"} 1.0
`

const (
	head = `data: {"id":"chatcmpl-0123456789abcdef","object":"chat.completion.chunk","created":1780000000,"model":"bench-8b","choices":[{"index":0,"delta":`
	tail = `,"logprobs":null,"finish_reason":null,"token_ids":null}]`
)

// prefill is the time before the first event. Without any, ReverseProxy loses
// streams: the head of the answer then closes the request's body while the
// transport is about to look for its end, which it takes for a failed request.
const prefill = 10 * time.Millisecond

// stream writes n content events pause apart, each with the time of its write
// in its content.
func stream(w http.ResponseWriter, r *http.Request, n int, pause time.Duration, usage bool) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	f := w.(http.Flusher)
	time.Sleep(prefill)
	io.WriteString(w, head+`{"role":"assistant","content":""}`+tail+"}\n\n")
	tick := time.NewTicker(max(pause, time.Microsecond))
	defer tick.Stop()
	var b, used []byte
	for i := range n {
		b = append(append(b[:0], head+`{"content":" `...), '@')
		b = strconv.AppendInt(b, time.Now().UnixNano(), 10)
		b = append(b, `"}`+tail...)
		// Usage is counted for all subjects, as it shares their processors, and sent
		// to those that ask for it.
		used = fmt.Appendf(used[:0], `,"usage":{"prompt_tokens":1800,"total_tokens":%d,"completion_tokens":%d}`, 1801+i, i+1)
		if usage {
			b = append(b, used...)
		}
		b = append(b, "}\n\n"...)
		if _, err := w.Write(b); err != nil {
			return
		}
		f.Flush()
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		}
	}
	io.WriteString(w, head+`{"content":""},"logprobs":null,"finish_reason":"stop","stop_reason":null,"token_ids":null}]}`+"\n\n")
	if usage {
		fmt.Fprintf(w, `data: {"id":"chatcmpl-0123456789abcdef","object":"chat.completion.chunk","created":1780000000,"model":"bench-8b","choices":[],"usage":{"prompt_tokens":1800,"total_tokens":%d,"completion_tokens":%d}}`+"\n\n", 1800+n, n)
	}
	io.WriteString(w, "data: [DONE]\n\n")
}

// stamp finds the time in an event line.
func stamp(line []byte) (time.Time, bool) {
	_, rest, ok := bytes.Cut(line, []byte{'@'})
	if !ok {
		return time.Time{}, false
	}
	digits, _, ok := bytes.Cut(rest, []byte{'"'})
	if !ok {
		return time.Time{}, false
	}
	ns, err := strconv.ParseInt(string(digits), 10, 64)
	return time.Unix(0, ns), err == nil
}

// lines reads a stream line by line.
func lines(r io.Reader) *bufio.Scanner {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 0, 4<<10), 1<<20)
	return s
}
