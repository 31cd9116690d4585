package main

import (
	"bytes"
	"go/format"
	"os"
	"testing"
)

func TestTablesAreUpToDate(t *testing.T) {
	tests := []struct {
		name, table string
		generate    func(string) ([]byte, error)
	}{
		{"testdata/classes.json", "../class/tables.go", classTables},
		{"testdata/nfc9.json", "../nfc/tables.go", nfcTables},
	}
	for _, tt := range tests {
		src, err := tt.generate(tt.name)
		if err != nil {
			t.Fatal(err)
		}
		if src, err = format.Source(src); err != nil {
			t.Fatal(err)
		}
		committed, err := os.ReadFile(tt.table)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(src, committed) {
			t.Errorf("%s is not what go generate makes of %s", tt.table, tt.name)
		}
	}
}
