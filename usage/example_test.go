package usage_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/expediterhq/expediter"
	"github.com/expediterhq/expediter/usage"
)

func ExampleFile() {
	dir, err := os.MkdirTemp("", "usage")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "usage.jsonl")
	f, err := usage.NewFile(usage.FileConfig{Path: path})
	if err != nil {
		panic(err)
	}
	f.Write(&expediter.Record{ID: "req-1", Tenant: "acme", Input: 1800, Output: 50})
	if err := f.Close(context.Background()); err != nil {
		panic(err)
	}

	r, err := os.Open(path)
	if err != nil {
		panic(err)
	}
	defer r.Close()
	scanned, err := usage.Scan(r, func(rec expediter.Record) error {
		fmt.Println(rec.Tenant, rec.Input+rec.Output)
		return nil
	})
	fmt.Println(scanned.Records, scanned.Torn, err)
	// Output:
	// acme 1850
	// 1 0 <nil>
}

func ExampleScan() {
	file := `{"id":"req-1","tenant":"acme","charged":110}
{"id":"req-2","tenant":"acme","char`
	var charged int64
	scanned, err := usage.Scan(strings.NewReader(file), func(r expediter.Record) error {
		charged += r.Charged
		return nil
	})
	fmt.Println(charged, scanned.Torn, err)
	// Output: 110 1 <nil>
}

func ExampleFunc() {
	billing := usage.NewFunc(func(ctx context.Context, r *expediter.Record) error {
		fmt.Println("billing", r.ID)
		return nil
	}, usage.FuncConfig{Buffer: 1000})
	billing.Write(&expediter.Record{ID: "req-1"})
	fmt.Println(billing.Close(context.Background()))
	// Output:
	// billing req-1
	// <nil>
}

// printer is a sink without a buffer.
type printer string

func (p printer) Write(r *expediter.Record) { fmt.Println(p, r.ID) }

func ExampleMulti() {
	m := usage.NewMulti(printer("first"), printer("second"))
	m.Write(&expediter.Record{ID: "req-1"})
	// Output:
	// first req-1
	// second req-1
}
