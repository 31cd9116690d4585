// Package prefix remembers which replica has which beginnings of prompts in
// its KV cache.
//
// A prompt's tokens are cut into blocks of the engine's block size, and each
// full block gets a hash that covers it and all before it (AppendBlocks):
//
//	h(i) = xxhash64(h(i-1) || tokens of block i, 4 bytes each, little-endian)
//	h(-1) = Seed(adapter, salt)
//
// which is how vLLM keys its own cache (a chain of block hashes in which the
// adapter's name and the salt take part), with a cheaper hash. Equal hashes
// at position i therefore mean equal prompts up to block i, and the number of
// leading blocks a replica holds is what it need not compute again.
//
// A [Map] answers, for all replicas at once, how many leading blocks each
// holds. [Table] is a Map of what was sent: it takes each replica's cache for
// a list of its most recently used blocks, as long as the cache is, from
// which the tail of a sequence is evicted before its head. That is vLLM's
// own order (freed blocks are queued for reuse tail first). Where the engine
// turns out to know better, see [Table.Observe].
package prefix
