package sse_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/expediterhq/expediter/sse"
)

// got is an event copied out of the Scanner's memory.
type got struct {
	raw, data, typ, id string
	comment            bool
}

// scan returns all events of r and the error that ended them.
func scan(r io.Reader, cfg sse.ScannerConfig) ([]got, error) {
	s := sse.NewScanner(r, cfg)
	var all []got
	for {
		ev, err := s.Next()
		if err != nil {
			return all, err
		}
		all = append(all, got{string(ev.Raw), string(ev.Data), ev.Type, string(ev.ID), ev.Comment})
	}
}

func TestScanner(t *testing.T) {
	tests := []struct {
		name string
		in   string
		want []got
		err  error
	}{
		{"empty", "", nil, io.EOF},
		{"one", "data: x\n\n", []got{{raw: "data: x\n\n", data: "x"}}, io.EOF},
		{"two", "data: x\n\ndata: y\n\n", []got{{raw: "data: x\n\n", data: "x"}, {raw: "data: y\n\n", data: "y"}}, io.EOF},
		{"cr", "data: x\r\rdata: y\r\r", []got{{raw: "data: x\r\r", data: "x"}, {raw: "data: y\r\r", data: "y"}}, io.EOF},
		{"truncated", "data: x\n\ndata: y\n", []got{{raw: "data: x\n\n", data: "x"}}, sse.ErrTruncated},
		{"comment at end", "data: x\n\n: y\n", []got{{raw: "data: x\n\n", data: "x"}}, io.EOF},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, r := range []io.Reader{
				strings.NewReader(tt.in),
				iotest.OneByteReader(strings.NewReader(tt.in)),
				iotest.DataErrReader(strings.NewReader(tt.in)),
			} {
				all, err := scan(r, sse.ScannerConfig{})
				if !errors.Is(err, tt.err) {
					t.Errorf("error = %v, want %v", err, tt.err)
				}
				if len(all) != len(tt.want) {
					t.Fatalf("%d events, want %d: %+v", len(all), len(tt.want), all)
				}
				for i, ev := range all {
					if ev != tt.want[i] {
						t.Errorf("event %d = %+v, want %+v", i, ev, tt.want[i])
					}
				}
			}
		})
	}
}

func TestScannerSeeds(t *testing.T) {
	for i, s := range streamSeeds {
		for _, slice := range []int{1, 2, 3, 7, 1000} {
			checkStream(t, s, slice, uint64(i))
		}
	}
}
