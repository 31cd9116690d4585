package usage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// setAside renames the file to the next free number, so that prepare begins
// another, and deletes the oldest ones beyond Keep. If it fails, the file
// stays open and in use.
func (f *File) setAside() error {
	old, err := asideNumbers(f.cfg.Path)
	if err != nil {
		return fmt.Errorf("usage: set aside: %w", err)
	}
	next := 1
	if len(old) > 0 {
		next = old[len(old)-1] + 1
	}
	to := asideName(f.cfg.Path, next)
	if _, err := os.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("usage: set aside: %s is there already", to)
	}
	if err := os.Rename(f.cfg.Path, to); err != nil {
		return fmt.Errorf("usage: set aside: %w", err)
	}
	f.closeFile()
	if f.cfg.Keep <= 0 {
		return nil
	}
	var errs []error
	old = append(old, next)
	for _, n := range old[:max(0, len(old)-f.cfg.Keep)] {
		errs = append(errs, os.Remove(asideName(f.cfg.Path, n)))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("usage: set aside: %w", err)
	}
	return nil
}

// asideName is the name of the n-th file set aside.
func asideName(path string, n int) string { return fmt.Sprintf("%s.%08d", path, n) }

// asideNumbers returns the numbers of the files set aside, in order.
func asideNumbers(path string) ([]int, error) {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	var numbers []int
	for _, e := range entries {
		digits, ok := strings.CutPrefix(e.Name(), filepath.Base(path)+".")
		if n, err := strconv.Atoi(digits); ok && err == nil && n > 0 && len(digits) >= 8 {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}
