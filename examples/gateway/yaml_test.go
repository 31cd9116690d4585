package main

import (
	"errors"
	"strings"
	"testing"
)

// flat writes a node on one line, words in quotes.
func (n *node) flat() string {
	switch n.kind {
	case scalar:
		return `"` + n.text + `"`
	case list:
		items := make([]string, len(n.list))
		for i, item := range n.list {
			items[i] = item.flat()
		}
		return "[" + strings.Join(items, " ") + "]"
	case mapping:
		fields := make([]string, len(n.fields))
		for i, f := range n.fields {
			fields[i] = f.name + "=" + f.value.flat()
		}
		return "{" + strings.Join(fields, " ") + "}"
	}
	return "-"
}

// TestAddressesWithoutQuotes: a colon that no space follows is part of the
// word, also in a list in braces.
func TestAddressesWithoutQuotes(t *testing.T) {
	for _, tc := range []struct{ file, want string }{
		{"r: {a: [127.0.0.1:6379]}", `{r={a=["127.0.0.1:6379"]}}`},
		{"r: {a: [127.0.0.1:6379, redis.internal:06, b]}", `{r={a=["127.0.0.1:6379" "redis.internal:06" "b"]}}`},
		{"r: {a: [http://h:80/v1, http://10.0.0.1:80]}", `{r={a=["http://h:80/v1" "http://10.0.0.1:80"]}}`},
		{"r: {a: [http://h, {url: http://h:80, name: b}]}", `{r={a=["http://h" {url="http://h:80" name="b"}]}}`},
		{"r: {a: [h:1\n, 1:2] # c\n}", `{r={a=["h:1" "1:2"]}}`},
		{"r: {a: [a:b:c, h:true, h:1.5]}", `{r={a=["a:b:c" "h:true" "h:1.5"]}}`},
		{"r: [h:1, http://h:80]", `{r=["h:1" "http://h:80"]}`},
		{"r: {a: h:1, b: h:2}", `{r={a="h:1" b="h:2"}}`},
		{"r: {a: [k: 1, 'k':1, k:'v', k:[1], {k: v}]}", `{r={a=[{k="1"} {k="1"} {k="v"} {k=["1"]} {k="v"}]}}`},
		{"r:\n  - k: 1\n  - k: {a: [h:1]}", `{r=[{k="1"} {k={a=["h:1"]}}]}`},
	} {
		n, err := parseYAML([]byte(tc.file))
		if err != nil {
			t.Errorf("%q: %v", tc.file, err)
			continue
		}
		if got := n.flat(); got != tc.want {
			t.Errorf("%q = %s, want %s", tc.file, got, tc.want)
		}
	}
}

// TestAddressesThatNeedQuotes: where YAML takes part of an address for a
// list, the error says what to do.
func TestAddressesThatNeedQuotes(t *testing.T) {
	const hint = `; an address with brackets, or without a host, needs quotes, such as "[::1]:8080"`
	for _, tc := range []struct {
		file string
		line int
		want string
	}{
		{"listen: [::1]:8080", 1, "value is not allowed in this context"},
		{"r:\n  - {url: [::1]:80, name: b}", 2, "found an invalid key for this map"},
		{"r: {a: [http://[fe80::1.2.3.4]:80]}", 1, "found an invalid key for this map"},
		{"r: [http://[::1]:80]", 1, "',' or ']' must be specified"},
		{"r: {a: [:80]}", 1, "found an invalid key for this map"},
	} {
		want := lineError{tc.line, "cannot be read as YAML: " + tc.want + hint}
		var got *lineError
		if _, err := parseYAML([]byte(tc.file)); !errors.As(err, &got) || *got != want {
			t.Errorf("%q: %v, want %v", tc.file, err, &want)
		}
	}
	if _, err := parseYAML([]byte("a: [::1]\nr: {a: [b]")); err == nil || strings.Contains(err.Error(), "quotes") {
		t.Errorf("a bracket that is missing on another line: %v, want no hint", err)
	}
}
