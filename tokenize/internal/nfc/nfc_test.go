package nfc_test

import (
	"bufio"
	"compress/gzip"
	"os"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/expediterhq/expediter/tokenize/internal/nfc"
)

func normalize(s string) string {
	var b nfc.Buffer
	return string(nfc.Append(nil, s, &b))
}

func TestAppend(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"empty", "", ""},
		{"ascii", "plain text", "plain text"},
		{"composes", "e\u0301", "\u00e9"},
		{"keeps composed", "caf\u00e9!", "caf\u00e9!"},
		{"reorders", "a\u0301\u0316", "\u00e1\u0316"},
		{"equal classes block", "a\u0316\u0317\u0301", "\u00e1\u0316\u0317"},
		{"blocked by equal class", "a\u0302\u0301\u0302", "\u1ea5\u0302"},
		{"singleton", "\u212b\u2126", "\u00c5\u03a9"},
		{"excluded", "\u0958", "\u0915\u093c"},
		{"hangul", "\u1112\u1161\u11ab\u1100\u1173\u11af", "\ud55c\uae00"},
		{"hangul lv plus t", "\uac00\u11a8", "\uac01"},
		{"leading mark", "\u0301e\u0301", "\u0301\u00e9"},
		{"marks of later versions are starters", "a\u0301\U0001E08F", "\u00e1\U0001E08F"},
		{"two starters compose", "\u09c7\u09be", "\u09cb"},
		{"compat ideograph", "\uf900x", "\u8c48x"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := normalize(tt.in); got != tt.want {
				t.Errorf("Append(%+q) = %+q, want %+q", tt.in, got, tt.want)
			}
		})
	}
}

// The probe file lists, for code points where the answer is not trivial, what
// the reference's normalizer makes of four strings built with the code point.
func TestAppendAgreesWithProbes(t *testing.T) {
	f, err := os.Open("testdata/nfc-probe.tsv.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zr, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	listed := map[rune][4]string{}
	sc := bufio.NewScanner(zr)
	for sc.Scan() {
		cols := strings.Split(sc.Text(), "\t")
		var want [4]string
		for i := range want {
			want[i] = unhex(t, cols[i+1])
		}
		listed[[]rune(unhex(t, cols[0]))[0]] = want
	}
	if err := sc.Err(); err != nil || len(listed) < 2000 {
		t.Fatalf("read %d probes, error %v", len(listed), err)
	}
	var b nfc.Buffer
	var got []byte
	for r := rune(0); r <= utf8.MaxRune; r++ {
		if r >= 0xD800 && r < 0xE000 {
			continue
		}
		c := string(r)
		want, ok := listed[r]
		if !ok {
			if raceEnabled && r%64 != 0 { // one goroutine: nothing to race with
				continue
			}
			want = [4]string{c, "a" + c + "\u0316\u0301", "\u00e9" + c, "\u00e1\u0316" + c + "\u0327"}
		}
		for i, in := range [4]string{c, "a" + c + "\u0316\u0301", "e\u0301" + c, "a\u0301\u0316" + c + "\u0327"} {
			if got = nfc.Append(got[:0], in, &b); string(got) != want[i] {
				t.Errorf("U+%04X, probe %d: Append(%+q) = %+q, want %+q", r, i, in, got, want[i])
			}
		}
	}
}

func unhex(t *testing.T, list string) string {
	t.Helper()
	var s strings.Builder
	for h := range strings.FieldsSeq(list) {
		v, err := strconv.ParseUint(h, 16, 32)
		if err != nil {
			t.Fatal(err)
		}
		s.WriteRune(rune(v))
	}
	return s.String()
}

func FuzzAppend(f *testing.F) {
	f.Add("e\u0301\u0316 \u1100\u1161 \u0958")
	f.Fuzz(func(t *testing.T, s string) {
		if !utf8.ValidString(s) {
			return
		}
		once := normalize(s)
		if twice := normalize(once); twice != once {
			t.Errorf("normalizing %+q twice gives %+q, once gives %+q", s, twice, once)
		}
		if n := nfc.Quick(s); n > len(once) || once[:n] != s[:n] {
			t.Errorf("Quick(%+q) = %d, but the normalized text is %+q", s, n, once)
		}
	})
}
