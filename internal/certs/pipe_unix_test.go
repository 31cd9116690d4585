//go:build unix

package certs_test

import (
	"errors"
	"os"
	"syscall"
	"testing"

	"github.com/expediterhq/expediter/internal/certs"
	"github.com/expediterhq/expediter/internal/certs/certtest"
)

// TestLoadDoesNotWaitForPipes: a pipe that nobody writes to, and a device that
// never ends, are reported, and what the file held before stays in use.
func TestLoadDoesNotWaitForPipes(t *testing.T) {
	dir, a := t.TempDir(), certtest.New(t, "a")
	var reports []error
	s := &certs.Source{CA: certtest.Write(t, dir, "ca.pem", a.PEM), Report: func(err error) { reports = append(reports, err) }}
	s.Cert, s.Key = a.Issue("one").Write(t, dir, "x")
	if got := name(t, s); got != "one" {
		t.Fatalf("certificate of %s, want one", got)
	}
	for _, tc := range []struct {
		what, field, file string
		put               func(string) error
	}{
		{"a pipe as certificate", "Cert", s.Cert, func(file string) error { return syscall.Mkfifo(file, 0o600) }},
		{"a device as authority", "CA", s.CA, func(file string) error { return os.Symlink("/dev/zero", file) }},
	} {
		reports = nil
		if err := errors.Join(os.Remove(tc.file), tc.put(tc.file)); err != nil {
			t.Fatal(err)
		}
		if got := name(t, s); got != "one" {
			t.Errorf("%s: certificate of %s, want one", tc.what, got)
		}
		var at *certs.FileError
		if len(reports) != 1 || !errors.As(reports[0], &at) || at.Field != tc.field {
			t.Errorf("%s: reported %v, want one for %s", tc.what, reports, tc.field)
			continue
		}
		if want := `"` + tc.file + `" is not a regular file`; at.Error() != want {
			t.Errorf("%s: reported %q, want %q", tc.what, at, want)
		}
	}
}
