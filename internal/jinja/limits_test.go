package jinja

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
)

func TestLimits(t *testing.T) {
	deep := strings.Repeat("[", 90) + strings.Repeat("]", 90)
	tests := []struct {
		name, source string
		limits       Limits
		kind         string
	}{
		{"output", "{% for i in range(1000) %}0123456789{% endfor %}", Limits{Output: 9999}, KindLimit},
		{"output of a macro that is thrown away", "{% macro m() %}{{ 'x' * 1000 }}{% endmacro %}{% set a = m() %}", Limits{Output: 999}, KindLimit},
		{"output of tojson", "{{ ['x' * 1000] | tojson }}", Limits{Output: 999}, KindLimit},
		{"steps of nested loops", "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}", Limits{}, KindLimit},
		{"default steps", "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}", Limits{Output: 1}, KindLimit},
		{"steps of a filter", "{% for i in range(100000) %}{% set x = range(100000) | list %}{% endfor %}", Limits{}, KindLimit},
		{"repeat of a str", "{{ 'x' * 10000000000 }}", Limits{}, KindLimit},
		{"repeat of a list", "{% set a = [1] * 10000000000 %}", Limits{}, KindLimit},
		{"repeat by a huge int", "{{ 'x' * (10 ** 30) }}", Limits{}, KindLimit},
		{"doubling", "{% set ns = namespace(s='x') %}{% for i in range(100) %}{% set ns.s = ns.s + ns.s %}{% endfor %}", Limits{}, KindLimit},
		{"doubling of a list", "{% set ns = namespace(s=[1]) %}{% for i in range(100) %}{% set ns.s = ns.s + ns.s %}{% endfor %}", Limits{}, KindLimit},
		{"replace", "{{ ('x' * 1000000) | replace('', 'y' * 1000000) }}", Limits{}, KindLimit},
		{"width of %", "{{ '%1000000000d' % 1 }}", Limits{}, KindLimit},
		{"precision of %", "{{ '%.1000000000f' % 1.5 }}", Limits{}, KindLimit},
		{"width of format", "{{ '{:1000000000}'.format(1) }}", Limits{}, KindLimit},
		{"center", "{{ 'x'.center(1000000000) }}", Limits{}, KindLimit},
		{"zfill", "{{ 'x'.zfill(1000000000) }}", Limits{}, KindLimit},
		{"indent", "{{ 'x\ny' | indent(1000000000) }}", Limits{}, KindLimit},
		{"expandtabs", "{{ '\t'.expandtabs(1000000000) }}", Limits{}, KindLimit},
		{"power", "{{ 10 ** 100000000 }}", Limits{}, KindLimit},
		{"product", "{% set ns = namespace(n=2**10000) %}{% for i in range(50) %}{% set ns.n = ns.n * ns.n %}{% endfor %}", Limits{}, KindLimit},
		{"lookups of a number in a large dict", "{% set d = dict(range(100000) | batch(2)) %}{% for i in range(100000) %}{{ d[0.5] }}{{ d.get(0.5) }}{% endfor %}", Limits{}, KindLimit},
		{"comparisons of large lists", "{% set a = [range(1000) | list] %}{% set b = [range(1000) | list] %}{% for i in range(100000) %}{% if a == b %}{% endif %}{% endfor %}", Limits{}, KindLimit},
		{"searches for large lists", "{% set a = [range(1000) | list] * 1000 %}{% for i in range(100000) %}{% if [1] in a %}{% endif %}{% endfor %}", Limits{}, KindLimit},
		{"length of a long wide str", "{% set a = 'é' * 1000000 %}{% for i in range(100000) %}{% set n = a | length %}{% set n = a[5] %}{% set n = a[1:2] %}{% endfor %}", Limits{}, KindLimit},
		{"comparison of a value that contains itself many times", "{% set ns = namespace(l=[1], k=[1]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% set ns.k = [ns.k, ns.k] %}{% endfor %}{{ ns.l == ns.k }}", Limits{}, KindLimit},
		{"order of such values", "{% set ns = namespace(l=[1], k=[1]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% set ns.k = [ns.k, ns.k] %}{% endfor %}{{ ns.l < ns.k }}", Limits{}, KindLimit},
		{"sort of such values", "{% set ns = namespace(l=[1], k=[1]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% set ns.k = [ns.k, ns.k] %}{% endfor %}{{ [ns.l, ns.k] | sort | length }}", Limits{}, KindLimit},
		{"maximum of such values", "{% set ns = namespace(l=[1], k=[1]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% set ns.k = [ns.k, ns.k] %}{% endfor %}{{ [ns.l, ns.k] | max | length }}", Limits{}, KindLimit},
		{"search for such a value", "{% set ns = namespace(l=[1], k=[1]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% set ns.k = [ns.k, ns.k] %}{% endfor %}{{ [ns.l].index(ns.k) }}", Limits{}, KindLimit},
		{"text of such a value", "{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l }}", Limits{}, KindLimit},
		{"JSON of such a value", "{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l | tojson }}", Limits{}, KindLimit},
		{"key of such a value", "{% set ns = namespace(l=(1,)) %}{% for i in range(60) %}{% set ns.l = (ns.l, ns.l) %}{% endfor %}{{ {ns.l: 1} }}", Limits{}, KindType},
		{"join", "{{ range(100000) | join('x' * 1000) }}", Limits{}, KindLimit},
		{"namespaces", "{% for i in range(100000) %}{% set n = namespace() %}{% set n = namespace() %}{% endfor %}", Limits{Build: 8 << 20}, KindLimit},
		{"ranges", "{% for i in range(100000) %}{% set n = range(1) %}{% set n = range(1) %}{% endfor %}", Limits{Build: 8 << 20}, KindLimit},
		{"lists", "{% for i in range(100000) %}{% set n = [i][:1] %}{% endfor %}", Limits{Build: 8 << 20}, KindLimit},
		{"dicts", "{% for i in range(100000) %}{% set n = {i: i} %}{% endfor %}", Limits{Build: 8 << 20}, KindLimit},
		{"views", "{% set d = {} %}{% for i in range(100000) %}{% set n = d.items() %}{% set n = d | items %}{% endfor %}", Limits{Build: 8 << 20}, KindLimit},
		{"loops", "{% for i in range(100000) %}{% for k in [1] %}{% if loop.first %}{% endif %}{% endfor %}{% endfor %}", Limits{Build: 8 << 20}, KindLimit},
		{"frames", "{% macro m(a) %}{% macro k() %}{% endmacro %}{% endmacro %}{% for i in range(100000) %}{{ m() }}{% endfor %}", Limits{Build: 8 << 20}, KindLimit},
		{"arguments", "{% macro m() %}{% set x = varargs, kwargs %}{% endmacro %}{% for i in range(100000) %}{{ m(1, b=1) }}{% endfor %}", Limits{Build: 8 << 20}, KindLimit},
		{"with", "{% for i in range(100000) %}{% with a = 1, b = 2, c = 3, d = 4 %}{% endwith %}{% endfor %}", Limits{Build: 8 << 20}, KindLimit},
		{"recursion of a macro", "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", Limits{}, KindRecursion},
		{"recursion of two macros", "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{% set x = a() %}{% endmacro %}{{ a() }}", Limits{}, KindRecursion},
		{"recursion of a loop", "{% for i in [1] recursive %}{{ loop([1]) }}{% endfor %}", Limits{}, KindRecursion},
		{"namespace in itself", "{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}", Limits{}, KindRecursion},
		{"range", "{{ range(100001) | list }}", Limits{}, KindOverflow},
		{"nesting of source", "{{ " + strings.Repeat("(", 1000) + "1" + strings.Repeat(")", 1000) + " }}", Limits{}, KindSyntax},
		{"nesting of statements", strings.Repeat("{% if 1 %}", 1000) + strings.Repeat("{% endif %}", 1000), Limits{}, KindSyntax},
		{"signs", "{{ " + strings.Repeat("-", 100000) + "1 }}", Limits{}, KindSyntax},
		{"nots", "{{ " + strings.Repeat("not ", 100000) + "1 }}", Limits{}, KindSyntax},
		{"operands", "{{ 1" + strings.Repeat("+1", 100000) + " }}", Limits{}, KindSyntax},
		{"attributes", "{{ a" + strings.Repeat(".a", 100000) + " }}", Limits{}, KindSyntax},
		{"filters", "{{ a" + strings.Repeat("|upper", 100000) + " }}", Limits{}, KindSyntax},
		{"targets", "{% set " + strings.Repeat("(", 1000) + "a" + strings.Repeat(")", 1000) + " = 1 %}", Limits{}, KindSyntax},
		{"size of source", strings.Repeat("x", maxSource+1), Limits{}, KindSyntax},
		{"deep list is fine", "{{ " + deep + " | tojson }}", Limits{}, ""},
		{"long sum is fine", "{{ 1" + strings.Repeat("+1", 5000) + " }}", Limits{}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.limits == (Limits{}) {
				tt.limits = Limits{Steps: 200_000, Build: 8 << 20}
			}
			_, err := renderJSON(tt.source, "{}", tt.limits)
			var e *Error
			switch {
			case tt.kind == "" && err != nil:
				t.Errorf("error = %v", err)
			case tt.kind != "" && (!errors.As(err, &e) || e.Kind != tt.kind):
				t.Errorf("error = %v, want a %s", err, tt.kind)
			}
		})
	}
}

