package usage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/expediterhq/expediter"
)

// fileBatch is how many records one write holds, at most.
const fileBatch = 512

// FileConfig says where records go.
type FileConfig struct {
	// Path is the file, which is made if it is not there. It must be set.
	Path string

	// MaxBytes is the size from which on the file is set aside and a new one
	// begun; it may be exceeded by one write. If zero, 256 MiB. Negative:
	// never.
	MaxBytes int64

	// Keep is how many files set aside are kept. If zero, all: they are
	// bills.
	Keep int

	// SyncEvery is the longest time between two fsyncs while there is
	// something to sync. If zero, 1 s; 1 ns syncs after every write.
	// Negative: never, the operating system decides.
	SyncEvery time.Duration

	// Buffer is how many records wait in memory, at most. If zero, 65,536.
	Buffer int

	// Report is told when writing begins to fail, and when the file cannot
	// be synced or set aside. If nil, nobody is.
	Report func(error)
}

// File is a sink that appends records to a file as JSON lines.
//
// Records are written as they come, without delay; while one write is under
// way the next ones gather into a batch of at most 512. So a kill of the
// process loses those not yet written, which is at most Buffer and on a disk
// that keeps up less than two batches; it may leave one line torn. A crash of
// the machine loses in addition what was written since the last fsync:
// SyncEvery and one write at most.
//
// When the disk is full, or writing fails in another way, records wait in
// memory and writing is tried again within a second. It goes on in the middle
// of the line where it stopped, so no line is torn and none comes twice. When
// Buffer records wait, further ones are dropped and counted.
//
// One process writes one file. If the file is renamed or removed by others, a
// new one is begun within a second; files set aside are Path.00000001 and so
// on, the highest number last.
type File struct {
	cfg    FileConfig
	buffer *buffer

	// The rest belongs to the buffer's goroutine.
	file    *os.File // nil while there is none open
	regular bool
	size    int64
	partial int // bytes of the first record of the next batch that are written already
	torn    bool
	buf     []byte
	ends    []int // where each record of buf ends
	dirty   bool  // written since the last sync
	synced  time.Time
	checked time.Time // when the path was last compared with the open file
	rotate  time.Time // no attempt to set the file aside before
}

// NewFile opens or creates the file. If a process was killed while writing
// to it, the torn line it left is ended first, so that Scan can tell.
func NewFile(cfg FileConfig) (*File, error) {
	if cfg.Path == "" {
		return nil, errors.New("usage: FileConfig.Path: must be set")
	}
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = 256 << 20
	}
	if cfg.SyncEvery == 0 {
		cfg.SyncEvery = time.Second
	}
	if cfg.Report == nil {
		cfg.Report = func(error) {}
	}
	f := &File{cfg: cfg, synced: time.Now()}
	if err := f.open(); err != nil {
		return nil, err
	}
	every := time.Second
	if cfg.SyncEvery > 0 {
		every = min(every, max(cfg.SyncEvery, 10*time.Millisecond))
	}
	f.buffer = newBuffer(f, bufferConfig{
		limit: orDefault(cfg.Buffer), batch: fileBatch, every: every, report: cfg.Report})
	return f, nil
}

// Write takes r, or counts it as dropped. It never blocks.
func (f *File) Write(r *expediter.Record) { f.buffer.push(r) }

// Written is how many records are in the file.
func (f *File) Written() uint64 { return f.buffer.written.Load() }

// Dropped is how many records were lost.
func (f *File) Dropped() uint64 { return f.buffer.dropped.Load() }

// Waiting is how many records are held in memory.
func (f *File) Waiting() int { return f.buffer.waiting() }

// Close stops taking records, writes and syncs those that wait, and closes
// the file. It returns an error if some were lost because ctx ended first.
func (f *File) Close(ctx context.Context) error { return f.buffer.close(ctx) }

// carry writes batch in one call, after whatever the file needs before.
func (f *File) carry(_ context.Context, batch []*expediter.Record) (done, lost int, err error) {
	now := time.Now()
	if err := f.prepare(now); err != nil {
		return 0, 0, err
	}
	f.encode(batch)
	n, err := f.file.Write(f.buf[f.partial:])
	f.size += int64(n)
	f.dirty = f.dirty || n > 0
	n += f.partial
	for done < len(f.ends) && f.ends[done] <= n {
		done++
	}
	f.partial = n
	if done > 0 {
		f.partial -= f.ends[done-1]
	}
	if err != nil {
		return done, 0, fmt.Errorf("usage: %w", err)
	}
	return done, 0, f.syncIfDue(now)
}

