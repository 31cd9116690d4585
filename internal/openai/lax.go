package openai

import (
	"bytes"
	"math"
	"strconv"
	"strings"
)

// maxLaxText bounds the text read as a number. Longer texts that the engine
// would still read (hundreds of leading zeros) are refused.
const maxLaxText = 64

// laxFloat reads a number literal as the engine turns a float into an int:
// after rounding to float64 it must be finite, whole and within 64 bits.
func laxFloat(lit []byte) (int64, bool) {
	f, err := strconv.ParseFloat(string(lit), 64)
	if err != nil || f != math.Trunc(f) || f >= 1<<63 || f < -1<<63 {
		return 0, false
	}
	return int64(f), true
}

// laxText reads the text of a string as pydantic reads an int from it.
func laxText(text []byte) (int64, bool) {
	t := bytes.TrimSpace(text)
	if len(t) > maxLaxText {
		return 0, false
	}
	neg := false
	if len(t) > 0 && (t[0] == '+' || t[0] == '-') {
		neg = t[0] == '-'
		t = t[1:]
	}
	if whole, zeros, ok := bytes.Cut(t, []byte(".")); ok {
		if len(zeros) == 0 || len(bytes.Trim(zeros, "0")) > 0 {
			return 0, false
		}
		t = whole
	}
	digits := make([]byte, 0, maxLaxText)
	if neg {
		digits = append(digits, '-')
	}
	for i, c := range t {
		switch {
		case c >= '0' && c <= '9':
			digits = append(digits, c)
		case c != '_' || i == 0 || i == len(t)-1 || t[i-1] == '_':
			return 0, false
		}
	}
	n, err := strconv.ParseInt(string(digits), 10, 64)
	return n, err == nil
}

// laxWord reads the text of a string as pydantic reads a bool from it.
func laxWord(text []byte) (value, ok bool) {
	if len(text) > len("false") {
		return false, false
	}
	for _, c := range text {
		if c >= 0x80 { // ToLower would fold the Kelvin sign
			return false, false
		}
	}
	switch strings.ToLower(string(text)) {
	case "true", "t", "yes", "y", "on", "1":
		return true, true
	case "false", "f", "no", "n", "off", "0":
		return false, true
	}
	return false, false
}
