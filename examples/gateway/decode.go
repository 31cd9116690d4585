package main

import (
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// decoder fills Go values from a node, and collects every mistake instead of
// stopping at the first. Fields are matched by their yaml tag, exactly.
type decoder struct {
	*mistakes
}

var (
	durationType = reflect.TypeFor[time.Duration]()
	timeType     = reflect.TypeFor[time.Time]()
)

func (d *decoder) value(path string, n *node, v reflect.Value) {
	d.lines[path] = n.line
	if n.kind == null {
		if v.Kind() == reflect.Bool {
			d.wrong(path, "expected true or false, found nothing")
		}
		d.blank(path, n, v)
		return // as if the field were absent
	}
	if s, ok := v.Addr().Interface().(short); ok && n.kind == scalar {
		s.fromText(n.text)
		d.words[path] = true
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == timeType {
			d.time(path, n, v)
			return
		}
		if d.want(path, n, mapping, v) {
			d.fields(path, n, v)
		}
	case reflect.Slice:
		if !d.want(path, n, list, v) {
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), len(n.list), len(n.list)))
		for i, item := range n.list {
			d.value(fmt.Sprintf("%s[%d]", path, i), item, v.Index(i))
		}
		d.blank(path, n, v)
	default:
		if d.want(path, n, scalar, v) {
			d.scalar(path, n, v)
			d.blank(path, n, v)
		}
	}
}

// wrong adds a value that is not of the right kind; nothing else is said of it.
func (d *decoder) wrong(path, format string, args ...any) {
	d.add(path, format, args...)
	d.unread[path] = true
}

// short is a type that may be written as one word instead of a map.
type short interface{ fromText(string) }

// want reports whether n is of the kind that v is read from, and says how to
// write one if not.
func (d *decoder) want(path string, n *node, k kind, v reflect.Value) bool {
	if n.kind == k {
		return true
	}
	hint := ""
	switch {
	case k == mapping:
		hint = "; its fields are " + strings.Join(fieldNames(v.Addr().Interface()), ", ")
	case k == list && n.kind == scalar:
		hint = fmt.Sprintf("; put it in brackets: %s: [...]", path[strings.LastIndexByte(path, '.')+1:])
	case k == list:
		hint = "; begin each item with a dash"
	}
	d.wrong(path, "expected %s, found %s%s", k, n.kind, hint)
	return false
}

func (d *decoder) fields(path string, n *node, v reflect.Value) {
	byName := make(map[string]reflect.Value, v.NumField())
	names := fieldNames(v.Addr().Interface())
	for i, name := range names {
		byName[name] = v.Field(i)
	}
	seen := make(map[string]int, len(n.fields))
	for _, f := range n.fields {
		at := join(path, f.name)
		d.lines[at] = f.line
		if before, dup := seen[f.name]; dup {
			d.add(at, "given twice, first on line %d", before)
			continue
		}
		seen[f.name] = f.line
		target, ok := byName[f.name]
		if !ok {
			d.add(at, "unknown field%s; expected one of %s", meant(f.name, names), strings.Join(names, ", "))
			continue
		}
		d.value(at, f.value, target)
	}
}

// fieldNames returns the names that the struct at p has in the file.
func fieldNames(p any) []string {
	t := reflect.TypeOf(p).Elem()
	names := make([]string, t.NumField())
	for i := range names {
		names[i] = t.Field(i).Tag.Get("yaml")
	}
	return names
}

func join(path, name string) string {
	if path == "" || name == "" {
		return path + name
	}
	return path + "." + name
}

func (d *decoder) scalar(path string, n *node, v reflect.Value) {
	if strings.HasPrefix(n.text, "-") {
		d.below[path] = n.text
	}
	var err error
	switch {
	case v.Type() == durationType:
		var x time.Duration
		if x, err = time.ParseDuration(n.text); err != nil {
			d.wrong(path, "expected %s, got %q", durationWanted(n.text), n.text)
		}
		v.SetInt(int64(x))
	case v.Kind() == reflect.String:
		v.SetString(n.text)
	case v.Kind() == reflect.Bool:
		if n.text != "true" && n.text != "false" {
			d.wrong(path, "expected true or false, got %q", n.text)
		}
		v.SetBool(n.text == "true")
	case v.CanInt():
		var x int64
		if x, err = strconv.ParseInt(strings.ReplaceAll(n.text, "_", ""), 10, 64); err != nil {
			d.wrong(path, "expected a whole number, got %q", n.text)
		}
		v.SetInt(x)
	case v.CanFloat():
		var x float64
		if x, err = strconv.ParseFloat(n.text, 64); err != nil || x != x {
			d.wrong(path, "expected a number, got %q", n.text)
			x = 0
		}
		v.SetFloat(x)
	}
}

func (d *decoder) time(path string, n *node, v reflect.Value) {
	t, err := time.Parse(time.RFC3339, n.text)
	if err != nil {
		if t, err = time.Parse(time.DateOnly, n.text); err != nil {
			d.wrong(path, "expected a time such as 2027-01-31 or 2027-01-31T12:00:00Z, got %q", n.text)
			return
		}
	}
	v.Set(reflect.ValueOf(t))
}

var digits = regexp.MustCompile("[0-9]+")

// durationWanted is what is expected instead of text, which is no duration, or
// one that is longer than a program can hold.
func durationWanted(text string) string {
	if _, err := time.ParseDuration(digits.ReplaceAllString(text, "1")); err == nil {
		return "a duration below 292 years"
	}
	return "a duration such as 500ms or 30s"
}
