// Package demo holds a small tokenizer with a chat template, for
// demonstrations and simulated replicas: byte-level BPE with about 6,000
// tokens, trained on English documentation and Go source. No real model uses
// it.
//
// The training text is the documentation and source of the Go project,
// Copyright The Go Authors, under a BSD-style licence; see LICENSE-GO.txt in
// this folder. The trainer is tokenize/internal/demotrain.
package demo

import "embed"

// Files is the tokenizer as a model folder, in the form tokenize.Load reads.
//
//go:embed tokenizer.json.gz tokenizer_config.json chat_template.jinja LICENSE-GO.txt
var Files embed.FS
