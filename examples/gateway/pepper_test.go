package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/expediterhq/expediter/tenant"
)

// TestPepper: a pepper that can be guessed is refused where it is used and
// where digests are made with it.
func TestPepper(t *testing.T) {
	const short = "the environment variable TEST_PEPPER holds 15 bytes, expected at least 16 random ones: " +
		"a shorter pepper is found by trying, with one key and its digest"
	file := strings.Replace(sound, "pools:", "pepper_env: TEST_PEPPER\npools:", 1)
	for _, tc := range []struct{ pepper, want string }{
		{"", "the environment variable TEST_PEPPER is not set"},
		{"salt and pepper", short},
		{"salt and peppers", ""},
	} {
		t.Setenv("TEST_PEPPER", tc.pepper)
		got := ""
		if lines := report(t, file); lines != nil {
			got = strings.Join(lines, "\n")
		}
		if want := "2: pepper_env: " + tc.want; got != want && (got != "" || tc.want != "") {
			t.Errorf("pepper %q: report = %q, want %q", tc.pepper, got, want)
		}
		var out bytes.Buffer
		got = ""
		if err := keygen([]string{"-pepper-env", "TEST_PEPPER"}, &out); err != nil {
			got = err.Error()
		}
		if got != tc.want || (out.Len() == 0) != (tc.want != "") {
			t.Errorf("pepper %q: keygen = %q, want %q", tc.pepper, got, tc.want)
		}
		if fields := strings.Fields(out.String()); tc.want == "" && tenant.Digest(fields[1], []byte(tc.pepper)) != fields[3] {
			t.Errorf("pepper %q: keygen printed %s", tc.pepper, out.String())
		}
	}
}
