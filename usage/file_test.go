package usage_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/expediterhq/expediter"
	"github.com/expediterhq/expediter/usage"
)

func newFile(t testing.TB, cfg usage.FileConfig) *usage.File {
	t.Helper()
	f, err := usage.NewFile(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// give writes the records with ids from..to-1.
func give(s expediter.Sink, from, to int) {
	for i := from; i < to; i++ {
		r := full()
		r.ID = fmt.Sprint(i)
		s.Write(&r)
	}
}

// wantIDs checks that data holds the records with ids 0..n-1 in order and no
// torn line.
func wantIDs(t *testing.T, data []byte, n int) {
	t.Helper()
	got, s := ids(t, data)
	want := make([]string, n)
	for i := range want {
		want[i] = fmt.Sprint(i)
	}
	if !slices.Equal(got, want) || s.Torn != 0 {
		t.Errorf("%d records, %d torn: %.100q, want 0 to %d in order", len(got), s.Torn, got, n-1)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "usage.jsonl")
	f := newFile(t, usage.FileConfig{Path: path})
	give(f, 0, 3000)
	if err := f.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantIDs(t, read(t, path), 3000)
	if got, want := countsOf(f), (counts{3000, 0, 0}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	f = newFile(t, usage.FileConfig{Path: path})
	give(f, 3000, 3001)
	if err := f.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantIDs(t, read(t, path), 3001)
}

func TestFileFromManyGoroutines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "usage.jsonl")
	f := newFile(t, usage.FileConfig{Path: path, SyncEvery: -1})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() { give(f, g*500, (g+1)*500) })
	}
	wg.Wait()
	if err := f.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, s := ids(t, read(t, path))
	slices.Sort(got)
	if got = slices.Compact(got); len(got) != 4000 || s.Torn != 0 {
		t.Errorf("%d different records, %d torn, want 4000 and 0", len(got), s.Torn)
	}
}

func TestNewFileRefuses(t *testing.T) {
	for _, path := range []string{"", filepath.Join(t.TempDir(), "no", "such"), t.TempDir()} {
		if _, err := usage.NewFile(usage.FileConfig{Path: path}); err == nil || !strings.HasPrefix(err.Error(), "usage: ") {
			t.Errorf("NewFile(%q) = %v, want an error of package usage", path, err)
		}
	}
}

// A line torn by an earlier process stays apart from what comes after it.
func TestFileEndsATornLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "usage.jsonl")
	whole := lines(2)
	if err := os.WriteFile(path, whole[:len(whole)-50], 0o600); err != nil {
		t.Fatal(err)
	}
	f := newFile(t, usage.FileConfig{Path: path})
	give(f, 7, 9)
	if err := f.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, s := ids(t, read(t, path))
	if want := []string{"0", "7", "8"}; !slices.Equal(got, want) || s.Torn != 1 {
		t.Errorf("%q and %d torn, want %q and 1", got, s.Torn, want)
	}
}

func TestFileIsSetAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "usage.jsonl")
		if err := os.WriteFile(path+".00000007", nil, 0o600); err != nil {
			t.Fatal(err)
		}
		os.WriteFile(path+".old", []byte("another's"), 0o600)
		f := newFile(t, usage.FileConfig{Path: path, MaxBytes: 1000, Keep: 3})
		for i := range 10 {
			give(f, 2*i, 2*i+2) // two of some 600 bytes each reach the limit
			synctest.Wait()
		}
		if err := f.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		names, _ := filepath.Glob(path + "*")
		for i := range names {
			names[i] = filepath.Base(names[i])
		}
		want := []string{"usage.jsonl", "usage.jsonl.00000014", "usage.jsonl.00000015", "usage.jsonl.00000016", "usage.jsonl.old"}
		if !slices.Equal(names, want) {
			t.Fatalf("files %q, want %q", names, want)
		}
		for i, name := range []string{".00000014", ".00000015", ".00000016", ""} {
			got, _ := ids(t, read(t, path+name))
			if want := []string{fmt.Sprint(12 + 2*i), fmt.Sprint(13 + 2*i)}; !slices.Equal(got, want) {
				t.Errorf("usage.jsonl%s holds %q, want %q", name, got, want)
			}
		}
	})
}

func TestFileMovedByOthers(t *testing.T) {
	for _, how := range []string{"renamed", "removed"} {
		synctest.Test(t, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "usage.jsonl")
			f := newFile(t, usage.FileConfig{Path: path})
			give(f, 0, 2)
			synctest.Wait()
			if how == "renamed" {
				os.Rename(path, path+".1")
			} else {
				os.Remove(path)
			}
			time.Sleep(time.Second)
			give(f, 2, 4)
			if err := f.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got, _ := ids(t, read(t, path)); !slices.Equal(got, []string{"2", "3"}) {
				t.Errorf("%s: the new file holds %q, want 2 and 3", how, got)
			}
			if how == "renamed" {
				if got, _ := ids(t, read(t, path+".1")); !slices.Equal(got, []string{"0", "1"}) {
					t.Errorf("the renamed file holds %q, want 0 and 1", got)
				}
			}
		})
	}
}

func TestFileSyncs(t *testing.T) {
	tests := []struct {
		every, after time.Duration
		dirty        bool
	}{
		{0, 0, true},
		{0, 2 * time.Second, false},
		{1, 0, false},
		{5 * time.Second, 2 * time.Second, true},
		{5 * time.Second, 6 * time.Second, false},
		{-1, time.Hour, true},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			f := newFile(t, usage.FileConfig{Path: filepath.Join(t.TempDir(), "usage.jsonl"), SyncEvery: tt.every})
			time.Sleep(time.Nanosecond) // the clock of the bubble stands still otherwise
			give(f, 0, 1)
			time.Sleep(tt.after)
			synctest.Wait()
			if got := f.Dirty(); got != tt.dirty {
				t.Errorf("SyncEvery %v: dirty %v after the write: %v, want %v", tt.every, tt.after, got, tt.dirty)
			}
			if err := f.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func BenchmarkFile(b *testing.B) {
	f := newFile(b, usage.FileConfig{Path: filepath.Join(b.TempDir(), "usage.jsonl"), MaxBytes: -1})
	r := full()
	for b.Loop() {
		f.Write(&r)
	}
	b.StopTimer()
	if err := f.Close(b.Context()); err != nil {
		b.Error(err)
	}
	b.ReportMetric(100*float64(f.Dropped())/float64(f.Dropped()+f.Written()), "%dropped")
}
