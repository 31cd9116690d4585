package jinja

import "testing"

// TestLargeInts: an int that is larger than Go's means "as many as there are",
// and is not taken for what is left of it in fewer bits.
func TestLargeInts(t *testing.T) {
	for _, tt := range []struct{ source, want string }{
		{"{{ 'aXbXc'.replace('X', '-', 4294967297) }}", "a-b-c"},
		{"{{ 'aXbXc' | replace('X', '-', 4294967297) }}", "a-b-c"},
		{"{{ 'a b c'.split(' ', 4294967297) | length }}", "3"},
		{"{{ 'a b c'.split(' ', 10**30) | length }}", "3"},
		{"{{ 'abcdef'[-4294967295:4294967298] }}", "abcdef"},
		{"{{ 'abcdef'[::4294967297] }}{{ 'abc'[10**30:] }}{{ 'abc'[-(10**30):] }}", "aabc"},
		{"{{ ('x' * 300) | truncate(9223372036854775807) | length }}", "300"},
		{"{{ ('x' * 300) | truncate(4294967299, true) | length }}", "300"},
	} {
		if got, err := renderJSON(tt.source, "{}", Limits{}); got != tt.want || err != nil {
			t.Errorf("%s = %q, %v, want %q", tt.source, got, err, tt.want)
		}
	}
	for _, source := range []string{"{{ '%*d' % (4294967299, 5) }}", "{{ '%4294967299d' % 5 }}", "{{ '{:4294967299}'.format(5) }}", "{{ '{4294967296}'.format(5) }}"} {
		if got, err := renderJSON(source, "{}", Limits{}); err == nil {
			t.Errorf("%s = %q, want an error", source, got)
		}
	}
}
