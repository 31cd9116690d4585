package jinja

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

func (st *state) clock() time.Time {
	if st.now.IsZero() {
		st.now = time.Now() // one render sees one time
	}
	return st.now
}

// layouts are the strftime directives that are a Go layout.
var layouts = map[byte]string{
	'a': "Mon", 'A': "Monday", 'b': "Jan", 'h': "Jan", 'B': "January", 'd': "02", 'm': "01", 'y': "06",
	'H': "15", 'I': "03", 'M': "04", 'S': "05", 'p': "PM", 'c': "Mon Jan _2 15:04:05 2006",
	'x': "01/02/06", 'X': "15:04:05", 'D': "01/02/06", 'T': "15:04:05", 'R': "15:04", 'F': "2006-01-02",
	'r': "03:04:05 PM", 'e': "_2", 'j': "002", 'f': "000000",
}

// strftime formats t as Python's datetime.strftime does in the C locale. An
// unknown directive stays as it is.
func strftime(t time.Time, format string) string {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		c := format[i]
		if c != '%' || i+1 == len(format) {
			b.WriteByte(c)
			continue
		}
		i++
		plain := format[i] == '-' && i+1 < len(format) // no padding
		if plain {
			i++
		}
		s, ok := directive(t, format[i])
		switch {
		case !ok:
			b.WriteString(format[i-1 : i+1])
			continue
		case plain:
			if s = strings.TrimLeft(s, "0 "); s == "" {
				s = "0"
			}
		}
		b.WriteString(s)
	}
	return b.String()
}

func directive(t time.Time, c byte) (string, bool) {
	if l, ok := layouts[c]; ok {
		if c == 'f' {
			return fmt.Sprintf("%06d", t.Nanosecond()/1000), true
		}
		return t.Format(l), true
	}
	year, week := t.ISOWeek()
	monday := (int(t.Weekday()) + 6) % 7
	switch c {
	case 'Y':
		return strconv.Itoa(t.Year()), true
	case 'C':
		return fmt.Sprintf("%02d", t.Year()/100), true
	case 'G':
		return fmt.Sprint(year), true
	case 'V':
		return fmt.Sprintf("%02d", week), true
	case 'u':
		return fmt.Sprint(monday + 1), true
	case 'w':
		return fmt.Sprint(int(t.Weekday())), true
	case 'U':
		return fmt.Sprintf("%02d", (t.YearDay()+6-int(t.Weekday()))/7), true
	case 'W':
		return fmt.Sprintf("%02d", (t.YearDay()+6-monday)/7), true
	case 'k':
		return fmt.Sprintf("%2d", t.Hour()), true
	case 'l':
		return fmt.Sprintf("%2d", (t.Hour()+11)%12+1), true
	case 's':
		return fmt.Sprint(t.Unix()), true
	case 'n':
		return "\n", true
	case 't':
		return "\t", true
	case '%':
		return "%", true
	case 'z', 'Z': // the clock of a template has no zone
		return "", true
	}
	return "", false
}
