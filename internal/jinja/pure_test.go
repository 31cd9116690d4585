package jinja

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
)

func TestMarkPure(t *testing.T) {
	tests := []struct {
		name, source string
		pure, fixed  bool
	}{
		{"its argument", "{% macro m(a) %}{{ a | upper }}{% endmacro %}", true, true},
		{"its own variable", "{% macro m(a) %}{% set b = a %}{{ b }}{% endmacro %}", true, true},
		{"a default", "{% macro m(a, b=1) %}{{ b }}{% endmacro %}", true, true},
		{"a variable of the render", "{% macro m(a) %}{{ v }}{% endmacro %}", true, false},
		{"one that is also read outside", "{{ v }}{% macro m(a) %}{{ v }}{% endmacro %}", true, false},
		{"one that only a branch assigns", "{% macro m(a) %}{% if a %}{% set v = 1 %}{% endif %}{{ v }}{% endmacro %}", true, false},
		{"a function of the render", "{% macro m(a) %}{{ range(a) | list }}{% endmacro %}", true, false},
		{"a call that ends the render", "{% macro m(a) %}{% if a %}{{ raise_exception('x') }}{% endif %}{% endmacro %}", true, true},
		{"that function as a value", "{% macro m(a) %}{{ raise_exception }}{% endmacro %}", true, false},
		{"that function, assigned", "{% set raise_exception = 1 %}{% macro m(a) %}{{ raise_exception() }}{% endmacro %}", false, false},
		{"a variable of the template", "{% set v = 1 %}{% macro m(a) %}{{ v }}{% endmacro %}", false, false},
		{"a variable assigned later", "{% macro m(a) %}{{ v }}{% endmacro %}{% set v = 1 %}", false, false},
		{"a default from the template", "{% set v = 1 %}{% macro m(a, b=v) %}{{ b }}{% endmacro %}", false, false},
		{"a copy of a variable of the template", "{% set v = 1 %}{% macro m(a) %}{% set v = v + 1 %}{{ v }}{% endmacro %}", false, false},
		{"a namespace of the template", "{% set n = namespace(x=1) %}{% macro m(a) %}{% set n.x = 2 %}{% endmacro %}", false, false},
		{"a namespace of its own", "{% macro m(a) %}{% set n = namespace(x=1) %}{% set n.x = a %}{{ n.x }}{% endmacro %}", true, false},
		{"a pure macro", "{% macro k(a) %}{{ a }}{% endmacro %}{% macro m(a) %}{{ k(a) }}{% endmacro %}", true, true},
		{"a macro defined later", "{% macro m(a) %}{{ k(a) }}{% endmacro %}{% macro k(a) %}{{ a }}{% endmacro %}", true, true},
		{"itself", "{% macro m(a) %}{{ m(a[1:]) if a }}{% endmacro %}", true, true},
		{"an impure macro", "{% set v = 1 %}{% macro k() %}{{ v }}{% endmacro %}{% macro m(a) %}{{ k() }}{% endmacro %}", false, false},
		{"a macro as a value", "{% macro k() %}{% endmacro %}{% macro m(a) %}{% set f = k %}{{ f() }}{% endmacro %}", false, false},
		{"whether a macro is defined", "{% macro m(a) %}{{ k is defined }}{% endmacro %}{% macro k() %}{% endmacro %}", false, false},
		{"a macro defined twice", "{% macro m(a) %}1{% endmacro %}{% macro m(a) %}2{% endmacro %}", false, false},
		{"a macro that a loop replaces", "{% macro m(a) %}1{% endmacro %}{% for m in [1] %}{% endfor %}", true, true},
		{"a macro that is assigned", "{% macro m(a) %}1{% endmacro %}{% set m = 1 %}", false, false},
		{"its caller", "{% macro m(a) %}{{ caller() }}{% endmacro %}", false, false},
		{"more arguments", "{% macro m(a) %}{{ varargs }}{% endmacro %}", false, false},
		{"a macro inside", "{% macro m(a) %}{% macro k() %}{% endmacro %}{% endmacro %}", false, false},
		{"a loop", "{% macro m(a) %}{% for x in a if x %}{{ loop.index }}{{ x }}{% else %}-{% endfor %}{% endmacro %}", true, true},
		{"blocks", "{% macro m(a) %}{% with b = a %}{% filter upper %}{{ b }}{% endfilter %}{% endwith %}{% set c %}{{ a }}{% endset %}{% endmacro %}", true, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tmpl, err := Parse(tt.source)
			if err != nil {
				t.Fatal(err)
			}
			var m *macroInfo
			for _, s := range tmpl.body {
				if s, ok := s.(*macroStmt); ok && s.name == "m" {
					m = s.m
				}
			}
			if m.pure != tt.pure || m.fixed != tt.fixed {
				t.Errorf("pure, fixed = %t, %t, want %t, %t", m.pure, m.fixed, tt.pure, tt.fixed)
			}
		})
	}
}

// memoSource calls pure macros in many ways.
const memoSource = `
{%- macro tag(name, attrs=[]) -%}<{{ name }}{% for a in attrs %} {{ a[0] }}={{ esc(a[1]) }}{% endfor %}>{%- endmacro -%}
{%- macro esc(v) -%}{{ v | string | replace('a', '&') }}{{ v is string }}{{ v is boolean }}{{ v is float }}{%- endmacro -%}
{%- macro two(a, b='x', c=none) -%}{{ a }}|{{ b }}|{{ c }}|{{ tag(a) }}{%- endmacro -%}
{%- macro dump(v) -%}
{%- if v is mapping -%}{ {%- for k, x in v | dictsort(true) -%}{{ esc(k) }}:{{ dump(x) }}{%- endfor -%} }
{%- elif v is iterable and v is not string -%}[{%- for x in v -%}{{ dump(x) }}{%- endfor -%}]
{%- else -%}{{ v }}{{ mode }}{%- endif -%}
{%- endmacro -%}
{%- for v in values -%}
{{ esc(v) }}{{ tag('m', [['a', 'b'], ['c', 'a']]) }}{{ tag('n', [['a', v]]) }}{{ two(v) }}{{ two(v, v) }}{{ two('p', v, v) }}{{ dump(v) }}{{ esc(v | safe if v is string else v) }}
{%- set s = esc(v) -%}{{ s | length }}{{ dump(values) if loop.first }}{{ v | tojson }}
{%- endfor -%}`

