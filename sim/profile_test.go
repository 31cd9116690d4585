package sim_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/expediterhq/expediter/sim"
)

func decodes(n, context int) (w sim.Work) {
	for range n {
		w.Decode(context)
	}
	return w
}

// mixed is a full step: decodes at a context of 2048 tokens, the rest prefill.
func mixed(budget, n int) sim.Work {
	w := decodes(n, 2048)
	w.Chunk(budget-n, 0)
	return w
}

func prefill(n int) (w sim.Work) {
	w.Chunk(n, 0)
	return w
}

// TestStepTimes holds the profiles to the times composed from NVIDIA
// aiconfigurator's operator tables for the A100.
func TestStepTimes(t *testing.T) {
	type row struct {
		name      string
		w         sim.Work
		ms8, ms70 float64
	}
	rows := []row{
		{"prefill 512", prefill(512), 34, 167},
		{"prefill 1024", prefill(1024), 63, 305},
		{"prefill 1800", prefill(1800), 109, 516},
		{"prefill 2048", prefill(2048), 124, 584},
		{"prefill 4096", prefill(4096), 258, 1177},
		{"prefill 8192", prefill(8192), 564, 2435},
		{"decode 1 at 1024", decodes(1, 1024), 10.7, 49},
		{"decode 8 at 1024", decodes(8, 1024), 11.3, 50},
		{"decode 32 at 1024", decodes(32, 1024), 14.3, 56},
		{"decode 64 at 1024", decodes(64, 1024), 16.6, 62},
		{"decode 128 at 1024", decodes(128, 1024), 23.5, 75},
		{"decode 256 at 1024", decodes(256, 1024), 41.5, 122},
		{"decode 8 at 2048", decodes(8, 2048), 12.1, 51},
		{"decode 32 at 2048", decodes(32, 2048), 17.9, 60},
		{"decode 64 at 2048", decodes(64, 2048), 21.9, 70},
		{"decode 128 at 2048", decodes(128, 2048), 33.2, 88},
		{"mixed 2048 with 16", mixed(2048, 16), 127, 589},
		{"mixed 2048 with 64", mixed(2048, 64), 135, 601},
		{"mixed 2048 with 128", mixed(2048, 128), 144, 611},
		{"mixed 512 with 16", mixed(512, 16), 37, 173},
		{"mixed 512 with 64", mixed(512, 64), 45, 185},
		{"mixed 512 with 128", mixed(512, 128), 54, 196},
	}
	p8, p70 := sim.Llama8BA100(), sim.Llama70BTP2A100()
	for _, r := range rows {
		for _, c := range []struct {
			p    sim.Profile
			want float64
		}{{p8, r.ms8}, {p70, r.ms70}} {
			got := float64(c.p.StepTime(r.w)) / 1e6
			t.Logf("%-20s %-20s %7.1f ms, want %7.1f, %+.1f %%", c.p.Name, r.name, got, c.want, 100*(got/c.want-1))
			if math.Abs(got/c.want-1) > 0.08 {
				t.Errorf("%s, %s: %.1f ms, want %.1f within 8%%", c.p.Name, r.name, got, c.want)
			}
		}
	}
}

// The published prefill peak of Qwen3-32B on two H100 is 15,928 to 20,480
// tokens/s, and decode cannot be faster than reading the weights.
func TestQwenProfile(t *testing.T) {
	p := sim.Qwen32BTP2H100()
	if rate := 8192 / p.StepTime(prefill(8192)).Seconds(); rate < 15928 || rate > 20480 {
		t.Errorf("prefill of 8192 tokens runs at %.0f tokens/s, want 15928 to 20480", rate)
	}
	if floor := 9800 * time.Microsecond; p.StepTime(decodes(1, 1)) < floor {
		t.Errorf("decode takes %v, less than the %v of reading the weights", p.StepTime(decodes(1, 1)), floor)
	}
}

