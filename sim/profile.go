package sim

import (
	"errors"
	"fmt"
	"time"
)

// Profile is the speed and the size of one replica: a model on given hardware.
// It is a value; copy and change one to describe other hardware.
//
// A step that computes m tokens, reads K context tokens for its decodes and
// has prefill chunks of n tokens behind c tokens of context takes
//
//	Base + Linear(m) + K x KVToken + Pair x sum of (n x c + n x n / 2)
//
// which is GPU time: the engine's CPU work is hidden behind it by asynchronous
// scheduling.
type Profile struct {
	Name string

	Base    time.Duration // per step, whatever it holds
	Linear  []Point       // time of the linear layers by tokens in the step, ascending; interpolated linearly
	Slope   time.Duration // per token beyond the last Point
	KVToken int64         // picoseconds per context token that a decode reads
	Pair    int64         // picoseconds per pair of a prefill token and a token it attends to

	KVTokens         int // KV cache capacity, in tokens
	BlockSize        int // tokens per KV block; if zero, 16
	MaxBatchedTokens int // token budget of one step; if zero, 2048
	MaxSeqs          int // sequences in the running set; if zero, 256

	AdapterDisk time.Duration // reading a LoRA adapter from disk into host memory
	AdapterCopy time.Duration // copying it from host memory into a GPU slot
}

// Point is one measured time of the linear layers.
type Point struct {
	Tokens int
	Time   time.Duration
}

const us = time.Microsecond

// Llama8BA100 is Llama-3-8B in bf16 on one A100-80GB.
//
// Times are fitted to NVIDIA aiconfigurator's operator tables, measured with
// vLLM 0.14.0 on an A100-SXM4-80GB. Capacity is that of
// gpu_memory_utilization 0.90. Limits are vLLM's defaults for the A100. A rank
// 16 adapter of all linear layers is 84 MB: 2 GB/s from disk, 20 GB/s to the GPU.
func Llama8BA100() Profile {
	return Profile{
		Name: "llama-3-8b-a100",
		Base: 600 * us,
		Linear: []Point{
			{1, 10100 * us}, {16, 10100 * us}, {32, 10400 * us}, {64, 10500 * us}, {96, 12100 * us},
			{128, 12600 * us}, {192, 18200 * us}, {256, 18600 * us}, {512, 32300 * us},
			{1024, 60400 * us}, {2048, 115000 * us}, {4096, 230000 * us},
		},
		Slope:   56 * us,
		KVToken: 85_000, Pair: 3_300,
		KVTokens: 443_200, BlockSize: 16, MaxBatchedTokens: 2048, MaxSeqs: 256,
		AdapterDisk: 42 * time.Millisecond, AdapterCopy: 4200 * us,
	}
}

// Llama70BTP2A100 is Llama-3-70B in bf16 on two A100-80GB with tensor
// parallelism 2.
//
// Times have the source of Llama8BA100's. Capacity is that of
// gpu_memory_utilization 0.95: at 0.90 only about 20,000 tokens remain. A rank
// 16 adapter is about 414 MB, half on each GPU.
func Llama70BTP2A100() Profile {
	return Profile{
		Name: "llama-3-70b-tp2-a100",
		Base: 1400 * us,
		Linear: []Point{
			{1, 47500 * us}, {16, 48800 * us}, {32, 50500 * us}, {64, 51600 * us}, {96, 56900 * us},
			{128, 58900 * us}, {192, 80200 * us}, {256, 89400 * us}, {512, 164000 * us},
			{1024, 298000 * us}, {2048, 562000 * us}, {4096, 1105000 * us},
		},
		Slope:   270 * us,
		KVToken: 115_000, Pair: 8_300,
		KVTokens: 46_400, BlockSize: 16, MaxBatchedTokens: 2048, MaxSeqs: 256,
		AdapterDisk: 207 * time.Millisecond, AdapterCopy: 10400 * us,
	}
}

