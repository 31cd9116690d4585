package tenant

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"
)

// maxInterval keeps the promise that a revoked key stops working within 5 s.
const maxInterval = 4 * time.Second

// WatchConfig says which file to follow.
type WatchConfig struct {
	// Path is the file, in the form that ParseFile reads. It may be replaced by rename,
	// by a changed symbolic link or in place.
	Path string

	// Interval is how often it is read. If zero, 1 s; at most 4 s, so that a
	// key taken out of the file stops working within 5 s.
	Interval time.Duration

	// Report is told of each new content: nil if it was taken over, else
	// why the keys of before stay in force. It is also told when the file
	// cannot be read, once until that changes. If nil, nobody is told.
	Report func(error)
}

// Watch follows a file until ctx ends and returns the cause of that, or an
// error at once if cfg is wrong. It compares contents, not modification
// times, so no change is missed. A file that is missing, half written or
// wrong changes nothing: the keys of before stay in force, until a valid file
// is there.
func (k *Keys) Watch(ctx context.Context, cfg WatchConfig) error {
	if cfg.Interval == 0 {
		cfg.Interval = time.Second
	}
	if cfg.Interval < 0 || cfg.Interval > maxInterval {
		return fmt.Errorf("tenant: watch: Interval is %v, want up to %v", cfg.Interval, maxInterval)
	}
	if cfg.Report == nil {
		cfg.Report = func(error) {}
	}
	tick := time.NewTicker(cfg.Interval)
	defer tick.Stop()
	var seen [sha256.Size]byte
	unreadable := false
	for {
		data, err := readFile(cfg.Path)
		switch sum := sha256.Sum256(data); {
		case err != nil:
			if !unreadable {
				cfg.Report(err)
			}
		case sum != seen || unreadable:
			seen = sum
			cfg.Report(k.replaceFrom(data))
		}
		unreadable = err != nil
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

func (k *Keys) replaceFrom(data []byte) error {
	keys, err := ParseFile(data)
	if err != nil {
		return err
	}
	return k.Replace(keys)
}
