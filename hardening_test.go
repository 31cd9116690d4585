package expediter_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	namedTest = regexp.MustCompile("`(?:([a-z0-9/]+)\\.)?(Test[A-Za-z0-9_]+)`")
	decision  = regexp.MustCompile(`\(decisions/([0-9a-z-]+\.md)\)`)
)

// TestHardeningIsHeld: each line of docs/hardening.md names tests that exist,
// or decisions that do.
func TestHardeningIsHeld(t *testing.T) {
	text, err := os.ReadFile("docs/hardening.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	tests := make(map[string]map[string]bool)
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) < 5 || strings.HasPrefix(line, "|---") || strings.TrimSpace(cells[1]) == "line" {
			continue
		}
		lines++
		where := cells[len(cells)-2]
		named := namedTest.FindAllStringSubmatch(where, -1)
		decisions := decision.FindAllStringSubmatch(where, -1)
		if len(named)+len(decisions) == 0 {
			t.Errorf("no test and no decision: %s", line)
		}
		for _, n := range named {
			dir := filepath.FromSlash("./" + n[1])
			if tests[dir] == nil {
				tests[dir] = testsIn(t, dir)
			}
			if !tests[dir][n[2]] {
				t.Errorf("%s has no %s, which is to hold: %s", dir, n[2], cells[1])
			}
		}
		for _, d := range decisions {
			if _, err := os.Stat(filepath.Join("docs", "decisions", d[1])); err != nil {
				t.Error(err)
			}
		}
	}
	if lines < 35 {
		t.Errorf("%d lines: the table is not read", lines)
	}
}

// testsIn returns the names of the tests in a folder.
func testsIn(t *testing.T, dir string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Errorf("%s has no tests: %v", dir, err)
	}
	names := make(map[string]bool)
	for _, f := range files {
		for _, d := range parse(t, f).Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil {
				names[fn.Name.Name] = true
			}
		}
	}
	return names
}

func parse(t *testing.T, file string) *ast.File {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// banned lists what no package does to the process it is part of; programs
// may.
var banned = map[string]bool{
	"http.DefaultClient": true, "http.DefaultTransport": true, "http.DefaultServeMux": true, "http.Get": true, "http.Post": true, "http.Handle": true, "http.HandleFunc": true,
	"prometheus.DefaultRegisterer": true, "prometheus.DefaultGatherer": true, "prometheus.MustRegister": true,
	"fmt.Print": true, "fmt.Printf": true, "fmt.Println": true, "log.Print": true, "log.Printf": true, "log.Println": true, "log.Fatal": true, "log.Fatalf": true,
	"os.Exit": true, "rand.Seed": true,
}

// unsafeIn are the packages that may import unsafe.
var unsafeIn = map[string]bool{"tokenize": true, "internal/jinja": true, "internal/rawio": true}

// TestHygiene: packages of the library have no init functions, use no cgo,
// no default client, registry or mux, and print nothing; unsafe and pprof are
// nowhere but where they are allowed.
func TestHygiene(t *testing.T) {
	files := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "bench" || d.Name() == "clients" || strings.HasPrefix(d.Name(), ".") && path != "."):
			return fs.SkipDir // bench and clients are modules of their own
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		files++
		hygiene(t, filepath.ToSlash(path), parse(t, path))
		return nil
	})
	if err != nil || files < 100 {
		t.Errorf("%d files looked at: %v", files, err)
	}
}

func hygiene(t *testing.T, path string, f *ast.File) {
	t.Helper()
	for _, i := range f.Imports {
		name, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		dir := strings.TrimSuffix(path, "/"+filepath.Base(path))
		if name == "C" || name == "net/http/pprof" || name == "expvar" || name == "unsafe" && !unsafeIn[dir] {
			t.Errorf("%s imports %s", path, name)
		}
	}
	program := f.Name.Name == "main"
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Recv == nil && n.Name.Name == "init" {
				t.Errorf("%s has an init function", path)
			}
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && !program && banned[x.Name+"."+n.Sel.Name] {
				t.Errorf("%s uses %s.%s", path, x.Name, n.Sel.Name)
			}
		}
		return true
	})
}
