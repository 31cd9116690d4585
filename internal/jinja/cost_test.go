package jinja

import (
	"math"
	"testing"
)

// TestSteps checks that what takes long counts its work. The limits of a
// render are then limits of its time, whatever the template does.
func TestSteps(t *testing.T) {
	const (
		ascii = "{% set s = 'ab ' * 1000 %}"
		wide  = "{% set s = 'é ' * 1000 %}"
		set   = "{% set c = 'éèê ' * 1000 %}"
		ints  = "{% set a = 3 ** 8000 %}{% set b = 7 ** 2000 %}"
		list  = "{% set l = range(1000) | list %}"
	)
	tests := []struct {
		setup, source string
		min, max      int
	}{
		{ascii, "s | title", 1500, 7000},
		{wide, "s | title", 1500, 7000},
		{wide, "s.title()", 1500, 7000},
		{ascii, "s.swapcase()", 1500, 7000},
		{wide, "s | capitalize", 1500, 7000},
		{ascii, "s | upper", 150, 500},
		{wide, "s | upper", 1500, 7000},
		{wide, "s | lower", 1500, 7000},
		{ascii, "s.isalpha()", 1500, 7000},
		{ascii, "s is lower", 1500, 7000},
		{ascii, "s.strip('ab ')", 3000, 6000},
		{ascii, "s | trim('ab ')", 3000, 6000},
		{wide + set, "s.strip(c)", 200_000, 1_000_000},
		{ascii, "s.strip()", 1, 100},
		{"{% set s = ' ' * 3000 %}", "s.strip()", 150, 3500},
		{ascii, "s.split()", 1500, 7000},
		{ascii, "s.split('b')", 1000, 3000},
		{ascii, "s.split('</think>')", 100, 1000},
		{ascii, "s | wordcount", 1500, 7000},
		{ascii, "s.count('ab')", 300, 1000},
		{ascii, "s | replace('ab', 'c')", 300, 1000},
		{ascii, "s | escape", 300, 1000},
		{ascii, "s | tojson", 700, 3500},
		{list, "l | tojson", 700, 3500},
		{list, "l | string", 700, 3500},
		{"{% set s = '[' ~ '1,' * 1000 ~ '1]' %}", "s | fromjson", 2000, 4000},
		{wide, "s[5:]", 150, 1000},
		{ints, "a * b", 400, 5000},
		{ints, "a // b", 400, 5000},
		{ints, "a % b", 400, 5000},
		{ints, "b / a", 1000, 50_000},
		{ints, "a + b", 30, 500},
		{ints, "-a", 30, 500},
		{ints, "a | abs", 30, 500},
		{ints, "a < b", 100, 5000},
		{ints, "a == b + a - b", 100, 5000},
		{"", "3 ** 8000", 400, 20_000},
		{ints, "a | string", 1500, 20_000},
		{ints, "a | tojson", 1500, 20_000},
		{ints, "'%d' % a", 1500, 20_000},
		{"{% set d = '9' * 4000 %}", "d | int", 1500, 20_000},
		{"{% set d = '9' * 4000 %}", "d | float", 900, 20_000},
		{"", "'%.4000f' % 1.5", 1500, 20_000},
		{"", "'{:.4000f}'.format(1.5)", 1500, 20_000},
		{"", "'abc' | title", 1, 30},
		{"", "1 + 2", 1, 10},
	}
	steps := func(source string) int {
		t.Helper()
		tmpl, err := Parse(source)
		if err != nil {
			t.Fatal(err)
		}
		st := new(state)
		st.start(tmpl, nil, &Env{Limits: Limits{Steps: math.MaxInt}})
		if err := st.run(tmpl); err != nil {
			t.Fatalf("%s: %v", source, err)
		}
		return math.MaxInt - st.steps
	}
	for _, tt := range tests {
		before := steps(tt.setup)
		got := steps(tt.setup+"{% set x = "+tt.source+" %}") - before
		if got < tt.min || got > tt.max {
			t.Errorf("%s takes %d steps, want %d to %d", tt.source, got, tt.min, tt.max)
		}
	}
}
