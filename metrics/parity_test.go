package metrics_test

import (
	"strings"
	"testing"

	"github.com/expediterhq/expediter/metrics"
	"github.com/expediterhq/expediter/registry"
)

func TestWatchParity(t *testing.T) {
	p, twin := newPool(t, "main", "a", "b", "c"), newPool(t, "main", "a")
	m := metrics.New(metrics.Config{})
	rs := p.Replicas()
	agrees := map[*registry.Replica]bool{rs[0]: true, rs[1]: false}
	m.WatchParity(func() map[*registry.Replica]bool { return agrees })
	check(t, scrape(t, m), map[string]string{
		`expediter_tokenizer_parity{pool="main",replica="a"}`: "1",
		`expediter_tokenizer_parity{pool="main",replica="b"}`: "0",
		`expediter_tokenizer_parity{pool="main",replica="c"}`: "", // unknown
	})
	// Of two replicas with one name, the one that differs shows.
	agrees = map[*registry.Replica]bool{rs[0]: true, twin.Replicas()[0]: false}
	m.WatchParity(func() map[*registry.Replica]bool { return agrees })
	check(t, scrape(t, m), map[string]string{
		`expediter_tokenizer_parity{pool="main",replica="a"}`: "0",
		`expediter_tokenizer_parity{pool="main",replica="b"}`: "",
	})
	m.WatchParity(nil)
	for s := range scrape(t, m) {
		if strings.Contains(s, "parity") {
			t.Errorf("series %s after the end", s)
		}
	}
}
