package chat

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"
)

const toolTemplate = `{%- macro dump(v) -%}
{%- if v is mapping -%}({%- for k, x in v | dictsort -%}{{ k }}={{ dump(x) }}{%- endfor -%})
{%- elif v is string or v is number or v is none -%}{{ v }}
{%- else -%}[{%- for x in v -%}{{ dump(x) }}{%- endfor -%}]{%- endif -%}
{%- endmacro -%}
{%- if tools -%}{{ tools | tojson }}{{ dump(tools) }}{% for t in tools %}{{ t.function | tojson(indent=2) }}{{ dump(t) }}{{ t | tojson }}{% endfor %}{%- endif -%}
{%- for m in messages -%}{{ m.role }}:{{ m.content }}{%- endfor -%}`

func randomTools(r *rand.Rand) string {
	var tools []string
	for range r.IntN(4) {
		n := r.IntN(5)
		tools = append(tools, fmt.Sprintf(`{"function":{"parameters":{"b":%d,"a":["é%s"]},"name":"f%d"}}`, n, strings.Repeat("x", n), n))
	}
	return "[" + strings.Join(tools, ", ") + "]"
}

// TestToolCache renders sets of tools that come once and again, from several
// goroutines, and compares with a template that keeps nothing.
func TestToolCache(t *testing.T) {
	tmpl, err := Compile(toolTemplate, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for seed := range uint64(4) {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, 1))
			for range 500 {
				in := Input{Messages: []byte(`[{"role":"user","content":"hi"}]`), Tools: []byte(randomTools(r)), Now: time.Unix(0, 0)}
				fresh, err := Compile(toolTemplate, Options{})
				if err != nil {
					t.Error(err)
					return
				}
				want, err := fresh.Append(nil, in)
				if err != nil {
					t.Error(err)
					return
				}
				got, err := tmpl.Append(nil, in)
				if err != nil || string(got) != string(want) {
					t.Errorf("Append = %q, %v, want %q", got, err, want)
					return
				}
				if r.IntN(4) > 0 {
					continue
				}
				in.Preprocessed = true // tools in their own order
				want, err = fresh.Append(nil, in)
				if err != nil {
					t.Error(err)
					return
				}
				if got, err := tmpl.Append(nil, in); err != nil || string(got) != string(want) {
					t.Errorf("preprocessed: Append = %q, %v, want %q", got, err, want)
					return
				}
			}
		})
	}
	wg.Wait()
	c := &tmpl.cache
	if len(c.sets) == 0 || len(c.sets) > cachedSets || len(c.seen) > cachedSeen {
		t.Errorf("%d sets are kept and %d known, want 1 to %d and at most %d", len(c.sets), len(c.seen), cachedSets, cachedSeen)
	}
}

// TestToolCacheTwice checks that a set is kept from the second time on, that a
// large one never is, and that its bytes may change after the call.
func TestToolCacheTwice(t *testing.T) {
	tmpl, err := Compile(toolTemplate, Options{})
	if err != nil {
		t.Fatal(err)
	}
	render := func(tools string) {
		t.Helper()
		raw := []byte(tools)
		if _, err := tmpl.Append(nil, Input{Messages: []byte(`[{"role":"user","content":"hi"}]`), Tools: raw}); err != nil {
			t.Fatal(err)
		}
		clear(raw)
	}
	const set = `[{"function":{"name":"f"}}]`
	for i, want := range []int{0, 1, 1} {
		render(set)
		if got := len(tmpl.cache.sets); got != want {
			t.Errorf("after %d renders %d sets are kept, want %d", i+1, got, want)
		}
	}
	large := `[{"function":{"name":"` + strings.Repeat("f", cachedBytes) + `"}}]`
	for range 3 {
		render(large)
	}
	for _, none := range []string{"", "null", "[]", " "} {
		for range 3 {
			render(none)
		}
	}
	if got := len(tmpl.cache.sets); got != 1 {
		t.Errorf("%d sets are kept, want 1", got)
	}
	if v, ok := tmpl.cache.find([]byte(set)); !ok || len(v.Items()) != 1 {
		t.Errorf("the set is not found as it came")
	}
}
