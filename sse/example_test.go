package sse_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/expediterhq/expediter/sse"
)

func ExampleScanner() {
	s := sse.NewScanner(strings.NewReader("data: one\n\n: ping\n\nevent: last\r\ndata: two\r\ndata: lines\r\n\r\n"), sse.ScannerConfig{})
	for {
		ev, err := s.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		if !ev.Empty() {
			fmt.Printf("%q %q\n", ev.Type, ev.Data)
		}
	}
	// Output:
	// "" "one"
	// "last" "two\nlines"
}

func ExampleRelay() {
	upstream := strings.NewReader("data: Hello\n\ndata: secret\n\ndata: [DONE]\n\n")
	relay := &sse.Relay{Observe: func(ev sse.Event) []byte {
		if string(ev.Data) == "secret" {
			return nil
		}
		return ev.Raw
	}}
	handler := func(w http.ResponseWriter, r *http.Request) {
		out, err := sse.NewWriter(w, sse.WriterConfig{})
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		defer out.Close()
		sse.SetHeader(w.Header())
		if err := relay.Copy(out, upstream); errors.Is(err, sse.ErrCannotAbort) {
			panic(http.ErrAbortHandler)
		}
	}
	rec := httptest.NewRecorder()
	handler(rec, httptest.NewRequest(http.MethodGet, "/", nil))
	fmt.Print(rec.Body)
	// Output:
	// data: Hello
	//
	// data: [DONE]
}

func ExampleWriter() {
	handler := func(w http.ResponseWriter, r *http.Request) {
		out, err := sse.NewWriter(w, sse.WriterConfig{})
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		defer out.Close()
		sse.SetHeader(w.Header())
		for i := range 2 {
			if _, err := fmt.Fprintf(out, "data: %d\n\n", i); err != nil {
				return // the client is gone, or has stopped reading
			}
			if err := out.Flush(); err != nil {
				return
			}
		}
	}
	rec := httptest.NewRecorder()
	handler(rec, httptest.NewRequest(http.MethodGet, "/", nil))
	fmt.Print(rec.Body)
	// Output:
	// data: 0
	//
	// data: 1
}
