package main

import (
	"errors"
	"flag"
	"strings"
	"testing"
)

// TestHelp: -h lists each way to call the program on a line, then its flags.
func TestHelp(t *testing.T) {
	const want = `Usage of gateway:
  gateway [-addr A] [-v]             serve an embedded simulated fleet, for a first look
  gateway -config FILE [flags]       serve what the file describes
  gateway -config FILE -check        say what is wrong with the file, and exit
  gateway keygen [-pepper-env NAME]  print a new API key and its digest

Flags:
  -addr string
    	address to listen on (default: the configuration's, else 127.0.0.1:8080)
  -check
    	check the configuration and exit
  -config string
    	configuration file; without one, an embedded simulated fleet
  -v	log at debug level
  -without-replicas
    	start even if a pool has no replica that answers
`
	var help strings.Builder
	if _, err := parse([]string{"-h"}, &help); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("parse = %v, want %v", err, flag.ErrHelp)
	}
	if help.String() != want {
		t.Errorf("help =\n%s\nwant\n%s", help.String(), want)
	}
}

func TestOptions(t *testing.T) {
	for _, tc := range []struct {
		args string
		want options
		err  string
	}{
		{"", options{}, ""},
		{"-addr :80 -v", options{addr: ":80", verbose: true}, ""},
		{"-config f -check", options{path: "f", check: true}, ""},
		{"-config f -without-replicas", options{path: "f", without: true}, ""},
		{"-check", options{check: true}, "-check needs -config"},
		{"serve", options{}, `unexpected argument "serve"; the only command is keygen`},
	} {
		var help strings.Builder
		got, err := parse(strings.Fields(tc.args), &help)
		said := ""
		if err != nil {
			said = err.Error()
		}
		if got != tc.want || said != tc.err || help.Len() > 0 {
			t.Errorf("parse %q = %+v, %q, help %q; want %+v, %q and no help", tc.args, got, said, help.String(), tc.want, tc.err)
		}
	}
}

// TestExit: help is no failure, wrong flags are told by the flag package, and
// what is wrong with a file begins with the file.
func TestExit(t *testing.T) {
	for _, tc := range []struct {
		name   string
		err    error
		status int
		out    string
	}{
		{"end", nil, 0, ""},
		{"help", run([]string{"-h"}), 0, ""},
		{"help of keygen", run([]string{"keygen", "-h"}), 0, ""},
		{"flag", run([]string{"-nosuch"}), 2, ""},
		{"flag of keygen", run([]string{"keygen", "-nosuch"}), 2, ""},
		{"file", fileError("f:1: a: b\nf:2: c: d"), 1, "f:1: a: b\nf:2: c: d\n"},
		{"other", errors.New("no"), 1, "gateway: no\n"},
	} {
		var out strings.Builder
		if got := exit(tc.err, &out); got != tc.status || out.String() != tc.out {
			t.Errorf("%s: exit = %d and %q, want %d and %q", tc.name, got, out.String(), tc.status, tc.out)
		}
	}
}
