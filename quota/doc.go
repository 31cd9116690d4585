// Package quota limits what a tenant may spend, in tokens, and how many
// requests it may have running, across any number of gateways.
//
// A request reserves the most it may cost before it is sent anywhere, and
// settles what it did cost when it has ended, however it ended:
//
//	r := quota.Reservation{ID: id, Tenant: "acme", Limit: limit, Cost: cost}
//	if err := store.Reserve(ctx, r); err != nil {
//		return err // *LimitError, *UnavailableError or a context error
//	}
//	...
//	err := store.Settle(context.WithoutCancel(ctx), r, used)
//
// # Currency
//
// All amounts are priced tokens: whole numbers, such as input and output tokens
// multiplied by the tenant's prices, as package tenant's Price does. A tenant may have several
// windows, for example one per minute, one per day, and one per model (put the
// model in the window's name). A reservation must fit all its windows, is
// taken from each, and its unused part goes back to each.
//
// # Windows
//
// A window is a token bucket kept as a meter: what has been spent, which
// drains at Rate and may not rise above Burst. A tenant nobody has heard of has
// spent nothing. From the first reservation on, t seconds let through at most
// Burst + Rate*t tokens. Any other span of t seconds lets through no more than
// that plus what reservations older than the span give back within it: capacity
// that was held and not used can be used later, but never makes room for more
// than Burst at once. When Rate or Burst change, the time since the last reservation still
// drains at the old rate, and what is held stays held.
//
// # Ids and leases
//
// Every call names its reservation by id and is idempotent, so that a call
// whose answer was lost can be made again. A reservation is held for its Lease
// and then for one more Lease after each Renew. If its holder dies, the store
// ends it after that: the slot is free again and Cost-Used goes back. A holder
// that was only slow may still Renew (the reservation is held again, whether or
// not it still fits, because the request is running) or Settle (what was given
// back too much is taken again).
//
// A settlement of an id the store does not know charges all that was used: the
// store lost its memory, or another policy let the request through. Ids are
// remembered for [Remember] after they were settled, so that neither a late
// Reserve nor a second Settle of the same id counts.
package quota
