package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/expediterhq/expediter/sim"
	"github.com/expediterhq/expediter/tokenize"
	"github.com/expediterhq/expediter/tokenize/chat"
)

// options are the flags.
type options struct {
	addr, control string
	model         string
	aliases       []string
	adapters      map[string]string
	profile       string
	hardware      sim.Profile // that -profile names
	kv, maxLen    int
	maxLoRAs      int
	speed         float64
	tokenizer     string
	version       string
	faults        func(*sim.Arrival) *sim.Fault
	events        string
	replay        string
	topic         string
	arrays        bool
	shutdown      time.Duration
}

// errUsage says that the flags are wrong, and that this is printed already.
var errUsage = errors.New("wrong usage")

const about = `Usage of replica: replica [flags]
Serves one simulated vLLM replica: its routes, its times and its failures, without a GPU.
`

// faultHelp says what -fault takes; sim.ParseFaults has the rules.
const faultHelp = `rules WHEN:WHAT[@PHASE][+PAUSE] separated by semicolons, such as 'rate=0.01:reset@token=5';
WHEN is all, every=N, rate=P or marker=TEXT;
WHAT is reset, hangup, stall, finish, error, done, die, hang, none or status=CODE;
PHASE is headers, request, head, token=N or end (default: request; error, done and finish need head, token or end);
PAUSE is a duration`

// parse reads the flags; help goes to usage.
func parse(args []string, usage io.Writer) (options, error) {
	var o options
	var aliases, adapters, faults string
	fs := flag.NewFlagSet("replica", flag.ContinueOnError)
	fs.SetOutput(usage)
	fs.Usage = func() {
		fmt.Fprint(usage, about)
		fs.PrintDefaults()
	}
	fs.StringVar(&o.addr, "addr", "127.0.0.1:8000", "address to listen on")
	fs.StringVar(&o.control, "control", "", "address for switching faults at run time; never expose it")
	fs.StringVar(&o.model, "model", "acme-8b", "served model name")
	fs.StringVar(&aliases, "aliases", "", "further names, separated by commas")
	fs.StringVar(&adapters, "adapters", "", "LoRA adapters, separated by commas")
	fs.StringVar(&o.profile, "profile", "8b-a100", "model and hardware: a .json file or one of "+strings.Join(sim.ProfileNames(), ", "))
	fs.IntVar(&o.kv, "kv", 0, "KV cache capacity in tokens (default: the profile's)")
	fs.IntVar(&o.maxLen, "max-model-len", 0, "longest prompt with its output in tokens (default: 32768 or what the cache holds)")
	fs.IntVar(&o.maxLoRAs, "max-loras", 0, "adapter slots on the GPU (default: 8)")
	fs.Float64Var(&o.speed, "speed", 1, "how much faster than the hardware it runs")
	fs.StringVar(&o.tokenizer, "tokenizer", "", "model folder with tokenizer.json (default: 4 bytes are a token)")
	fs.StringVar(&o.version, "engine-version", "", "what /version says")
	fs.StringVar(&faults, "fault", "", faultHelp)
	fs.StringVar(&o.events, "kv-events", "", "address to publish KV events on, as ZeroMQ PUB")
	fs.StringVar(&o.replay, "kv-replay", "", "address to replay KV events on, as ZeroMQ ROUTER")
	fs.StringVar(&o.topic, "kv-topic", "", "topic of KV events")
	fs.BoolVar(&o.arrays, "kv-arrays", false, "KV events in the encoding of vLLM up to 0.23")
	fs.DurationVar(&o.shutdown, "shutdown-timeout", 0, "how long what runs may go on after SIGTERM")
	if err := fs.Parse(args); errors.Is(err, flag.ErrHelp) {
		return o, err
	} else if err != nil {
		return o, errUsage
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	o.aliases = split(aliases)
	o.adapters = map[string]string{}
	for _, name := range split(adapters) {
		o.adapters[name] = "/adapters/" + name
	}
	var err error
	if o.faults, err = sim.ParseFaults(faults); err != nil {
		err = fmt.Errorf("-fault: %w", err)
	}
	return o, errors.Join(err, o.check())
}

func split(s string) []string {
	return slices.DeleteFunc(strings.Split(s, ","), func(p string) bool { return p == "" })
}

// check reports all flags that make no sense.
func (o *options) check() error {
	var errs []error
	if o.model == "" {
		errs = append(errs, errors.New("-model is empty"))
	}
	var err error
	if o.hardware, err = sim.FindProfile(o.profile); err != nil {
		return errors.Join(append(errs, fmt.Errorf("-profile: %w", err))...)
	}
	capacity := o.hardware.KVTokens
	if o.kv != 0 {
		capacity = o.kv
	}
	if capacity < 16 {
		errs = append(errs, fmt.Errorf("-kv is %d, want at least one block of 16 tokens", o.kv))
	}
	if o.maxLen < 0 || o.maxLen > capacity/16*16 {
		errs = append(errs, fmt.Errorf("-max-model-len is %d, want at most the KV cache of %d tokens", o.maxLen, capacity/16*16))
	}
	if o.maxLoRAs < 0 {
		errs = append(errs, fmt.Errorf("-max-loras is %d, want 1 or more", o.maxLoRAs))
	}
	if !(o.speed > 0) {
		errs = append(errs, fmt.Errorf("-speed is %v, want more than 0", o.speed))
	}
	if o.shutdown < 0 {
		errs = append(errs, fmt.Errorf("-shutdown-timeout is %v, want 0 or more", o.shutdown))
	}
	if o.replay != "" && o.events == "" {
		errs = append(errs, errors.New("-kv-replay needs -kv-events"))
	}
	return errors.Join(errs...)
}

// hardwareName is what the profile is called: a file's by the name inside.
func (o *options) hardwareName() string {
	if slices.Contains(sim.ProfileNames(), o.profile) {
		return o.profile
	}
	return cmp.Or(o.hardware.Name, o.profile)
}

// config describes the simulated engine.
func (o *options) config() (sim.Config, error) {
	c := sim.Config{
		Model: o.model, Aliases: o.aliases, Adapters: o.adapters, Profile: o.hardware, KVTokens: o.kv,
		MaxModelLen: o.maxLen, MaxLoRAs: o.maxLoRAs, Speed: o.speed, Version: o.version, LedgerSize: 1000,
	}
	if o.tokenizer == "" {
		return c, nil
	}
	m, err := tokenize.Load(os.DirFS(o.tokenizer))
	if err != nil {
		return c, fmt.Errorf("-tokenizer: cannot load the folder %q: %w", o.tokenizer, err)
	}
	c.Tokenize = func(dst []uint32, text string) []uint32 {
		ids, err := m.Tokenizer().Append(dst, text)
		if err != nil {
			return dst
		}
		return ids
	}
	c.TokenizePrompt = func(dst []uint32, text string) []uint32 {
		ids, err := m.AppendPrompt(dst, text)
		if err != nil {
			return dst
		}
		return ids
	}
	c.Render = func(dst []byte, messages, tools json.RawMessage) ([]byte, error) {
		text, _, err := m.AppendText(dst, chat.Input{Messages: messages, Tools: tools})
		return text, err
	}
	return c, nil
}
