package sim

import (
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// unmarshal reads a request body into b as vLLM's request schema does: fields
// have exactly their names, and where a number or a boolean is wanted a string
// or the other may stand for it.
func unmarshal(data []byte, b *body) *apiError {
	var fields map[string]json.RawMessage
	var wrong *json.UnmarshalTypeError
	switch err := json.Unmarshal(data, &fields); {
	case errors.As(err, &wrong):
		return badRequest("", "a field of the body has a value of the wrong type")
	case err != nil:
		return &apiError{http.StatusBadRequest, "Bad Request", "", "the body is not valid JSON: " + err.Error()}
	}
	return readFields(reflect.ValueOf(b).Elem(), fields, "")
}

// readFields sets the fields of v, whose names begin with path.
func readFields(v reflect.Value, fields map[string]json.RawMessage, path string) *apiError {
	for field, at := range v.Fields() {
		name := field.Tag.Get("json")
		if raw := fields[name]; name != "" && raw != nil {
			if err := readValue(at, raw, path+name); err != nil {
				return err
			}
		}
	}
	return nil
}

// readValue sets v, which is called path.
func readValue(v reflect.Value, raw json.RawMessage, path string) *apiError {
	if v.Type() == reflect.TypeFor[json.RawMessage]() {
		v.SetBytes(raw)
		return nil
	}
	if string(raw) == "null" {
		return nil
	}
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	kind, ok := v.Kind(), false
	switch kind {
	case reflect.Struct:
		var fields map[string]json.RawMessage
		if json.Unmarshal(raw, &fields) == nil {
			return readFields(v, fields, path+".")
		}
	case reflect.Bool:
		var is bool
		if is, ok = boolean(raw); ok {
			v.SetBool(is)
		}
	case reflect.Int, reflect.Int64:
		var n int64
		if n, ok = integer(raw); ok && !v.OverflowInt(n) {
			v.SetInt(n)
			return nil
		}
		ok = false
	default:
		err := json.Unmarshal(raw, v.Addr().Interface())
		var wrong *json.UnmarshalTypeError
		if ok = err == nil; errors.As(err, &wrong) {
			return mismatch(path, wrong.Type.Kind(), wrong.Value)
		}
	}
	if ok {
		return nil
	}
	return mismatch(path, kind, shape(raw, kind))
}

func mismatch(path string, kind reflect.Kind, got string) *apiError {
	return badRequest(path, "%s: want %s, got %s", path, wanted(kind), got)
}

// boolean returns what raw means as a boolean. Words have no space around them.
func boolean(raw json.RawMessage) (is, ok bool) {
	var word string
	if json.Unmarshal(raw, &word) != nil {
		if json.Unmarshal(raw, &is) == nil {
			return is, true
		}
		f, err := strconv.ParseFloat(string(raw), 64)
		return f == 1, err == nil && (f == 0 || f == 1)
	}
	switch strings.ToLower(word) {
	case "true", "t", "yes", "y", "on", "1":
		return true, true
	case "false", "f", "no", "n", "off", "0":
		return false, true
	}
	return false, false
}

// integer returns what raw means as a whole number.
func integer(raw json.RawMessage) (n int64, ok bool) {
	var text string
	var is bool
	switch {
	case json.Unmarshal(raw, &text) == nil:
		return spelled(text)
	case json.Unmarshal(raw, &is) == nil:
		if is {
			n = 1
		}
		return n, true
	}
	if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		return n, true
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	whole := strings.ContainsAny(string(raw), ".eE") && f == math.Trunc(f) && math.Abs(f) < 1<<63
	if err != nil || !whole {
		return 0, false
	}
	return int64(f), true
}

// spelled returns the whole number that text is: digits with single underscores
// between them, perhaps a sign before them and zeros behind a point, and space
// around all.
func spelled(text string) (n int64, ok bool) {
	text = strings.TrimSpace(text)
	digits, zeros, point := strings.Cut(text, ".")
	if point && (zeros == "" || strings.Trim(zeros, "0") != "") {
		return 0, false
	}
	unsigned := strings.TrimLeft(digits, "+-")
	if len(digits)-len(unsigned) > 1 || slices.Contains(strings.Split(unsigned, "_"), "") {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.ReplaceAll(digits, "_", ""), 10, 64)
	return n, err == nil
}

// shape is what raw is, and which number if one of that kind is wanted.
func shape(raw json.RawMessage, kind reflect.Kind) string {
	switch raw[0] {
	case '"':
		return "string"
	case '[':
		return "array"
	case '{':
		return "object"
	case 't', 'f':
		return "bool"
	}
	if kind == reflect.Int || kind == reflect.Int64 {
		return "number " + string(raw)
	}
	return "number"
}

func wanted(kind reflect.Kind) string {
	switch kind {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Struct:
		return "an object"
	case reflect.Slice:
		return "a list"
	}
	return "a " + kind.String()
}
