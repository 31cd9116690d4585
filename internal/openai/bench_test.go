package openai_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/expediterhq/expediter/internal/openai"
)

// longChat is a chat request whose prompt is about n bytes long.
func longChat(n int) []byte {
	turn := `{"role":"user","content":"` + strings.Repeat(`The quick \"brown\" fox jumps over the lazy dog.\n`, 20) + `"}`
	msgs := strings.Repeat(turn+",", max(n/len(turn), 1))
	return []byte(`{"model":"acme-8b","stream":true,"temperature":0.7,"max_tokens":256,"messages":[` + strings.TrimSuffix(msgs, ",") + `]}`)
}

func BenchmarkParse(b *testing.B) {
	body := longChat(8 << 10)
	b.Run("scan", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := openai.Parse(body, openai.Chat, openai.Limits{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("encoding-json", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		b.ReportAllocs()
		for b.Loop() {
			var v struct {
				Model    string
				Stream   bool
				Messages []struct{ Role, Content string }
			}
			if err := json.Unmarshal(body, &v); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkRewrite(b *testing.B) {
	body := longChat(8 << 10)
	r, err := openai.Parse(body, openai.Chat, openai.Limits{})
	if err != nil {
		b.Fatal(err)
	}
	dst := make([]byte, 0, 2*len(body))
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		dst = r.Rewrite(dst[:0], openai.Edits{Model: "base", MaxTokens: 128, IncludeUsage: true})
	}
}
