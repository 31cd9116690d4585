package examples_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var goBlock = regexp.MustCompile("(?s)```go\n(.*?)```")

// readme returns the README's Go files.
func readme(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, m := range goBlock.FindAllStringSubmatch(string(text), -1) {
		files = append(files, m[1])
	}
	return files
}

// TestReadme compiles the README's program and runs its test.
func TestReadme(t *testing.T) {
	var programs, tests int
	for _, file := range readme(t) {
		name, command := "main.go", "vet"
		if strings.Contains(file, "func Test") {
			name, command = "readme_test.go", "test"
		}
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("go", command, path).CombinedOutput()
		switch {
		case err != nil:
			t.Errorf("go %s of\n%s\n%v\n%s", command, file, err, out)
		case command == "test":
			tests++
		default:
			programs++
		}
		if out, err := exec.Command("gofmt", "-l", path).CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("not formatted, %v:\n%s", err, file)
		}
	}
	if programs != 1 || tests != 1 {
		t.Errorf("the README has %d good programs and %d good tests, want one of each", programs, tests)
	}
}

var link = regexp.MustCompile(`\]\(([^)#]+)\)`)

// TestReadmeLinks: what the README points to in the repository is there, and
// every example and every page of docs is pointed to.
func TestReadmeLinks(t *testing.T) {
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	linked := make(map[string]bool)
	for _, m := range link.FindAllStringSubmatch(goBlock.ReplaceAllString(string(text), ""), -1) {
		if strings.Contains(m[1], "://") {
			continue
		}
		linked[m[1]] = true
		if _, err := os.Stat(filepath.Join("..", m[1])); err != nil {
			t.Errorf("the README points to %s: %v", m[1], err)
		}
	}
	examples, err := filepath.Glob("*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range examples {
		if dir := "examples/" + filepath.Dir(file); !linked[dir] {
			t.Errorf("the README does not point to %s", dir)
			linked[dir] = true
		}
	}
	for _, file := range pages {
		if page := strings.TrimPrefix(file, "../"); !linked[page] {
			t.Errorf("the README does not point to %s", page)
		}
	}
}
