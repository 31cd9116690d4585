package main

import (
	"flag"
	"fmt"
	"io"

	"github.com/expediterhq/expediter/tenant"
)

// keygen prints a new key and the digest that goes into the configuration.
func keygen(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("gateway keygen", flag.ContinueOnError)
	pepperEnv := flags.String("pepper-env", "", "environment variable with the pepper, as pepper_env in the configuration")
	if err := parseFlags(flags, args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	key, digest, err := tenant.NewKey()
	if err != nil {
		return err
	}
	if *pepperEnv != "" {
		pepper, err := readPepper(*pepperEnv)
		if err != nil {
			return err
		}
		digest = tenant.Digest(key, pepper)
	}
	_, err = fmt.Fprintf(out, "key:    %s\ndigest: %s\n\nGive the key to its owner; it is not stored anywhere.\nPut the digest into the configuration, under the tenant's keys.\n", key, digest)
	return err
}