// Qwen32BTP2H100 is Qwen3-32B in bf16 on two H100-80GB with tensor
// parallelism 2. It is derived, not measured:
//
//   - Weights of 65.5 GB, half per GPU, at 3.35 TB/s are 9.8 ms; the A100
//     profiles reach 72 % of their memory bandwidth, which gives 13.6 ms.
//   - 65.5 GFLOP per token on two GPUs at 64 % of 989 TFLOPS are 52 us, which
//     is 19,200 tokens/s; llm-d publishes 15,928 to 20,480 tokens/s as the
//     measured peak of this model on this hardware.
//   - KV of 262,144 bytes per token (64 layers, 8 heads of 128), half per GPU,
//     at 73 % of the bandwidth are 54 ns.
//   - Attention of 1.05 MFLOP per pair and GPU at half the peak are 2.1 ns.
//   - Capacity is that of the pods in llm-d's benchmark 73-capacity.
func Qwen32BTP2H100() Profile {
	return Profile{
		Name: "qwen3-32b-tp2-h100",
		Base: 1200 * us,
		Linear: []Point{
			{1, 13300 * us}, {16, 13500 * us}, {64, 13900 * us}, {128, 15500 * us}, {256, 20000 * us},
			{512, 32000 * us}, {1024, 57000 * us}, {2048, 108000 * us}, {4096, 214000 * us}, {8192, 426000 * us},
		},
		Slope:   52 * us,
		KVToken: 54_000, Pair: 2_100,
		KVTokens: 307_328, BlockSize: 16, MaxBatchedTokens: 8192, MaxSeqs: 1024,
		AdapterDisk: 134 * time.Millisecond, AdapterCopy: 3400 * us,
	}
}

func (p Profile) withDefaults() Profile {
	if p.BlockSize == 0 {
		p.BlockSize = 16
	}
	if p.MaxBatchedTokens == 0 {
		p.MaxBatchedTokens = 2048
	}
	if p.MaxSeqs == 0 {
		p.MaxSeqs = 256
	}
	return p
}

// Validate reports every field that makes no sense, or nil.
func (p Profile) Validate() error {
	var errs []error
	bad := func(field, want string, got any) {
		errs = append(errs, fmt.Errorf("sim: profile %q: %s is %v, want %s", p.Name, field, got, want))
	}
	if p.BlockSize < 1 {
		bad("BlockSize", "at least 1", p.BlockSize)
	} else if p.KVTokens < p.BlockSize {
		bad("KVTokens", "at least one block", p.KVTokens)
	}
	if p.KVTokens > 1<<30 {
		bad("KVTokens", "at most 2^30", p.KVTokens)
	}
	if p.MaxBatchedTokens < 1 {
		bad("MaxBatchedTokens", "at least 1", p.MaxBatchedTokens)
	}
	if p.MaxSeqs < 1 {
		bad("MaxSeqs", "at least 1", p.MaxSeqs)
	}
	if p.Base < 0 || p.Slope < 0 || p.KVToken < 0 || p.Pair < 0 || p.AdapterDisk < 0 || p.AdapterCopy < 0 {
		errs = append(errs, fmt.Errorf("sim: profile %q: a time is negative", p.Name))
	}
	last := 0
	for i, pt := range p.Linear {
		if pt.Tokens <= last || pt.Time < 0 {
			bad(fmt.Sprintf("Linear[%d]", i), "tokens that ascend from 1 and a time", pt)
		}
		last = pt.Tokens
	}
	if p.Base == 0 && p.Slope == 0 && len(p.Linear) == 0 {
		errs = append(errs, fmt.Errorf("sim: profile %q: steps take no time, set Base, Linear or Slope", p.Name))
	}
	return errors.Join(errs...)
}

// Work is what one step computes.
type Work struct {
	Tokens  int   // tokens computed: decodes and prefill chunks
	Context int   // context tokens read by decodes
	Pairs   int64 // token pairs of prefill chunks, see Chunk
}

// Decode adds one decoded token of a sequence that is context tokens long with it.
func (w *Work) Decode(context int) {
	w.Tokens++
	w.Context += context
}

// Chunk adds a prefill chunk of n tokens behind context computed tokens.
func (w *Work) Chunk(n, context int) {
	w.Tokens += n
	w.Pairs += int64(n)*int64(context) + int64(n)*int64(n)/2
}

// StepTime returns how long the engine takes for w. It uses integers only, so
// that it gives the same result on every machine.
func (p *Profile) StepTime(w Work) time.Duration {
	ps := int64(w.Context)*p.KVToken + w.Pairs*p.Pair
	return p.Base + p.linear(w.Tokens) + time.Duration(ps/1000)
}

func (p *Profile) linear(m int) time.Duration {
	n := len(p.Linear)
	if m == 0 || n == 0 {
		return time.Duration(m) * p.Slope
	}
	if last := p.Linear[n-1]; m >= last.Tokens {
		return last.Time + time.Duration(m-last.Tokens)*p.Slope
	}
	i := 0
	for p.Linear[i].Tokens <= m {
		i++
	}
	if i == 0 {
		return p.Linear[0].Time
	}
	a, b := p.Linear[i-1], p.Linear[i]
	return a.Time + (b.Time-a.Time)*time.Duration(m-a.Tokens)/time.Duration(b.Tokens-a.Tokens)
}
