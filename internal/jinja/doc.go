// Package jinja runs chat templates: the Jinja dialect that model authors ship
// with their models, with the value semantics of Python.
//
// The dialect is Jinja 3.1 in the set-up used for chat templates: trim_blocks
// and lstrip_blocks on, loop controls, no auto-escaping, immutable sandbox,
// and a tojson filter that does not escape HTML. Values come straight from
// JSON bytes (Decode) with key order kept and integers of any size.
//
// Parse turns source into a tree, resolves every name to a slot once, and
// keeps the tree, so that callers can look at it (Inspect). A Template is
// immutable and safe for concurrent use; every Render has its own state.
//
// A template cannot reach outside its values: there are no imports, no
// attribute escapes and no mutation other than of namespace objects. Output
// bytes, steps, bytes built and nesting are bounded by Limits.
package jinja
