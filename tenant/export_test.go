package tenant

// WellFormed shows wellFormed to the tests.
func WellFormed(s string) bool { return wellFormed(s) }

// WithSum appends the checksum that makes a key of s.
func WithSum(s string) string { return string(appendSum([]byte(s), checksum(s))) }
