package jinja

import "unsafe"

// This is the only file of the package that uses unsafe. What makes it sound:
//
//   - The kind of a Value says what its pointer points to. Both are set
//     together, by the from... functions and those of memory and Slab, and
//     neither is changed afterwards, except that a list may become a tuple,
//     view or generator, which have the same layout. Whoever converts a pointer
//     back has looked at the kind.
//   - A pointer is always one that the garbage collector knows: it is never
//     made of a number, and never moved.
//   - The bytes of a str are never written to while a Value refers to them:
//     memory.room cuts text that is filled once, and the JSON that is decoded
//     belongs to the caller, who keeps it as it is until the render has ended.

// pointer points to what the kind of a Value says.
type pointer = unsafe.Pointer

// FromString returns a str that shares the memory of s.
func FromString(s string) Value {
	return Value{kind: String, num: uint64(len(s)), ptr: unsafe.Pointer(unsafe.StringData(s))}
}

// Str returns the bytes of a str; it is empty for any other kind.
func (v Value) Str() string {
	if v.kind != String {
		return ""
	}
	return unsafe.String((*byte)(v.ptr), int(v.num))
}

// textOf returns the bytes of b as a string without copying.
func textOf(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
