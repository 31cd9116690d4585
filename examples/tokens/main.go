// Command tokens shows what a model folder makes of texts and conversations,
// so that an operator can compare it with the engine before the gateway uses
// it.
//
//	go run ./examples/tokens -model DIR < in.jsonl > out.jsonl
//
// Each input line is {"id", "text"} and becomes {"id", "ids"}. With -special,
// the ids include the tokens that tokenizer.json's post-processor adds; with
// -prompt, those that the engine's completions endpoint adds. With -chat, an
// input line is the body of a chat request, as {"id", "messages", "tools"}, and
// becomes {"id", "text"}: what the gateway renders for it. With -count, a line
// becomes {"id", "n"}, the number of tokens. Where a text or conversation is
// refused, the line becomes {"id", "error"}.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/expediterhq/expediter/tokenize"
	"github.com/expediterhq/expediter/tokenize/demo"
)

func main() {
	err := run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errUsage):
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "tokens:", err)
		os.Exit(1)
	}
}

// settings are the command line.
type settings struct {
	model   string
	special bool
	prompt  bool
	chat    bool
	count   bool
	now     time.Time
}

// errUsage says that the flags are wrong, and that this is printed already.
var errUsage = errors.New("wrong usage")

const about = `Usage of tokens: tokens [flags] < in.jsonl > out.jsonl
Shows what a model folder makes of texts and conversations. The standard input is JSON lines, such as

  {"id": 1, "text": "The soup is ready."}
  {"id": 1, "messages": [{"role": "user", "content": "Is the soup ready?"}]}    with -chat

Each becomes a line with "ids", with -chat "text", with -count "n", or with "error".
`

func parse(args []string, usage io.Writer) (settings, error) {
	var s settings
	flags := flag.NewFlagSet("tokens", flag.ContinueOnError)
	flags.SetOutput(usage)
	flags.Usage = func() {
		fmt.Fprint(usage, about)
		flags.PrintDefaults()
	}
	flags.StringVar(&s.model, "model", "", "folder with tokenizer.json; if empty, the demo tokenizer")
	flags.BoolVar(&s.special, "special", false, "add the tokens of the file's post-processor")
	flags.BoolVar(&s.prompt, "prompt", false, "add the tokens that a completions endpoint adds")
	flags.BoolVar(&s.chat, "chat", false, "render conversations")
	flags.BoolVar(&s.count, "count", false, "print the number of tokens only")
	now := flags.String("now", "", "clock of the chat template, as 2026-01-15 or 2026-01-15T09:30:00Z; if empty, the real one")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return s, err
	} else if err != nil {
		return s, errUsage
	}
	if flags.NArg() > 0 {
		return s, fmt.Errorf("unexpected argument %q; lines are read from standard input", flags.Arg(0))
	}
	if s.special && s.prompt || s.chat && (s.special || s.prompt) {
		return s, errors.New("-special, -prompt and -chat exclude each other")
	}
	var err error
	s.now, err = parseTime(*now)
	return s, err
}

// parseTime reads a date or a time; the empty string is the zero Time.
func parseTime(s string) (t time.Time, err error) {
	if s == "" {
		return t, nil
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if t, err = time.Parse(layout, s); err == nil {
			return t, nil
		}
	}
	return t, fmt.Errorf("-now is %q, want a time as 2026-01-15 or 2026-01-15T09:30:00Z", s)
}

func (s *settings) load() (*tokenize.Model, error) {
	if s.model == "" {
		return tokenize.Load(demo.Files)
	}
	m, err := tokenize.Load(os.DirFS(s.model))
	if err != nil {
		return nil, fmt.Errorf("-model: cannot load the folder %q: %w", s.model, err)
	}
	return m, nil
}
