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
	case err == nil:
	case errors.Is(err, flag.ErrHelp): // the flags are printed already
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

func parse(args []string, usage io.Writer) (settings, error) {
	var s settings
	flags := flag.NewFlagSet("tokens", flag.ContinueOnError)
	flags.SetOutput(usage)
	flags.StringVar(&s.model, "model", "", "folder with tokenizer.json; if empty, the demo tokenizer")
	flags.BoolVar(&s.special, "special", false, "add the tokens of the file's post-processor")
	flags.BoolVar(&s.prompt, "prompt", false, "add the tokens that a completions endpoint adds")
	flags.BoolVar(&s.chat, "chat", false, "render conversations")
	flags.BoolVar(&s.count, "count", false, "print the number of tokens only")
	now := flags.String("now", "", "clock of the chat template, as 2026-01-15T09:30:00Z; if empty, the real one")
	if err := flags.Parse(args); err != nil {
		return s, flag.ErrHelp // what is wrong is printed already
	}
	if flags.NArg() > 0 {
		return s, fmt.Errorf("unexpected argument %q; lines are read from standard input", flags.Arg(0))
	}
	if s.special && s.prompt || s.chat && (s.special || s.prompt) {
		return s, errors.New("-special, -prompt and -chat exclude each other")
	}
	if *now != "" {
		t, err := time.Parse(time.RFC3339, *now)
		if err != nil {
			return s, fmt.Errorf("-now: %w", err)
		}
		s.now = t
	}
	return s, nil
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