func TestProfileValidate(t *testing.T) {
	for _, p := range []sim.Profile{sim.Llama8BA100(), sim.Llama70BTP2A100(), sim.Qwen32BTP2H100()} {
		if err := p.Validate(); err != nil {
			t.Error(err)
		}
	}
	_, err := sim.NewEngine(sim.EngineConfig{Watermark: 1, Profile: sim.Profile{
		KVTokens: 3, MaxSeqs: -1, KVToken: -1, Linear: []sim.Point{{Tokens: 4}, {Tokens: 4}},
	}})
	for _, want := range []string{"Watermark", "KVTokens", "MaxSeqs", "negative", "Linear[1]"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not name %s", err, want)
		}
	}
	if _, err := sim.NewEngine(sim.EngineConfig{Profile: sim.Profile{KVTokens: 160}}); err == nil {
		t.Error("a profile whose steps take no time is accepted")
	}
}

// load drives one engine with Poisson arrivals of 1,800 tokens in, 300 out, of
// which the first shared tokens are the same for all, and returns the mean time
// per output token and the mean running set, both after a warm-up.
func load(t *testing.T, p sim.Profile, rate float64, shared, requests int) (tpot time.Duration, batch float64) {
	t.Helper()
	e, err := sim.NewEngine(sim.EngineConfig{Profile: p})
	if err != nil {
		t.Fatal(err)
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	var now, next, sum time.Duration
	first := map[*sim.Sequence]time.Duration{}
	sent, done, counted := 0, 0, 0
	var area, busy float64
	for done < requests {
		for next <= now && sent < requests {
			s := &sim.Sequence{Prompt: 1800, Output: 300, Value: sent}
			for i := range 1800 / p.BlockSize {
				id := uint64(i + 1)
				if i >= shared/p.BlockSize {
					id += uint64(sent+1) << 20
				}
				s.Blocks = append(s.Blocks, id)
			}
			if err := e.Submit(s); err != nil {
				t.Fatal(err)
			}
			sent++
			next += time.Duration(rnd.ExpFloat64() / rate * 1e9)
		}
		d, ok := e.Begin()
		if !ok {
			now = next
			continue
		}
		now += d
		area += float64(len(e.Running())) * d.Seconds()
		busy += d.Seconds()
		for _, o := range e.End() {
			if o.First {
				first[o.Seq] = now
			}
			if o.Reason != "" {
				done++
				if o.Seq.Value.(int) > requests/5 {
					sum += now - first[o.Seq]
					counted++
				}
			}
		}
	}
	return sum / time.Duration(counted*299), area / busy
}

// TestCapacity holds the engine to what one replica can carry by the step
// model: the rate at which the mean time per output token passes 50 ms on the
// 8B, and that time at given rates on the 70B.
func TestCapacity(t *testing.T) {
	for _, c := range []struct {
		shared   int
		low, top float64 // requests per second
	}{{0, 5, 5}, {900, 6, 7}, {1494, 10, 12}} {
		low, top := c.low/2, c.top*2
		for top/low > 1.01 {
			mid := (low + top) / 2
			if tpot, _ := load(t, sim.Llama8BA100(), mid, c.shared, 600); tpot < 50*time.Millisecond {
				low = mid
			} else {
				top = mid
			}
		}
		t.Logf("8B, %d shared: 50 ms per token at %.2f rps, want %v to %v", c.shared, low, c.low, c.top)
		if low < c.low*0.85 || low > c.top*1.15 {
			t.Errorf("8B with %d shared tokens passes 50 ms per token at %.2f rps, want %v to %v within 15%%", c.shared, low, c.low, c.top)
		}
	}
	for _, c := range []struct {
		shared int
		rate   float64
		want   time.Duration
	}{{0, 0.7, 80 * time.Millisecond}, {900, 1.0, 73 * time.Millisecond}, {1494, 1.3, 61 * time.Millisecond}} {
		got, batch := load(t, sim.Llama70BTP2A100(), c.rate, c.shared, 600)
		t.Logf("70B, %d shared: %v, batch %.0f", c.shared, got, batch)
		if math.Abs(float64(got)/float64(c.want)-1) > 0.15 {
			t.Errorf("70B with %d shared tokens at %.1f rps: %v per token, want %v within 15%%", c.shared, c.rate, got, c.want)
		}
	}
}
