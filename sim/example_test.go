package sim_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/expediterhq/expediter/sim"
)

// Two sequences share the beginning of their prompts: the second computes only
// what is its own.
func ExampleEngine() {
	e, err := sim.NewEngine(sim.EngineConfig{Profile: sim.Llama8BA100()})
	if err != nil {
		fmt.Println(err)
		return
	}
	shared := make([]uint64, 64) // 64 blocks of 16 tokens
	for i := range shared {
		shared[i] = uint64(i + 1)
	}
	for _, name := range []string{"first", "second"} {
		if err := e.Submit(&sim.Sequence{Prompt: 1100, Output: 1, Blocks: shared, Value: name}); err != nil {
			fmt.Println(err)
			return
		}
		took, _ := e.Begin()
		for _, o := range e.End() {
			fmt.Printf("%v: %d tokens cached, first token after %v\n", o.Seq.Value, o.Seq.Cached, took.Round(time.Millisecond))
		}
	}
	// Output:
	// first: 0 tokens cached, first token after 67ms
	// second: 1024 tokens cached, first token after 12ms
}

func ExampleNewServer() {
	replica := sim.NewServer(sim.Config{Model: "acme-8b", Speed: 100})
	defer replica.Close()
	hs := httptest.NewServer(replica)
	defer hs.Close()

	resp, err := http.Post(hs.URL+"/v1/completions", "application/json", strings.NewReader(`{"prompt":"Say something","max_tokens":4}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	fmt.Println(resp.StatusCode, strings.Contains(string(body), `"completion_tokens":4`))
	fmt.Println(replica.Requests()[0].Reason)
	// Output:
	// 200 true
	// length
}

// A replica in an in-memory network, which dies when it is asked a certain
// thing.
func ExampleNetwork() {
	var n sim.Network
	r, err := n.Replica("replica-0:8000", sim.Config{Model: "acme-8b"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	r.SetFault(sim.OnMarker("poison", sim.Fault{At: sim.AtRequest, Do: sim.Die}))

	client := &http.Client{Transport: n.Transport()}
	_, err = client.Post(r.URL()+"/v1/completions", "application/json", strings.NewReader(`{"prompt":"poison"}`))
	fmt.Println(strings.Contains(err.Error(), "connection reset"))
	_, err = client.Get(r.URL() + "/health")
	fmt.Println(strings.Contains(err.Error(), "connection refused"))
	// Output:
	// true
	// true
}

func ExampleProfile_StepTime() {
	p := sim.Llama70BTP2A100()
	var step sim.Work
	for range 16 {
		step.Decode(2048)
	}
	step.Chunk(2032, 0)
	fmt.Println(p.StepTime(step).Round(time.Millisecond))
	// Output: 584ms
}
