package main

import (
	"errors"
	"flag"
	"fmt"
	"io"

	"github.com/expediterhq/expediter/registry"
)

// options are the command line of a gateway that serves or checks.
type options struct {
	path, addr     string
	check, without bool
	verbose        bool
	resolver       registry.Resolver // of the names of replicas. If nil, the system's
}

// commands are the ways to call the program, as -h lists them.
const commands = `Usage of gateway:
  gateway [-addr A] [-v]             serve an embedded simulated fleet, for a first look
  gateway -config FILE [flags]       serve what the file describes
  gateway -config FILE -check        say what is wrong with the file, and exit
  gateway keygen [-pepper-env NAME]  print a new API key and its digest

Flags:
`

// errFlags stands for flags that are wrong, which is printed already.
var errFlags = errors.New("the flags are wrong")

// parseFlags is flags.Parse, with flag.ErrHelp or errFlags as error.
func parseFlags(flags *flag.FlagSet, args []string) error {
	err := flags.Parse(args)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		return errFlags
	}
	return err
}

// parse reads the flags; help goes to usage.
func parse(args []string, usage io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("gateway", flag.ContinueOnError)
	flags.SetOutput(usage)
	flags.Usage = func() {
		fmt.Fprint(usage, commands)
		flags.PrintDefaults()
	}
	flags.StringVar(&o.addr, "addr", "", "address to listen on (default: the configuration's, else 127.0.0.1:8080)")
	flags.StringVar(&o.path, "config", "", "configuration file; without one, an embedded simulated fleet")
	flags.BoolVar(&o.check, "check", false, "check the configuration and exit")
	flags.BoolVar(&o.without, "without-replicas", false, "start even if a pool has no replica that answers")
	flags.BoolVar(&o.verbose, "v", false, "log at debug level")
	if err := parseFlags(flags, args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q; the only command is keygen", flags.Arg(0))
	}
	if o.check && o.path == "" {
		return o, errors.New("-check needs -config")
	}
	return o, nil
}
