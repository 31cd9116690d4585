// Package admission decides who may start, in what order, and when to say no.
//
// Work that a pool has no room for waits in one line. The order is: strict
// tiers, with a floor below which no tier that waits is starved; inside a
// tier the tenant with the smallest virtual token counter (Sheng et al.,
// "Fairness in Serving Large Language Models", OSDI 2024), weighted; inside a
// tenant the earliest deadline. Work that does not fit is overtaken by
// smaller work, up to a bound: once it has been passed by as much work as it
// needs itself, and has waited long enough, it is told to keep room for itself
// on one replica, around which others are served; or, in pools too small for
// that, others may take only a part of what becomes free until it has started.
//
// Line is that order as plain data, without clock, locks or goroutines; a
// simulation drives it in virtual time. Controller drives a Line in real time
// for many goroutines. Whether there is room is not decided here: the start
// function of each request finds out by trying.
package admission