func TestDecode(t *testing.T) {
	tests := []struct{ in, want string }{
		{`{"b":1,"a":[1.0,-0,1e2,true,null,"x"]}`, `{"b": 1, "a": [1.0, 0, 100.0, true, null, "x"]}`},
		{`{"a":1,"b":2,"a":3}`, `{"a": 3, "b": 2}`},
		{` [ ] `, `[]`},
		{`123456789012345678901234567890`, `123456789012345678901234567890`},
		{`-9223372036854775808`, `-9223372036854775808`},
		{`-9223372036854775809`, `-9223372036854775809`},
		{`"\u00e9\ud83d\ude00\/\n\\\""`, `"é😀/\n\\\""`},
		{`[NaN,Infinity,-Infinity]`, `[NaN, Infinity, -Infinity]`},
		{`1e999`, `Infinity`},
		{`{"k0":0,"k1":1,"k2":2,"k3":3,"k4":4,"k5":5,"k6":6,"k7":7,"k8":8,"k9":9,"k10":10,"k11":11,"k12":12,"k3":"x"}`,
			`{"k0": 0, "k1": 1, "k2": 2, "k3": "x", "k4": 4, "k5": 5, "k6": 6, "k7": 7, "k8": 8, "k9": 9, "k10": 10, "k11": 11, "k12": 12}`},
	}
	for _, tt := range tests {
		v, err := Decode([]byte(tt.in))
		if err != nil {
			t.Errorf("Decode(%s): %v", tt.in, err)
			continue
		}
		w := jsonWriter{limit: 1 << 20, o: &defaultJSON}
		if err := w.value(v, 0); err != nil || string(w.out) != tt.want {
			t.Errorf("Decode(%s) = %s, %v, want %s", tt.in, w.out, err, tt.want)
		}
	}
	bad := []string{
		"", " ", "{", "[1,", "[1,]", `{"a"}`, `{"a":}`, `{a:1}`, "01", "1.", ".5", "1e", "-", "+1", "tru", "nul", `"`, `"\`, `"\"`,
		`"\x"`, `"\u12"`, `"\ud800"`, `"\ud800x"`, `"\udc00\ud800"`, `"\ud800\u0041"`, "\"\n\"", "\"\\n\x01\"", "1 2", "[1 2]", "\"\xff\"", "\xff",
		strings.Repeat("[", MaxJSONDepth+1) + strings.Repeat("]", MaxJSONDepth+1), strings.Repeat("9", maxIntDigits+1), `{"a":1 "b":2}`,
	}
	for _, in := range bad {
		if v, err := Decode([]byte(in)); err == nil {
			t.Errorf("Decode(%.40q) = %v, want an error", in, v.Kind())
		}
	}
}

