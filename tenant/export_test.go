package tenant

// WellFormed shows wellFormed to the tests.
func WellFormed(s string) bool { return wellFormed(s) }
