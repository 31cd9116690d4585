package usage_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/expediterhq/expediter/usage"
)

// A full disk: records wait, the newest are dropped and counted once the
// buffer is full, and all that waited are written when there is room again.
func TestFileOnAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		path, real := filepath.Join(dir, "usage.jsonl"), filepath.Join(dir, "real")
		if err := os.Symlink("/dev/full", path); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var reports []string
		f := newFile(t, usage.FileConfig{Path: path, Buffer: 1000, Report: func(err error) {
			mu.Lock()
			defer mu.Unlock()
			reports = append(reports, err.Error())
		}})
		start := time.Now()
		give(f, 0, 1500)
		if d := time.Since(start); d != 0 {
			t.Errorf("1500 writes took %v on a full disk, want 0", d)
		}
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if got, want := countsOf(f), (counts{0, 500, 1000}); got != want {
			t.Errorf("while full: %+v, want %+v", got, want)
		}
		mu.Lock()
		if len(reports) != 1 || !strings.Contains(reports[0], "no space left") {
			t.Errorf("reports %q, want one: no space left", reports)
		}
		mu.Unlock()
		os.Symlink(real, path+".new")
		os.Rename(path+".new", path)
		time.Sleep(1001 * time.Millisecond)
		synctest.Wait()
		if got, want := countsOf(f), (counts{1000, 500, 0}); got != want {
			t.Errorf("a second after there is room: %+v, want %+v", got, want)
		}
		if err := f.Close(t.Context()); err != nil {
			t.Errorf("Close = %v", err)
		}
		wantIDs(t, read(t, real), 1000)
	})
}

func TestFileCloseOnAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "usage.jsonl")
		os.Symlink("/dev/full", path)
		f := newFile(t, usage.FileConfig{Path: path})
		give(f, 0, 10)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := f.Close(ctx); err == nil || !strings.Contains(err.Error(), "10 records lost") {
			t.Errorf("Close = %v, want 10 lost", err)
		}
		if got, want := countsOf(f), (counts{0, 10, 0}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	})
}

// The disk fills in the middle of a line, over and over: the file goes on
// where it stopped, with no line torn, lost or doubled.
//
// The limit on file sizes stands for the disk. It holds for a whole process,
// so the test runs in one of its own.
func TestFileGoesOnInTheMiddleOfALine(t *testing.T) {
	if os.Getenv("USAGE_TEST_LIMIT") == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestFileGoesOnInTheMiddleOfALine$", "-test.v")
		cmd.Env = append(os.Environ(), "USAGE_TEST_LIMIT=1")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS") {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	signal.Ignore(syscall.SIGXFSZ)
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	limit := func(n uint64) {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: n, Max: old.Max}); err != nil {
			t.Fatal(err)
		}
	}
	defer limit(old.Cur)
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "usage.jsonl")
		f := newFile(t, usage.FileConfig{Path: path, SyncEvery: -1})
		const n = 200
		limit(1)
		give(f, 0, n)
		for size := uint64(1); f.Waiting() > 0; size += 777 {
			limit(size)
			time.Sleep(1001 * time.Millisecond)
			synctest.Wait()
			if info, err := os.Stat(path); err != nil || f.Waiting() > 0 && uint64(info.Size()) != size {
				t.Fatalf("file of %d bytes, %v, want it filled to %d", info.Size(), err, size)
			}
			_, s := ids(t, read(t, path))
			if uint64(s.Records) < f.Written() || s.Records > int(f.Written())+1 {
				t.Fatalf("at %d bytes: Written = %d, the file holds %d", size, f.Written(), s.Records)
			}
		}
		limit(old.Cur)
		if err := f.Close(t.Context()); err != nil {
			t.Error(err)
		}
		wantIDs(t, read(t, path), n)
	})
	setAsideUnderALimit(t, limit, old.Cur)
}

// setAsideUnderALimit lets the disk fill beyond the size from which on the
// file is to be set aside, in the middle of a line: the line is ended first.
func setAsideUnderALimit(t *testing.T, limit func(uint64), unlimited uint64) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "usage.jsonl")
		f := newFile(t, usage.FileConfig{Path: path, SyncEvery: -1, MaxBytes: 5000})
		limit(5100)
		give(f, 0, 10)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if info, err := os.Stat(path); err != nil || info.Size() != 5100 {
			t.Fatalf("file of %v bytes, %v, want it filled to 5100", info, err)
		}
		limit(unlimited)
		time.Sleep(1001 * time.Millisecond)
		give(f, 10, 12)
		if err := f.Close(t.Context()); err != nil {
			t.Error(err)
		}
		wantIDs(t, read(t, path+".00000001"), 10)
		if got, s := ids(t, read(t, path)); len(got) != 2 || s.Torn != 0 {
			t.Errorf("the new file holds %q, %d torn, want 10 and 11", got, s.Torn)
		}
	})
}

// TestMain runs the writer of TestFileSurvivesKill when asked to.
func TestMain(m *testing.M) {
	if path := os.Getenv("USAGE_TEST_WRITE"); path != "" {
		writeUntilKilled(path)
		return
	}
	os.Exit(m.Run())
}

// writeUntilKilled writes records and tells how many are said to be written.
func writeUntilKilled(path string) {
	f, err := usage.NewFile(usage.FileConfig{Path: path, Buffer: 100, MaxBytes: -1})
	if err != nil {
		fmt.Println(err)
		return
	}
	for i := 0; ; i++ {
		for f.Waiting() > 50 {
		}
		r := full()
		r.ID = fmt.Sprint(i)
		f.Write(&r)
		if i%10 == 0 {
			fmt.Println(i+1, f.Written())
		}
	}
}

// After kill -9 at any moment the file holds every record that was said to be
// written, in order and without a gap, at most one line is torn, and fewer
// records are missing than the buffer holds.
func TestFileSurvivesKill(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for round := range 5 {
		path := filepath.Join(t.TempDir(), "usage.jsonl")
		cmd := exec.Command(exe)
		cmd.Env = append(os.Environ(), "USAGE_TEST_WRITE="+path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		given, written := 0, 0
		sc := bufio.NewScanner(out)
		for sc.Scan() {
			a, b, ok := strings.Cut(sc.Text(), " ")
			if !ok {
				break
			}
			given, _ = strconv.Atoi(a)
			if written, err = strconv.Atoi(b); err != nil {
				t.Fatalf("the writer says %q", sc.Text())
			}
			if given > 1000+round*333 {
				cmd.Process.Kill()
			}
		}
		cmd.Wait()
		got, s := ids(t, read(t, path))
		for i, id := range got {
			if id != fmt.Sprint(i) {
				t.Fatalf("round %d: record %d has id %s", round, i, id)
			}
		}
		if s.Records < written || s.Torn > 1 || s.Records < given-100 || given == 0 {
			t.Errorf("round %d: %d of %d given are there, %d torn; want at least the %d said to be written, and at most 100 missing",
				round, s.Records, given, s.Torn, written)
		}
	}
}
