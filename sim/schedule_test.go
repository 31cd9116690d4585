package sim_test

import (
	"flag"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/expediterhq/expediter/sim"
)

var update = flag.Bool("update", false, "rewrite the expected schedules in testdata")

// TestSchedule runs the scenarios of testdata/schedule. Each is a list of
// commands; behind ---- stands what the steps up to there did.
//
//	engine blocks=8 size=4 budget=8 seqs=4 ...   first line: the engine
//	submit A prompt=sys*8,a*3 out=2 ...          tokens of equal names and places are equal
//	abort A
//	step 2                                       runs two steps
//	begin, end                                   the two halves of a step
//
// A step prints its time (1 ms per token, 10 ms per adapter copy, 100 ms per
// disk read) and the tokens it computes per sequence in order of admission,
// with "hit" where cached tokens were found, then the tokens and the ends it
// produced, then the line and the free blocks after it.
func TestSchedule(t *testing.T) {
	files, err := filepath.Glob("testdata/schedule/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := newScenario(t).run(string(data))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(data) {
				t.Errorf("schedule =\n%s\nwant\n%s", got, data)
			}
		})
	}
}

type scenario struct {
	t    *testing.T
	e    *sim.Engine
	size int
	seqs map[string]*sim.Sequence
	out  strings.Builder

	ran       map[*sim.Sequence]bool
	preempted map[*sim.Sequence]int // when it was last seen running
}

func newScenario(t *testing.T) *scenario {
	return &scenario{t: t, seqs: map[string]*sim.Sequence{},
		ran: map[*sim.Sequence]bool{}, preempted: map[*sim.Sequence]int{}}
}

// run executes the commands of a file and returns the file with what they print.
func (sc *scenario) run(text string) string {
	var file strings.Builder
	expected := false
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, "----"):
			expected = true
			file.WriteString("----\n" + sc.out.String())
			sc.out.Reset()
			continue
		case strings.TrimSpace(line) == "":
			expected = false
		case expected:
			continue
		case line[0] != '#':
			sc.do(strings.Fields(line))
		}
		file.WriteString(line)
	}
	return file.String()
}

func (sc *scenario) do(words []string) {
	args := map[string]string{}
	name := ""
	if len(words) > 1 {
		name = words[1]
	}
	for _, w := range words[1:] {
		k, v, _ := strings.Cut(w, "=")
		args[k] = v
	}
	num := func(k string, def int) int {
		n, err := strconv.Atoi(args[k])
		if err != nil {
			return def
		}
		return n
	}
	switch words[0] {
	case "engine":
		sc.engine(args, num)
	case "submit":
		s := &sim.Sequence{Output: num("out", 1), Adapter: args["adapter"], Priority: num("prio", 0), Value: name}
		_, s.Stop = args["stop"]
		sc.content(s, args["prompt"])
		sc.seqs[name] = s
		if err := sc.e.Submit(s); err != nil {
			fmt.Fprintf(&sc.out, "%s: %v\n", name, err)
		}
	case "abort":
		gone := sc.e.Abort(sc.seqs[name])
		fmt.Fprintf(&sc.out, "abort %s: gone %v\n", name, gone)
	case "begin":
		sc.begin()
	case "end":
		sc.end()
	case "step":
		n, _ := strconv.Atoi(name)
		for range max(n, 1) {
			sc.begin()
			sc.end()
		}
	default:
		sc.t.Fatalf("unknown command %q", words)
	}
}

func (sc *scenario) engine(args map[string]string, num func(string, int) int) {
	sc.size = num("size", 4)
	watermark, _ := strconv.ParseFloat(args["watermark"], 64)
	_, first := args["firstchunk"]
	_, prio := args["priority"]
	_, tail := args["tailfirst"]
	e, err := sim.NewEngine(sim.EngineConfig{
		Profile: sim.Profile{
			Name: "scenario", Slope: time.Millisecond, BlockSize: sc.size, KVTokens: num("blocks", 8) * sc.size,
			MaxBatchedTokens: num("budget", 8), MaxSeqs: num("seqs", 4),
			AdapterDisk: 100 * time.Millisecond, AdapterCopy: 10 * time.Millisecond,
		},
		LongPrefill: num("long", 0), FirstChunk: first, Watermark: watermark, Priority: prio, TailFirst: tail,
		MaxLoRAs: num("loras", 0), MaxCPULoRAs: num("cpuloras", 0),
	})
	if err != nil {
		sc.t.Fatal(err)
	}
	sc.e = e
}

// content sets the prompt's length and names its blocks by their tokens.
func (sc *scenario) content(s *sim.Sequence, prompt string) {
	h := fnv.New64a()
	fmt.Fprint(h, s.Adapter)
	for run := range strings.SplitSeq(prompt, ",") {
		name, count, _ := strings.Cut(run, "*")
		n, err := strconv.Atoi(count)
		if err != nil {
			sc.t.Fatalf("prompt %q: %v", prompt, err)
		}
		for i := range n {
			fmt.Fprintf(h, "%s%d,", name, i)
			s.Prompt++
			if s.Prompt%sc.size == 0 {
				s.Blocks = append(s.Blocks, h.Sum64())
			}
		}
	}
}

func (sc *scenario) begin() {
	d, ok := sc.e.Begin()
	if !ok {
		sc.out.WriteString("nothing to do\n")
		return
	}
	fmt.Fprintf(&sc.out, "%v:", d)
	for _, s := range sc.e.Running() {
		if s.Scheduled() == 0 {
			continue
		}
		fmt.Fprintf(&sc.out, " %v", s.Value)
		if s.Computed() > 0 && (!sc.ran[s] || sc.preempted[s] < s.Preempted) {
			fmt.Fprintf(&sc.out, "(hit %d)", s.Computed())
		}
		fmt.Fprintf(&sc.out, "+%d", s.Scheduled())
		sc.ran[s] = true
		sc.preempted[s] = s.Preempted
	}
	sc.out.WriteString("\n")
}

func (sc *scenario) end() {
	outs := sc.e.End()
	if outs == nil && sc.e.Idle() {
		return
	}
	sc.out.WriteString("  ->")
	for _, o := range outs {
		switch {
		case o.Reason != "":
			fmt.Fprintf(&sc.out, " %v:%s", o.Seq.Value, o.Reason)
		case o.First:
			fmt.Fprintf(&sc.out, " %v:first", o.Seq.Value)
		default:
			fmt.Fprintf(&sc.out, " %v", o.Seq.Value)
		}
	}
	if line := sc.e.Waiting(nil); len(line) > 0 {
		sc.out.WriteString(" | waiting")
		for _, s := range line {
			fmt.Fprintf(&sc.out, " %v", s.Value)
		}
	}
	fmt.Fprintf(&sc.out, " | free %d\n", sc.e.Stats().Free)
}
