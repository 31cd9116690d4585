package usage

// Dirty reports whether something was written and not synced. Call it only
// while the file's goroutine rests.
func (f *File) Dirty() bool { return f.dirty }
