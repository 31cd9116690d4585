// Command demotrain trains the small byte-level tokenizer of package demo on
// the documentation and sources of a Go installation.
//
//	go run ./tokenize/internal/demotrain -out tokenize/demo
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/expediterhq/expediter/tokenize/internal/scan"
)

// special lists the added tokens, which take the ids after the vocabulary's.
var special = []string{"<|endoftext|>", "<|im_start|>", "<|im_end|>"}

func main() {
	log.SetFlags(0)
	size := flag.Int("size", 6144, "number of tokens, special ones included")
	out := flag.String("out", "tokenize/demo", "folder to write tokenizer.json.gz to")
	flag.Parse()
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		log.Fatal(err)
	}
	words, err := corpus(strings.TrimSpace(string(goroot)))
	if err != nil {
		log.Fatal(err)
	}
	m := train(words, *size-len(special))
	packed, err := pack(m.file())
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(*out, "tokenizer.json.gz"), packed, 0o644); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d words, %d merges, %d bytes\n", len(words), len(m.merges), len(packed))
}

// corpus counts the words of the Go project's own documents and of the
// sources whose comments are mostly prose.
func corpus(goroot string) (map[string]int, error) {
	scanner, err := scan.For(scan.Llama3)
	if err != nil {
		return nil, err
	}
	words := map[string]int{}
	err = filepath.WalkDir(goroot, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(goroot, path)
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "vendor" || d.Name() == "testdata") {
			return fs.SkipDir
		}
		if d.IsDir() || !wanted(filepath.ToSlash(rel)) {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil || !utf8.Valid(text) {
			return err
		}
		return count(words, scanner, string(text))
	})
	return words, err
}

func wanted(rel string) bool {
	dir, name := filepath.Split(rel)
	switch {
	case strings.HasSuffix(name, "_test.go"):
		return false
	case name == "doc.go":
		return true
	case dir == "doc/":
		return strings.HasSuffix(name, ".html") || strings.HasSuffix(name, ".md")
	}
	return strings.HasSuffix(name, ".go") &&
		(dir == "src/net/http/" || dir == "src/encoding/json/" || dir == "src/context/" || dir == "src/strings/")
}

func count(words map[string]int, scanner scan.Scanner, text string) error {
	for i := 0; i < len(text); {
		start, end, err := scanner.Next(text, i, nil)
		if err != nil {
			return err
		}
		words[text[start:end]]++
		i = end
	}
	return nil
}

// file is the tokenizer as tokenizer.json has it.
func (m *trained) file() map[string]any {
	var added []map[string]any
	for i, content := range special {
		added = append(added, map[string]any{
			"id": len(m.tokens) + i, "content": content, "single_word": false, "lstrip": false,
			"rstrip": false, "normalized": false, "special": true,
		})
	}
	level := map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}
	split := map[string]any{"type": "Split", "behavior": "Isolated", "invert": false, "pattern": map[string]string{"Regex": scan.Llama3}}
	vocab := map[string]int{}
	for id, token := range m.tokens {
		vocab[visible(token)] = id
	}
	merges := [][2]string{}
	for _, p := range m.merges {
		merges = append(merges, [2]string{visible(m.tokens[p.left]), visible(m.tokens[p.right])})
	}
	return map[string]any{
		"version": "1.0", "truncation": nil, "padding": nil, "added_tokens": added, "normalizer": nil,
		"pre_tokenizer":  map[string]any{"type": "Sequence", "pretokenizers": []any{split, level}},
		"post_processor": level, "decoder": level,
		"model": map[string]any{
			"type": "BPE", "dropout": nil, "unk_token": nil, "continuing_subword_prefix": nil,
			"end_of_word_suffix": nil, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
			"vocab": vocab, "merges": merges,
		},
	}
}

// visible writes bytes in the alphabet of byte-level vocabularies.
func visible(token string) string {
	var s strings.Builder
	for i := range len(token) {
		s.WriteRune(visibleByte(token[i]))
	}
	return s.String()
}

func visibleByte(b byte) rune {
	printable := func(b int) bool { return b >= '!' && b <= '~' || b >= 0xA1 && b <= 0xAC || b >= 0xAE }
	if printable(int(b)) {
		return rune(b)
	}
	r := rune(0x100)
	for c := range int(b) {
		if !printable(c) {
			r++
		}
	}
	return r
}

func pack(file map[string]any) ([]byte, error) {
	var buf bytes.Buffer
	zw, err := gzip.NewWriterLevel(&buf, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	enc := json.NewEncoder(zw)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(file); err != nil {
		return nil, err
	}
	err = zw.Close()
	return buf.Bytes(), err
}

// sortedWords returns the words in a fixed order.
func sortedWords(words map[string]int) []string {
	list := make([]string, 0, len(words))
	for w := range words {
		list = append(list, w)
	}
	slices.Sort(list)
	return list
}
