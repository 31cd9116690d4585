package sim

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"reflect"
	"strconv"
	"strings"
)

// unmarshal reads a request body into b. Numbers and booleans may be strings, as
// vLLM's request schema allows: "8" is 8, and "yes" is true.
func unmarshal(data []byte, b *body) *apiError {
	fresh := *b
	for {
		err := json.Unmarshal(data, b)
		var wrong *json.UnmarshalTypeError
		switch {
		case err == nil:
			return nil
		case !errors.As(err, &wrong):
			return &apiError{http.StatusBadRequest, "Bad Request", "", "the body is not valid JSON: " + err.Error()}
		case wrong.Field == "":
			return badRequest("", "a field of the body has a value of the wrong type")
		}
		relaxed, ok := relax(data, strings.Split(wrong.Field, "."), wrong.Type.Kind())
		if !ok || bytes.Equal(relaxed, data) {
			return badRequest(wrong.Field, "%s: want %s, got %s", wrong.Field, wanted(wrong.Type.Kind()), wrong.Value)
		}
		data, *b = relaxed, fresh
	}
}

// relax returns the object data with the value at path as a literal of the
// kind, if that is what it means.
func relax(data []byte, path []string, kind reflect.Kind) ([]byte, bool) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(data, &fields) != nil || fields[path[0]] == nil {
		return nil, false
	}
	value, ok := literal(fields[path[0]], kind)
	if len(path) > 1 {
		value, ok = relax(fields[path[0]], path[1:], kind)
	}
	if !ok {
		return nil, false
	}
	fields[path[0]] = value
	out, err := json.Marshal(fields)
	return out, err == nil
}

// literal returns what a string or a number means as a boolean or an integer.
func literal(value []byte, kind reflect.Kind) ([]byte, bool) {
	text := string(value)
	if json.Unmarshal(value, &text) == nil {
		text = strings.TrimSpace(text)
	}
	switch kind {
	case reflect.Bool:
		switch strings.ToLower(text) {
		case "true", "t", "yes", "y", "on", "1", "1.0":
			return []byte("true"), true
		case "false", "f", "no", "n", "off", "0", "0.0":
			return []byte("false"), true
		}
	case reflect.Int, reflect.Int64:
		f, err := strconv.ParseFloat(text, 64)
		if err == nil && !strings.ContainsAny(text, "xX") && f == math.Trunc(f) && math.Abs(f) <= min(math.MaxInt, 1<<53) {
			return strconv.AppendInt(nil, int64(f), 10), true
		}
	}
	return nil, false
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
