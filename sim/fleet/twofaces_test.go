package fleet_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/expediterhq/expediter/sim"
	"github.com/expediterhq/expediter/sim/fleet"
)

// The two faces of the model agree to the nanosecond: the same requests over
// HTTP, in fake time, and in virtual time, with shared prefixes, a full cache
// and preemptions on the way.
func TestTwoFaces(t *testing.T) {
	rnd := rand.New(rand.NewPCG(4, 2))
	p := sim.Llama8BA100()
	p.KVTokens = 4096
	trace := &fleet.Trace{Block: 16}
	var bodies []string
	for i := range 60 {
		shared, own := 16*rnd.IntN(20), 1+rnd.IntN(400)
		r := fleet.Request{At: time.Duration(i)*37*ms + time.Duration(rnd.IntN(1e6)), Prompt: shared + own, Output: 1 + rnd.IntN(200)}
		var ids []string
		for k := range r.Prompt {
			if k < shared {
				ids = append(ids, fmt.Sprint(k))
			} else {
				ids = append(ids, fmt.Sprint(1000*(i+1)+k))
			}
		}
		for b := range shared / 16 {
			r.Content = append(r.Content, uint64(b+1))
		}
		trace.Requests = append(trace.Requests, r)
		bodies = append(bodies, fmt.Sprintf(`{"prompt":[%s],"max_tokens":%d,"ignore_eos":true,"stream":true}`, strings.Join(ids, ","), r.Output))
	}
	virtual := run(t, fleet.Config{Replicas: fleet.Uniform(1, p), Direct: true, FirstToken: time.Hour}, trace)
	if virtual.Preemptions == 0 || virtual.HitRate == 0 || virtual.Finished != 60 {
		t.Fatalf("the load is too easy: %v", virtual)
	}
	synctest.Test(t, func(t *testing.T) {
		var n sim.Network
		r, err := n.Replica("replica:8000", sim.Config{Model: "m", Profile: p})
		if err != nil {
			t.Fatal(err)
		}
		tr := n.Transport()
		start := time.Now()
		var wg sync.WaitGroup
		for i := range bodies {
			wg.Go(func() {
				time.Sleep(trace.Requests[i].At)
				resp, err := (&http.Client{Transport: tr}).Post(r.URL()+"/v1/completions", "application/json", strings.NewReader(bodies[i]))
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			})
		}
		wg.Wait()
		elapsed := time.Since(start) - trace.Requests[0].At
		var sum, most time.Duration
		for _, q := range r.Requests() {
			ttft := q.FirstToken.Sub(q.Arrived)
			sum += ttft
			most = max(most, ttft)
		}
		st := r.Stats()
		if most != virtual.TTFT.Max || (sum/60-virtual.TTFT.Mean).Abs() > 1 || elapsed != virtual.Elapsed {
			t.Errorf("over HTTP: TTFT mean %v, max %v, elapsed %v; in virtual time: %v, %v, %v",
				sum/60, most, elapsed, virtual.TTFT.Mean, virtual.TTFT.Max, virtual.Elapsed)
		}
		e := virtual.Engines
		if st.Steps != e.Steps || st.Cached != e.Cached || st.Preemptions != e.Preemptions || st.Recomputed != e.Recomputed || st.StepTokens != e.StepTokens {
			t.Errorf("over HTTP: %+v\nin virtual time: %+v", st, e)
		}
		tr.CloseIdleConnections()
		_ = r.Close()
	})
}
