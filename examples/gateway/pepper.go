package main

import (
	"fmt"
	"os"
)

// shortestPepper is the least that a pepper may hold, in bytes: 128 bits, if
// they are random. One key with its digest is enough to try peppers on.
const shortestPepper = 16

// readPepper returns the pepper that an environment variable holds. One that
// is too short is returned beside the error.
func readPepper(name string) ([]byte, error) {
	pepper := []byte(os.Getenv(name))
	switch {
	case len(pepper) == 0:
		return nil, fmt.Errorf("the environment variable %s is not set", name)
	case len(pepper) < shortestPepper:
		return pepper, fmt.Errorf("the environment variable %s holds %d bytes, expected at least %d random ones: "+
			"a shorter pepper is found by trying, with one key and its digest", name, len(pepper), shortestPepper)
	}
	return pepper, nil
}
