package main

import (
	"fmt"
	"reflect"
	"regexp"
)

// blank is a value that the file has as 0 or empty.
type blank struct {
	path   string
	says   string // "0" or "empty"
	number bool
	value  reflect.Value // which holds what stands for it, once the defaults are set
}

// blank keeps v, which was read from n, if it is one.
func (d *decoder) blank(path string, n *node, v reflect.Value) {
	if d.unread[path] || v.Kind() == reflect.Bool || !v.IsZero() && (v.Kind() != reflect.Slice || v.Len() > 0) {
		return
	}
	b := blank{path, "empty", v.CanInt() || v.CanFloat(), v}
	if b.number && n.kind == scalar {
		b.says = "0"
	}
	d.blanks = append(d.blanks, b)
}

// meanings tells what stands for a value that is 0 or empty, by its path
// without indices. A number that is not listed stands for its default, if it
// has one, and nothing is told of other fields.
var meanings = map[string]string{
	"admin":                        "that /metrics is on the public address",
	"tls.client_ca":                "that clients need no certificate",
	"pepper_env":                   "no pepper",
	"pools[].max_model_len":        "no limit but the engine's own",
	"pools[].max_tokens":           "no limit but max_model_len",
	"pools[].kv_tokens":            "no limit until a replica reports its own",
	"pools[].networks":             "every address that replicas may have",
	"pools[].slo.ttft":             "no objective",
	"pools[].slo.tpot":             "no objective",
	"pools[].replicas[].weight":    "1",
	"tenants[].keys[].expires":     "never",
	"tenants[].tier":               "",
	"tenants[].weight":             "1",
	"tenants[].models":             "all models",
	"tenants[].tokens_per_minute":  "no limit",
	"tenants[].tokens_per_day":     "no limit",
	"tenants[].concurrency":        "no limit",
	"tenants[].price.input":        "1",
	"tenants[].price.output":       "1",
	"tenants[].slo.ttft":           "the pool's",
	"tenants[].slo.tpot":           "the pool's",
	"tenants[].max_tokens":         "no limit but the pool's",
	"tenants[].default_max_tokens": "the pool's",
	"redis.db":                     "",
	"redis.share":                  "",
}

var indices = regexp.MustCompile(`\[\d+\]`)

// noteBlanks adds each blank that means something else than it seems to.
func noteBlanks(blanks []blank, notes *mistakes) {
	for _, b := range blanks {
		meaning, listed := meanings[indices.ReplaceAllString(b.path, "[]")]
		if !listed && b.number && !b.value.IsZero() {
			meaning = fmt.Sprint(b.value.Interface())
		}
		if meaning != "" {
			notes.add(b.path, "is %s, which means %s", b.says, meaning)
		}
	}
}
