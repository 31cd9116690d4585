package main

import "testing"

func TestMeant(t *testing.T) {
	names := []string{"tier", "weight", "max_tokens", "default_max_tokens", "id", "keys", "key", "slo"}
	for _, tc := range []struct{ name, want string }{
		{"max_tokenz", " (did you mean max_tokens?)"},
		{"maxTokens", " (did you mean max_tokens?)"},
		{"Max-Tokens", " (did you mean max_tokens?)"},
		{"wieght", " (did you mean weight?)"},
		{"keyz", " (did you mean keys?)"},
		{"ke", " (did you mean key?)"},
		{"ids", ""},
		{"tokens", ""},
		{"xyz", ""},
		{"", ""},
	} {
		if got := meant(tc.name, names); got != tc.want {
			t.Errorf("meant(%q) = %q, want %q", tc.name, got, tc.want)
		}
	}
}

func TestSlips(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "ab", 2}, {"ab", "", 2}, {"abc", "abc", 0}, {"abc", "abd", 1}, {"abc", "bc", 1}, {"kitten", "sitting", 3}} {
		if got := slips(tc.a, tc.b); got != tc.want {
			t.Errorf("slips(%q, %q) = %d, want %d", tc.a, tc.b, got, tc.want)
		}
	}
}