// TestState checks that a render that fails leaves nothing behind for the
// next one, and that the clock is the given one.
func TestState(t *testing.T) {
	tmpl, err := Parse("{% macro m(a) %}{% if a > 3 %}{{ raise_exception('stop') }}{% endif %}{{ a }}{{ m(a + 1) if a < n }}{% endmacro %}{{ m(1) }}{{ strftime_now('%Y') }}")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		n, want := int64(i%6), ""
		switch {
		case n < 4:
			want = "1 12 123"[:0]
			for k := int64(1); k <= max(n, 1); k++ {
				want += fmt.Sprint(k)
			}
			want += "2026"
		}
		out, err := tmpl.Render([]byte("p:"), &Env{Vars: []Var{{"n", FromInt(n)}}, Now: testNow})
		if n >= 4 {
			if err == nil || err.Error() != "TemplateError: stop" || string(out) != "p:" {
				t.Fatalf("n=%d: %q, %v", n, out, err)
			}
			continue
		}
		if err != nil || string(out) != "p:"+want {
			t.Fatalf("n=%d: %q, %v, want %q", n, out, err, want)
		}
	}
}

func TestIteratesContent(t *testing.T) {
	tests := []struct {
		name, source string
		want         bool
	}{
		{"plain", "{% for m in messages %}{{ m.content }}{% endfor %}", false},
		{"item", "{% for m in messages %}{% for c in m['content'] %}{% endfor %}{% endfor %}", true},
		{"attribute", "{% for m in messages %}{% for c in m.content %}{% endfor %}{% endfor %}", true},
		{"assigned", "{% set l = messages[1:] %}{% set k = l %}{% for m in k %}{% for c in m.content | list %}{% endfor %}{% endfor %}", true},
		{"in a macro", "{% macro f() %}{% for m in messages %}{% for c in m.content %}{% endfor %}{% endfor %}{% endmacro %}", true},
		{"by macro parameter", "{% macro f(content) %}{% for c in content %}{% endfor %}{% endmacro %}{% for m in messages %}{{ f(m.content) }}{% endfor %}", false},
		{"other attribute", "{% for m in messages %}{% for c in m.tool_calls %}{% endfor %}{% endfor %}", false},
		{"unpacked messages", "{% set a, b = messages %}{% for m in messages %}{% for c in m.content %}{% endfor %}{% endfor %}", false},
		{"messages in a namespace", "{% set ns.l = messages %}{% for m in messages %}{% for c in m.content %}{% endfor %}{% endfor %}", false},
		{"assigned in a circle", "{% set a = messages %}{% set b = a %}{% set a = b %}{% for m in a %}{% for c in m.content %}{% endfor %}{% endfor %}", true},
		{"computed key", "{% for m in messages %}{% for c in m[key] %}{% endfor %}{% endfor %}", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tmpl, err := Parse(tt.source)
			if err != nil {
				t.Fatal(err)
			}
			if got := tmpl.IteratesContent(); got != tt.want {
				t.Errorf("IteratesContent = %v, want %v", got, tt.want)
			}
		})
	}
}

// TestLimitLines renders a template that fails at another line than the one
// before it, at the same time as others: an error belongs to its render.
func TestLimitLines(t *testing.T) {
	var wg sync.WaitGroup
	for line := 1; line <= 8; line++ {
		tmpl, err := Parse(strings.Repeat("\n", line-1) + "{{ 'x' * 10000000000 }}")
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			_, err := tmpl.Render(nil, &Env{})
			var e *Error
			if !errors.As(err, &e) || e.Kind != KindLimit || e.Line != line {
				t.Errorf("Render = %v, want a LimitError at line %d", err, line)
			}
		})
	}
	wg.Wait()
}
