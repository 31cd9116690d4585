package main

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

type nfcData struct {
	CCC  map[string]byte  `json:"ccc"`
	Dec  map[string][]int `json:"dec"`
	Comp [][3]int         `json:"comp"`
}

func nfcTables(name string) ([]byte, error) {
	var d nfcData
	if err := readJSON(name, &d); err != nil {
		return nil, err
	}
	ccc, err := byRune(d.CCC)
	if err != nil {
		return nil, err
	}
	dec, err := byRune(d.Dec)
	if err != nil {
		return nil, err
	}
	var w bytes.Buffer
	fmt.Fprintf(&w, header, "9.0", "nfc")
	index, blocks := twoStage(unsafeBits(ccc, dec, d.Comp), 32)
	fmt.Fprint(&w, "// unsafeIndex maps a code point's upper bits to a block of unsafeBlocks.\n")
	writeBytes(&w, "unsafeIndex", index)
	fmt.Fprint(&w, "// unsafeBlocks has a bit per code point that normalization may change.\n")
	writeBytes(&w, "unsafeBlocks", bytes.Join(blocks, nil))
	writeClasses(&w, ccc)
	writeDecompositions(&w, dec)
	writeCompositions(&w, d.Comp)
	return w.Bytes(), nil
}

func byRune[V any](in map[string]V) (map[int]V, error) {
	out := make(map[int]V, len(in))
	for k, v := range in {
		c, err := strconv.Atoi(k)
		if err != nil {
			return nil, fmt.Errorf("unicodegen: code point %q: %w", k, err)
		}
		out[c] = v
	}
	return out, nil
}

// unsafeBits marks the code points that are not certain to stay as they are,
// whatever surrounds them, or that may change what stands before them.
func unsafeBits(ccc map[int]byte, dec map[int][]int, comp [][3]int) []byte {
	second := map[int]bool{}
	composed := map[[2]int]int{}
	for _, c := range comp {
		second[c[1]] = true
		composed[[2]int{c[0], c[1]}] = c[2]
	}
	for c := 0x1161; c <= 0x1175; c++ {
		second[c] = true
	}
	for c := 0x11A8; c <= 0x11C2; c++ {
		second[c] = true
	}
	bits := make([]byte, (maxRune+1)/8)
	for c := range maxRune + 1 {
		unsafe := ccc[c] != 0 || second[c]
		if d, ok := dec[c]; ok {
			unsafe = unsafe || ccc[d[0]] != 0 || second[d[0]] || recompose(d, composed) != c
		}
		if unsafe {
			bits[c/8] |= 1 << (c % 8)
		}
	}
	return bits
}

// recompose composes a decomposition from left to right and returns the
// single code point it gives, or -1.
func recompose(d []int, composed map[[2]int]int) int {
	c := d[0]
	for _, next := range d[1:] {
		to, ok := composed[[2]int{c, next}]
		if !ok {
			return -1
		}
		c = to
	}
	return c
}

func writeClasses(w *bytes.Buffer, ccc map[int]byte) {
	fmt.Fprint(w, "// classRanges holds the runs of equal, non-zero canonical combining class.\n")
	fmt.Fprint(w, "var classRanges = [...]classRange{\n")
	keys := slices.Sorted(maps.Keys(ccc))
	for i := 0; i < len(keys); {
		j := i + 1
		for j < len(keys) && keys[j] == keys[j-1]+1 && ccc[keys[j]] == ccc[keys[i]] {
			j++
		}
		fmt.Fprintf(w, "\t{0x%04X, 0x%04X, %d},\n", keys[i], keys[j-1], ccc[keys[i]])
		i = j
	}
	fmt.Fprint(w, "}\n\n")
}

func writeDecompositions(w *bytes.Buffer, dec map[int][]int) {
	fmt.Fprint(w, "// decompositions holds full canonical decompositions, sorted by code point.\n")
	fmt.Fprint(w, "var decompositions = [...]decomposition{\n")
	for _, c := range slices.Sorted(maps.Keys(dec)) {
		fmt.Fprintf(w, "\t{0x%04X, %+q},\n", c, runes(dec[c]))
	}
	fmt.Fprint(w, "}\n\n")
}

func writeCompositions(w *bytes.Buffer, comp [][3]int) {
	comp = slices.Clone(comp)
	slices.SortFunc(comp, func(a, b [3]int) int {
		return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]))
	})
	fmt.Fprint(w, "// compositions holds the primary composites, sorted by their two parts.\n")
	fmt.Fprint(w, "var compositions = [...]composition{\n")
	for _, c := range comp {
		fmt.Fprintf(w, "\t{0x%04X, 0x%04X, 0x%04X},\n", c[0], c[1], c[2])
	}
	fmt.Fprint(w, "}\n")
}

func runes(d []int) string {
	var s []rune
	for _, c := range d {
		s = append(s, rune(c))
	}
	return string(s)
}