// encode fills buf and ends from batch. The form of a record depends on
// nothing else, so that a record half written comes out the same again.
func (f *File) encode(batch []*expediter.Record) {
	f.buf, f.ends = f.buf[:0], f.ends[:0]
	for _, r := range batch {
		f.buf = append(AppendJSON(f.buf, r), '\n')
		f.ends = append(f.ends, len(f.buf))
	}
}

// prepare sees to it that a file is open, is the one at the path, and has
// room.
func (f *File) prepare(now time.Time) error {
	if f.file != nil && now.Sub(f.checked) >= time.Second {
		f.checked = now
		if f.moved() {
			f.closeFile()
		}
	}
	if f.file != nil && f.regular && f.cfg.MaxBytes > 0 && f.size >= f.cfg.MaxBytes &&
		f.partial == 0 && !now.Before(f.rotate) {
		if err := f.setAside(); err != nil {
			f.rotate = now.Add(10 * time.Second)
			f.cfg.Report(err)
		}
	}
	if f.file == nil {
		if err := f.open(); err != nil {
			return err
		}
	}
	if f.torn {
		if _, err := f.file.Write([]byte{'\n'}); err != nil {
			return fmt.Errorf("usage: %w", err)
		}
		f.size++
		f.torn = false
	}
	return nil
}

// open opens the file at the path for appending.
func (f *File) open() error {
	file, err := os.OpenFile(f.cfg.Path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o640)
	if err != nil {
		return fmt.Errorf("usage: %w", err)
	}
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return fmt.Errorf("usage: %w", err)
	}
	f.file, f.regular, f.size, f.partial, f.torn = file, info.Mode().IsRegular(), info.Size(), 0, false
	if f.regular && f.size > 0 {
		var last [1]byte
		if _, err := file.ReadAt(last[:], f.size-1); err != nil && err != io.EOF {
			f.file = nil
			file.Close()
			return fmt.Errorf("usage: %w", err)
		}
		f.torn = last[0] != '\n'
	}
	if f.regular && f.size == 0 && f.cfg.SyncEvery > 0 {
		syncDir(filepath.Dir(f.cfg.Path))
	}
	f.checked = time.Now()
	return nil
}

// moved reports whether the open file is no longer the one at the path.
func (f *File) moved() bool {
	at, err := os.Stat(f.cfg.Path)
	if err != nil {
		return errors.Is(err, os.ErrNotExist)
	}
	open, err := f.file.Stat()
	return err != nil || !os.SameFile(at, open)
}

// closeFile syncs and closes the open file.
func (f *File) closeFile() {
	if f.file == nil {
		return
	}
	if err := errors.Join(f.sync(), f.file.Close()); err != nil {
		f.cfg.Report(err)
	}
	f.file = nil
}

func (f *File) syncIfDue(now time.Time) error {
	if !f.dirty || f.cfg.SyncEvery < 0 || now.Sub(f.synced) < f.cfg.SyncEvery {
		return nil
	}
	return f.sync()
}

func (f *File) sync() error {
	if !f.dirty || !f.regular || f.cfg.SyncEvery < 0 {
		return nil
	}
	f.synced = time.Now()
	f.dirty = false
	if err := f.file.Sync(); err != nil {
		return fmt.Errorf("usage: %w", err)
	}
	return nil
}

// syncDir makes a new name in dir survive a crash of the machine, on systems
// that can do it: POSIX does not promise that of syncing the file alone.
func syncDir(dir string) {
	if d, err := os.Open(dir); err == nil {
		_ = d.Sync() // an error says that this system cannot
		d.Close()
	}
}

func (f *File) idle(context.Context) {
	if f.file == nil {
		return
	}
	if err := f.syncIfDue(time.Now()); err != nil {
		f.cfg.Report(err)
	}
}

func (f *File) end(context.Context) { f.closeFile() }
