package expediter_test

import (
	"go/build"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/expediterhq/expediter"

// own lists, for each room, the other rooms of this module it may import.
// Rooms below internal/ may be imported by all; those below another room
// count as that room unless they are listed themselves.
var own = map[string][]string{
	"":                    {"admission", "prefix", "quota", "registry", "router", "sse", "tenant", "tokenize", "tokenize/chat", "vllm"},
	"registry":            {},
	"router":              {"registry", "prefix"},
	"prefix":              {},
	"admission":           {},
	"quota":               {},
	"quota/redisquota":    {"quota", "quota/quotatest"},
	"quota/quotatest":     {"quota"},
	"tenant":              {"quota"},
	"tokenize":            {"tokenize/chat"},
	"tokenize/chat":       {},
	"sse":                 {},
	"vllm":                {"registry", "tokenize", "tokenize/chat"},
	"metrics":             {"", "admission", "registry", "quota"},
	"usage":               {"", "quota"},
	"sim":                 {"registry", "router", "prefix", "admission", "quota", "tokenize", "tokenize/chat", "vllm"},
	"internal":            {"quota", "registry", "router", "prefix", "admission", "sse", "tenant", "tokenize", "tokenize/chat", "vllm", "sim"},
	"internal/faultbench": nil, // a test bench drives the whole
	"examples":            nil, // examples show all of it
}

// foreign lists, for each module from elsewhere, the rooms that may reach it
// directly.
var foreign = map[string][]string{
	"github.com/redis/go-redis/":           {"quota/redisquota", "usage", "internal/redistest", "examples"},
	"github.com/prometheus/client_golang/": {"metrics"},
	"github.com/cespare/xxhash/v2":         {"prefix"},
	"github.com/goccy/go-yaml":             {"examples/gateway"},
	"github.com/prometheus/client_model/":  {"metrics"},
	"github.com/prometheus/common/expfmt":  {"metrics"},
	"google.golang.org/protobuf/":          {},
}

// TestImports holds the walls between the rooms.
func TestImports(t *testing.T) {
	for dir, imports := range packages(t) {
		room := roomOf(dir)
		for _, path := range imports {
			if in, ok := inModule(path); ok {
				checkOwn(t, dir, room, in)
			} else if strings.Contains(strings.SplitN(path, "/", 2)[0], ".") {
				checkForeign(t, dir, path)
			}
		}
	}
}

func checkOwn(t *testing.T, dir, room, in string) {
	t.Helper()
	target := roomOf(in)
	allowed, known := own[room]
	switch {
	case !known:
		t.Errorf("%s: its room %q is not in the table of rooms", dir, room)
	case target == room, in == room:
	case strings.HasPrefix(in, "internal/") || strings.Contains(in, "/internal/"):
	case allowed == nil:
	case !slices.Contains(allowed, target):
		t.Errorf("%s imports %s; room %q may import only %q", dir, in, room, allowed)
	}
}

func checkForeign(t *testing.T, dir, path string) {
	t.Helper()
	for prefix, rooms := range foreign {
		if !strings.HasPrefix(path, prefix) {
			continue
		}
		for _, r := range rooms {
			if dir == r || r != "" && strings.HasPrefix(dir, r+"/") {
				return
			}
		}
	}
	t.Errorf("%s imports %s, which is not reachable from there", dir, path)
}

func inModule(path string) (dir string, ok bool) {
	if path == module {
		return "", true
	}
	return strings.CutPrefix(path, module+"/")
}

// roomOf returns the longest listed room that dir is in.
func roomOf(dir string) string {
	for d := dir; d != "." && d != ""; d = filepath.Dir(d) {
		if _, ok := own[d]; ok {
			return d
		}
	}
	if dir == "" || dir == "." {
		return ""
	}
	return strings.SplitN(dir, "/", 2)[0]
}

// packages returns the imports of every package of the module, its tests
// left out, by directory.
func packages(t *testing.T) map[string][]string {
	t.Helper()
	found := make(map[string][]string)
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if name := d.Name(); path != "." && (name == "testdata" || name[0] == '.' || nested(path)) {
			return filepath.SkipDir
		}
		p, err := build.ImportDir(path, 0)
		if err != nil {
			if _, none := err.(*build.NoGoError); none {
				return nil
			}
			return err
		}
		dir := filepath.ToSlash(path)
		if dir == "." {
			dir = ""
		}
		found[dir] = p.Imports
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) < 10 {
		t.Fatalf("found %d packages; the walk is broken", len(found))
	}
	return found
}

// nested reports whether dir is a module of its own.
func nested(dir string) bool {
	m, _ := filepath.Glob(filepath.Join(dir, "go.mod"))
	return len(m) > 0
}
