// Package tokenize turns text into the token ids of a model, in pure Go.
package tokenize
