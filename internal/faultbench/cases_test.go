package faultbench_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestEveryCaseHasATest: for each case of the kinds that are this project's
// to hold in full, some test or part of one is named by its id.
func TestEveryCaseHasATest(t *testing.T) {
	root := filepath.Join("..", "..")
	shared := os.Getenv("EXPEDITER_SHARED")
	if shared == "" {
		shared = filepath.Join(root, "..", "shared")
	}
	text, err := os.ReadFile(filepath.Join(shared, "cases", "failures.md"))
	if err != nil {
		if os.Getenv("CI") == "true" || os.Getenv("EXPEDITER_REQUIRE_SHARED") == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	ids := regexp.MustCompile(`(?m)^### ([A-IM-Q][0-9]+) `).FindAllStringSubmatch(string(text), -1)
	if len(ids) < 80 {
		t.Fatalf("%d cases", len(ids))
	}
	named := testNames(t, root)
	for _, id := range ids {
		if !named[id[1]] {
			t.Errorf("no test is named by %s", id[1])
		}
	}
}

// testNames returns the case ids that tests, and parts of tests, begin with.
func testNames(t *testing.T, root string) map[string]bool {
	t.Helper()
	function := regexp.MustCompile(`(?m)^func Test((?:[A-Q][0-9]+)+)`)
	part := regexp.MustCompile(`"([A-Q][0-9]+)(?: [^"]*)?"`)
	id := regexp.MustCompile(`[A-Q][0-9]+`)
	named := make(map[string]bool)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range append(function.FindAllSubmatch(text, -1), part.FindAllSubmatch(text, -1)...) {
			for _, name := range id.FindAllString(string(m[1]), -1) {
				named[name] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return named
}
