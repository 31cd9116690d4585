package tenant

import "reflect"

// WellFormed shows wellFormed to the tests.
func WellFormed(s string) bool { return wellFormed(s) }

// WithSum appends the checksum that makes a key of s.
func WithSum(s string) string { return string(appendSum([]byte(s), checksum(s))) }

// HeldBy shows the set of keys in use.
func HeldBy(k *Keys) reflect.Value { return reflect.ValueOf(k.set.Load()) }
