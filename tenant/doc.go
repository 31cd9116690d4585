// Package tenant says who is asking. It holds the customers of a gateway, the
// API keys that stand for them, and the check of a key on a request.
//
// A key is 256 random bits behind a fixed prefix and followed by a checksum,
// as made by NewKey. It is shown once to the customer and kept nowhere: a
// Keys holds digests only (SHA-256, or HMAC-SHA-256 under a pepper), finds a
// key by its digest and confirms the digest in constant time. Whatever is
// wrong with a key, the caller sees the same ErrUnauthorized.
//
// Inside the gateway a customer is known by Tenant.ID alone, an opaque name
// that may appear in logs, metrics, Redis keys and usage records. Neither a
// key nor its digest ever does.
//
// # Failed attempts
//
// Keys counts failed attempts by network address in constant memory, and
// answers *TooManyError to an address that fails too often. A valid key is
// accepted from any address, limited or not: several customers may share one
// address behind a proxy, and one of them must not be able to lock the others
// out. That costs no safety, as a key of 256 bits is not found by guessing.
// Valid keys never touch the counters, so a flood of bad ones does not slow
// them by more than the processor time it takes.
package tenant
