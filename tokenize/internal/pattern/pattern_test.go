package pattern_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/expediterhq/expediter/tokenize/internal/pattern"
)

// pieces returns the matches, with what lies between them in brackets.
func pieces(t testing.TB, src, text string) []string {
	t.Helper()
	p, err := pattern.Compile(src)
	if err != nil {
		t.Fatalf("Compile(%q): %v", src, err)
	}
	var m pattern.Machine
	m.Reset(len(text))
	var out []string
	for i := 0; i < len(text); {
		start, end, err := p.Next(text, i, &m)
		if err != nil {
			t.Fatalf("Next: %v", err)
		}
		if start > i {
			out = append(out, "["+text[i:start]+"]")
		}
		if end > start {
			out = append(out, text[start:end])
		}
		i = end
	}
	return out
}

func TestNext(t *testing.T) {
	tests := []struct {
		name, src, text string
		want            []string
	}{
		{"first alternative wins", `a|ab`, "ab", []string{"a", "[b]"}},
		{"greedy gives back", `\s*[\r\n]+`, " \n  x", []string{" \n", "[  x]"}},
		{"lazy", `a+?`, "aa", []string{"a", "a"}},
		{"possessive keeps", `a++b|a`, "aab aa", []string{"aab", "[ ]", "a", "a"}},
		{"possessive does not give back", `a++a|b`, "aab", []string{"[aa]", "b"}},
		{"not ahead", `\s+(?!\S)|\s+`, "   x  ", []string{"  ", " ", "[x]", "  "}},
		{"ahead", `a(?=b)`, "aab", []string{"[a]", "a", "[b]"}},
		{"counted", `\p{N}{1,3}`, "12345", []string{"123", "45"}},
		{"counted exactly", `a{2}`, "aaaaa", []string{"aa", "aa", "[a]"}},
		{"counted without bound", `a{2,}`, "a aaaaa", []string{"[a ]", "aaaaa"}},
		{"long s folds", `(?i:'s)`, "'s'S'\u017f's", []string{"'s", "'S", "'\u017f", "'s"}},
		{"kelvin folds", `(?i:k)`, "kK\u212a", []string{"k", "K", "\u212a"}},
		{"class of categories", `[^\r\n\p{L}\p{N}]?\p{L}+`, "¡hola 1x\n", []string{"¡hola", "[ 1]", "x", "[\n]"}},
		{"negated property", `[\P{L}]+|x`, "1é2", []string{"1", "[é]", "2"}},
		{"range outside ascii", `[一-龥]+`, "x一龥龦", []string{"[x]", "一龥", "[龦]"}},
		{"escapes in class", `[!\-\]\\^]+`, `a!-]\^b`, []string{"[a]", `!-]\^`, "[b]"}},
		{"dash last", `[a-]+`, "-a-", []string{"-a-"}},
		{"dot", `.+`, "a\nb", []string{"a", "[\n]", "b"}},
		{"newest letters", `\p{L}`, "\U00031350", []string{"\U00031350"}},
		{"next line is space", `\s`, "\u0085\u001c", []string{"\u0085", "[\u001c]"}},
		{"nested groups", `(?:a(?:b|c){1,2})+`, "abcab", []string{"abcab"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := pieces(t, tt.src, tt.text); !slices.Equal(got, tt.want) {
				t.Errorf("matches of %q in %q = %q, want %q", tt.src, tt.text, got, tt.want)
			}
		})
	}
}

func TestCompileRefuses(t *testing.T) {
	tests := []struct{ name, src, want string }{
		{"back reference", `(a)\1`, `unsupported escape`},
		{"digits", `\d`, `unsupported escape`},
		{"words", `\w+`, `unsupported escape`},
		{"anchor", `^a`, `unsupported '^'`},
		{"look behind", `(?<=a)b`, `unsupported group`},
		{"named", `(?<n>b)`, `unsupported group`},
		{"intersection", `[\p{L}&&[a]]`, `unsupported '&' in a class`},
		{"nested class", `[a[b]]`, `unsupported '[' in a class`},
		{"posix class", `[[:alpha:]]`, `unsupported '[' in a class`},
		{"closing bracket first", `[]a]+`, `unsupported ']' in a class`},
		{"script", `\p{Han}`, `unsupported property "Han"`},
		{"empty", ``, `match of the empty text`},
		{"empty alternative", `a|`, `match of the empty text`},
		{"star", `a*`, `match of the empty text`},
		{"repetition of empty", `(?:a*)+b`, `repetition of what may be empty`},
		{"lazy count", `a{1,2}?`, `quantifier after quantifier`},
		{"twice", `a+*`, `quantifier after quantifier`},
		{"open group", `(?:a`, `group without end`},
		{"open class", `[a`, `class without end`},
		{"stray close", `a)b`, `unexpected ')'`},
		{"huge count", `a{1000}`, `quantifier above`},
		{"folding to one character", `(?i:ss)`, `fold to one character`},
		{"class folds", `(?i:[a-z])`, `class in a case-insensitive group`},
		{"written out", `((((((a{100}){100}){100}))))`, `pattern too long`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := pattern.Compile(tt.src)
			var syntax *pattern.SyntaxError
			if !errors.As(err, &syntax) || !strings.Contains(syntax.What, tt.want) {
				t.Errorf("Compile(%q) = %v, want a syntax error about %s", tt.src, err, tt.want)
			}
		})
	}
}

func TestNextStopsOnTooMuchWork(t *testing.T) {
	p, err := pattern.Compile(`(?:a|aa)+b`)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("a", 1000)
	var m pattern.Machine
	m.Reset(len(text))
	if _, _, err := p.Next(text, 0, &m); !errors.Is(err, pattern.ErrTooComplex) {
		t.Errorf("Next = %v, want ErrTooComplex", err)
	}
}

func FuzzCompile(f *testing.F) {
	f.Add(`(?i:'s|'t)|[^\r\n\p{L}]?\p{L}+|\p{N}{1,3}|\s+(?!\S)|\s+`, "it's 12345 words  \n")
	f.Fuzz(func(t *testing.T, src, text string) {
		p, err := pattern.Compile(src)
		if err != nil || len(text) > 1000 {
			return
		}
		var m pattern.Machine
		m.Reset(len(text))
		for i := 0; i < len(text); {
			start, end, err := p.Next(text, i, &m)
			if err != nil {
				return
			}
			if start < i || end < start || end > len(text) || (end == start && start < len(text)) {
				t.Fatalf("Next(%q, %d) of %q = %d, %d", text, i, src, start, end)
			}
			i = end
		}
	})
}