func randomValue(r *rand.Rand, depth int) string {
	switch k := r.IntN(9); {
	case k == 0 && depth < 3:
		var items []string
		for range r.IntN(4) {
			items = append(items, randomValue(r, depth+1))
		}
		return "[" + strings.Join(items, ",") + "]"
	case k == 1 && depth < 3:
		var items []string
		for i := range r.IntN(4) {
			items = append(items, fmt.Sprintf("%q:%s", fmt.Sprintf("k%c%d", 'a'+r.IntN(9), i), randomValue(r, depth+1)))
		}
		return "{" + strings.Join(items, ",") + "}"
	case k == 2:
		return []string{"true", "false", "null", "0", "1", "-0.0", "0.0", "1.0", "2.5", "12345678901234567890123"}[r.IntN(10)]
	case k == 3:
		return fmt.Sprint(r.IntN(3))
	}
	return fmt.Sprintf("%q", strings.Repeat(string(rune('a'+r.IntN(4))), r.IntN(5)*r.IntN(5)*r.IntN(5)))
}

// TestMemo compares renders with those of a template whose macros all run.
func TestMemo(t *testing.T) {
	parse := func() *Template {
		tmpl, err := Parse(memoSource)
		if err != nil {
			t.Fatal(err)
		}
		return tmpl
	}
	fast, slow := parse(), parse()
	pure := 0
	for i, s := range slow.body {
		if s, ok := s.(*macroStmt); ok {
			s.m.pure, s.m.fixed = false, false
			if fast.body[i].(*macroStmt).m.pure {
				pure++
			}
		}
	}
	if pure != 4 {
		t.Fatalf("%d macros are pure, want 4", pure)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var items []string
		for range 1 + r.IntN(40) {
			items = append(items, randomValue(r, 0))
		}
		v, err := Decode([]byte("[" + strings.Join(items, ",") + "]"))
		if err != nil {
			t.Fatal(err)
		}
		vars := []Var{{"values", v}, {"mode", FromInt(int64(r.IntN(2)))}}
		want, err := slow.Render(nil, &Env{Vars: vars})
		if err != nil {
			t.Fatal(err)
		}
		if r.IntN(2) == 0 {
			vars[0].Value = Durable(v)
		}
		for range 2 {
			got, err := fast.Render(nil, &Env{Vars: vars})
			if err != nil || string(got) != string(want) {
				t.Fatalf("Render = %q, %v, want %q", got, err, want)
			}
		}
	}
}

// TestDurable checks what is kept between renders: texts of durable values
// that nothing else goes into.
func TestDurable(t *testing.T) {
	tmpl, err := Parse("{% macro plain(v) %}<{{ v | tojson }}>{% endmacro %}{% macro moded(v) %}{{ mode }}{{ v[0] }}{% endmacro %}" +
		"{{ plain(tools) }}{{ moded(tools) }}{{ tools | tojson }}{% set x = tools | tojson(ensure_ascii=false) %}{{ x }}{{ tools | tojson(indent=1) }}")
	if err != nil {
		t.Fatal(err)
	}
	set := func(s string) Value {
		v, err := Decode([]byte(s))
		if err != nil {
			t.Fatal(err)
		}
		return Durable(v)
	}
	a, b := set(`["é"]`), set(`["b"]`)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 200 {
				v, s, mode := a, `["é"]`, "xyz"[i%3:i%3+1]
				if i%2 == 1 {
					v, s = b, `["b"]`
				}
				want := "<" + s + ">" + mode + s[2:len(s)-2] + s + s + "[\n " + s[1:len(s)-1] + "\n]"
				got, err := tmpl.Render(nil, &Env{Vars: []Var{{"tools", v}, {"mode", FromString(mode)}}})
				if err != nil || string(got) != want {
					t.Errorf("Render = %q, %v, want %q", got, err, want)
					return
				}
			}
		})
	}
	wg.Wait()
	if n := len(tmpl.kept.text); n != 4 {
		t.Errorf("%d texts are kept, want one of plain and one of tojson for each value", n)
	}
	if _, err := tmpl.Render(nil, &Env{Vars: []Var{{"tools", a}}, Limits: Limits{Output: 8}}); err == nil {
		t.Error("a kept text went over the limit of the output")
	}
	tmpl.Forget()
	if n := len(tmpl.kept.text); n != 0 {
		t.Errorf("%d texts are left after Forget", n)
	}
}

// TestKeptBounds renders more durable values than are kept.
func TestKeptBounds(t *testing.T) {
	tmpl, err := Parse("{{ v | tojson }}")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 * keptTexts {
		v := Durable(FromList([]Value{FromString(strings.Repeat("x", 1000*(i%100)))}))
		if _, err := tmpl.Render(nil, &Env{Vars: []Var{{"v", v}}}); err != nil {
			t.Fatal(err)
		}
		if k := &tmpl.kept; len(k.text) > keptTexts || k.size > keptSize {
			t.Fatalf("%d texts of %d bytes are kept", len(k.text), k.size)
		}
	}
}
