package h1

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http/httputil"
	"strings"
	"testing"
)

// decodeSliced decodes body in pieces of the sizes that next gives.
func decodeSliced(body []byte, next func() int) (data []byte, used int, ended bool, err error) {
	var c chunks
	for used < len(body) && !c.ended() {
		piece := bytes.Clone(body[used:min(len(body), used+next())])
		n, took, err := c.decode(piece)
		data = append(data, piece[:n]...)
		used += took
		if err != nil {
			return data, used, false, err
		}
		if took < len(piece) && !c.ended() {
			return data, used, false, errors.New("decode left bytes without being at the end")
		}
	}
	return data, used, c.ended(), nil
}

func TestChunks(t *testing.T) {
	for _, tt := range []struct {
		name, body, data, rest string
		ended                  bool
		err                    error
	}{
		{"two chunks", "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", "abcde", "", true, nil},
		{"upper and lower case", "A\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n", "01234567890123456789", "", true, nil},
		{"leading zeros", "0003\r\nabc\r\n000\r\n\r\n", "abc", "", true, nil},
		{"extension", "3;a=b;c=\"d\"\r\nabc\r\n0;x\r\n\r\n", "abc", "", true, nil},
		{"spaces after the size", "3  \r\nabc\r\n0\t\r\n\r\n", "abc", "", true, nil},
		{"trailers", "3\r\nabc\r\n0\r\nA: b\r\nC: d\r\n\r\n", "abc", "", true, nil},
		{"bytes after the end", "1\r\na\r\n0\r\n\r\nHTTP/1.1", "a", "HTTP/1.1", true, nil},
		{"framing inside data", "7\r\n\r\n0\r\n\r\n\r\n0\r\n\r\n", "\r\n0\r\n\r\n", "", true, nil},
		{"cut in data", "5\r\nab", "ab", "", false, nil},
		{"cut in size", "5", "", "", false, nil},
		{"no digits", "\r\nabc", "", "", false, ErrFraming},
		{"extension without size", ";x\r\n", "", "", false, ErrFraming},
		{"sign", "+3\r\nabc", "", "", false, ErrFraming},
		{"prefix", "0x3\r\nabc", "", "", false, ErrFraming},
		{"control byte that looks like a digit", "\x13\r\nabc", "", "", false, ErrFraming},
		{"digits after a space", "3 0\r\nabc", "", "", false, ErrFraming},
		{"extension after a space", "3 ;x\r\nabc", "", "", false, ErrFraming},
		{"bare LF after the size", "3\nabc", "", "", false, ErrFraming},
		{"bare CR after the size", "3\rabc", "", "", false, ErrFraming},
		{"LF in an extension", "3;a\nb\r\nabc", "", "", false, ErrFraming},
		{"no CR after data", "3\r\nabcd", "abc", "", false, ErrFraming},
		{"no LF after data", "3\r\nabc\rd", "abc", "", false, ErrFraming},
		{"no LF at the end", "0\r\n\rx", "", "", false, ErrFraming},
		{"largest size", "7ffffffffffffff\r\nab", "ab", "", false, nil},
		{"size too long", "0000000000000003\r\nabc", "", "", false, ErrFraming},
		{"line too long", "3;" + strings.Repeat("x", maxLine) + "\r\nabc", "", "", false, errChunkLine},
		{"trailers too long", "0\r\n" + strings.Repeat("A: b\r\n", maxLine/5+1), "", "", false, errChunkLine},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, size := range []int{1, 2, 3, 7, len(tt.body)} {
				data, used, ended, err := decodeSliced([]byte(tt.body), func() int { return size })
				if string(data) != tt.data || ended != tt.ended || err != tt.err {
					t.Errorf("in pieces of %d: %q, ended %v, %v; want %q, %v, %v", size, data, ended, err, tt.data, tt.ended, tt.err)
				}
				if err == nil && tt.body[used:] != tt.rest {
					t.Errorf("in pieces of %d: %q left, want %q", size, tt.body[used:], tt.rest)
				}
			}
		})
	}
}

// FuzzChunks: any slicing gives the same, and what is taken for a whole body
// is the body that net/http reads.
func FuzzChunks(f *testing.F) {
	f.Add([]byte("3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nA: b\r\n\r\nrest"), uint64(1))
	f.Add([]byte("7\r\n\r\n0\r\n\r\n\r\n0\r\n\r\n"), uint64(2))
	f.Add([]byte("fffffffffffffff\r\n"), uint64(3))
	f.Fuzz(func(t *testing.T, body []byte, seed uint64) {
		data, used, ended, err := decodeSliced(body, func() int { return max(len(body), 1) })
		rnd := rand.New(rand.NewPCG(seed, 0))
		data2, used2, ended2, err2 := decodeSliced(body, func() int { return 1 + rnd.IntN(9) })
		if !bytes.Equal(data, data2) || used != used2 || ended != ended2 || err != err2 {
			t.Fatalf("whole: %q, %d, %v, %v; sliced: %q, %d, %v, %v", data, used, ended, err, data2, used2, ended2, err2)
		}
		if !ended {
			return
		}
		want, err := io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(body)))
		if err != nil || !bytes.Equal(data, want) {
			t.Fatalf("%q, and net/http reads %q, %v", data, want, err)
		}
	})
}

// TestChunksOfAnySize writes bodies as net/http does and reads them back.
func TestChunksOfAnySize(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 7))
	for range 300 {
		var wire bytes.Buffer
		var want []byte
		for range rnd.IntN(6) {
			p := make([]byte, 1+rnd.IntN(600))
			for i := range p {
				p[i] = "\r\n0ab"[rnd.IntN(5)]
			}
			want = append(want, p...)
			fmt.Fprintf(&wire, "%x\r\n%s\r\n", len(p), p)
		}
		wire.WriteString("0\r\n\r\n")
		data, used, ended, err := decodeSliced(wire.Bytes(), func() int { return 1 + rnd.IntN(700) })
		if !bytes.Equal(data, want) || used != wire.Len() || !ended || err != nil {
			t.Fatalf("%q: %q, %d, %v, %v; want %q", wire.Bytes(), data, used, ended, err, want)
		}
	}
}
