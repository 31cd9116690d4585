package main

import (
	"fmt"
	"strings"
)

// mostSlips is how many letters of a name may be wrong, missing or too many for
// it to be taken for another.
const mostSlips = 2

// meant returns a question for the name that is nearest to one that is none of
// names, or nothing if none is near.
func meant(name string, names []string) string {
	best, least := "", mostSlips+1
	for _, n := range names {
		// A word of which half would have to change is another word.
		if d := slips(strings.ToLower(name), n); d < least && 2*d < len(n) {
			best, least = n, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s?)", best)
}

// slips counts the bytes to insert, leave out or change that make b of a
// (Levenshtein distance).
func slips(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		corner := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := corner
			if a[i] != b[j] {
				change++
			}
			corner = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
