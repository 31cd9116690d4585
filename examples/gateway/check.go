package main

import (
	"fmt"
	"io"
	"log/slog"
	"time"
)

// check writes what is worth knowing of a configuration without a mistake to
// out. What speaks against serving it at the time is the error.
func check(c *config, file *mistakes, now time.Time, out io.Writer) error {
	notes, warnings, faults := file.remarks(), file.remarks(), file.remarks()
	noteBlanks(file.blanks, notes)
	noteEstimates(c, notes)
	checkDates(c, now, faults)
	if !checkKeys(c, now, warnings) {
		faults.add("tenants", "expected a key that can be used; each has expired or is of a disabled tenant. gateway keygen makes one")
	}
	for _, line := range append(notes.report("note: "), warnings.report("warning: ")...) {
		if _, err := fmt.Fprintln(out, line); err != nil {
			return err
		}
	}
	if err := faults.err(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "%s: %s, %s, %s: good\n", file.file, plural(len(c.Pools), "pool"), plural(len(c.Models), "model"), plural(len(c.Tenants), "tenant"))
	return err
}

// noteEstimates adds the pools whose max_model_len holds for less than it seems
// to.
func noteEstimates(c *config, notes *mistakes) {
	for i, p := range c.Pools {
		if p.MaxModelLen > 0 && p.Tokenizer == "" {
			notes.add(fmt.Sprintf("pools[%d].max_model_len", i), "bounds what clients ask for but not their prompts, whose length is an estimate without tokenizer: the engine checks them")
		}
	}
}

func plural(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// warn logs what has become invalid with time. It is no reason not to serve:
// what has nothing to do with it can be.
func warn(c *config, file *mistakes, now time.Time, logger *slog.Logger) {
	dates, keys := file.remarks(), file.remarks()
	checkDates(c, now, dates)
	for _, d := range dates.list {
		logger.Warn("a certificate is not valid", "field", d.path, "error", d.want)
	}
	usable := checkKeys(c, now, keys)
	for _, k := range keys.list {
		logger.Warn("a key is not valid", "field", k.path, "error", k.want)
	}
	if !usable {
		logger.Warn("no key can be used: every request gets a 401")
	}
}

// checkKeys finds keys that have expired. It reports whether one is left that
// can be used; where no key has expired, that is not for the time to say.
func checkKeys(c *config, now time.Time, m *mistakes) (usable bool) {
	expired := false
	for i := range c.Tenants {
		t := &c.Tenants[i]
		for j, k := range t.Keys {
			if k.Expires.IsZero() || now.Before(k.Expires) {
				usable = usable || !t.Disabled
				continue
			}
			expired = true
			m.add(fmt.Sprintf("tenants[%d].keys[%d].expires", i, j), "key %q of tenant %q expired at %s and is refused", k.Name, t.ID, k.Expires.Format(time.RFC3339))
		}
	}
	return usable || !expired
}
