package main

import (
	"bytes"
	"fmt"
)

// classNames lists the categories in the order of package class's bits.
var classNames = []string{"Lu", "Lt", "Lm", "Lo", "Ll", "M", "N", "P", "S", "space"}

func classTables(name string) ([]byte, error) {
	var ranges map[string][][2]int
	if err := readJSON(name, &ranges); err != nil {
		return nil, err
	}
	codes := make([]byte, maxRune+1)
	for i, class := range classNames {
		if len(ranges[class]) == 0 {
			return nil, fmt.Errorf("unicodegen: %s has no class %q", name, class)
		}
		for _, r := range ranges[class] {
			for c := r[0]; c <= r[1]; c++ {
				if codes[c] != 0 {
					return nil, fmt.Errorf("unicodegen: U+%04X is in %s and %s", c, classNames[codes[c]-1], class)
				}
				codes[c] = byte(i + 1)
			}
		}
	}
	if err := checkLetters(ranges["L"], codes); err != nil {
		return nil, err
	}
	index, blocks := twoStage(codes, 256)
	var w bytes.Buffer
	fmt.Fprintf(&w, header, "16.0", "class")
	fmt.Fprint(&w, "// index maps a code point's upper bits to a block of blocks.\n")
	writeBytes(&w, "index", index)
	fmt.Fprint(&w, "// blocks holds, per code point, one plus the number of its class.\n")
	writeBytes(&w, "blocks", bytes.Join(blocks, nil))
	return w.Bytes(), nil
}

// checkLetters makes sure that L is the union of the five letter classes.
func checkLetters(letters [][2]int, codes []byte) error {
	isLetter := make([]bool, maxRune+1)
	for _, r := range letters {
		for c := r[0]; c <= r[1]; c++ {
			isLetter[c] = true
		}
	}
	for c, code := range codes {
		if isLetter[c] != (code >= 1 && code <= 5) {
			return fmt.Errorf("unicodegen: U+%04X: class L is not the union of its parts", c)
		}
	}
	return nil
}
