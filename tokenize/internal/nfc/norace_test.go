//go:build !race

package nfc_test

const raceEnabled = false
