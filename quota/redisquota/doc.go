// Package redisquota is a quota.Store in Redis, shared by any number of
// gateways: one server, a master with replicas under Sentinel, or a cluster.
// It needs Redis 5 or later.
//
// # What it does to Redis
//
// Reserve and Settle are one EVALSHA each, Renew is one per reservation; calls
// that are made at the same time travel in one pipeline. A script the server
// does not know is sent in full, so a restart or SCRIPT FLUSH is not noticed.
// All keys of one tenant share one hash tag, made from the tenant's id so that
// no two ids can meet. Every key expires, Config.Keep after its last use. The
// server must not evict keys that have not expired (maxmemory-policy noeviction).
// An ACL user needs ~<Prefix>* and the commands EVAL, EVALSHA, SET, PEXPIRE,
// EXISTS, TIME, HGET, HMGET, HSET, HDEL, HGETALL, ZADD, ZREM, ZCOUNT, ZRANGE and
// ZRANGEBYSCORE; for Tenants, SCAN too.
//
// Time is the server's: no clock of a gateway enters a decision.
//
// # What it promises
//
// A call that got no answer is made again under the same id, which cannot count
// twice. A Reserve that its caller gave up on is taken back. A Settle that
// cannot be delivered is kept, up to Config.Backlog of them, and delivered when
// Redis is back; a process that is killed before that takes it along, and the
// request is charged what its last Renew had noted.
//
// With one server that keeps its data, no window grants more than package quota
// says. When a fail-over or a crash loses what was written last, those
// reservations are unknown to the new master, and it can grant their tokens and
// slots again: at most the lost writes, that is what was granted during the
// replication delay. Their Renew makes them held again, and their Settle charges
// them in full. A settlement that was lost itself is not charged.
//
// Measured by this package's tests: a fail-over by Sentinel under 1,000
// reservations a second, with master and replica on one machine, lost no token in
// six runs (TestSentinelFailover); with replication held up while 3,200 tokens
// were charged, 3,190 were granted beyond a budget of 20,000 (TestLostWrites).
//
// # When Redis is away
//
// Config.Policy says what happens, and has no default. It answers in two cases:
//
//   - Redis is silent: calls wait for it, and nothing at all has come from it for
//     Config.Patience longer than its answers usually take, which is learned from
//     them as TCP learns its round trip. The calls that wait are answered by the
//     policy, and so are new ones, under Closed after up to 5 ms more, until Redis
//     says anything. What had been sent is taken back or counted once, by its id.
//   - The breaker is open: one attempt and one repetition, which together end within
//     twice Config.Timeout, got no answer, or one that concerns everybody. Calls are answered by the policy at once,
//     and a probe asks Redis ten times a second until it takes writes again. In a
//     cluster there is a breaker for each of 32 ranges of slots.
//
// So when Redis goes away, no call waits longer than its usual answer, Patience and
// 2 ms, whatever the rate: with a Redis that is near and by default, less than 8 ms
// under Open and LocalShare, and under Closed less than 30 ms in the first 30 ms and
// 5 ms from there on, which leaves the 99th percentile of an outage of 3 s and more
// at 5 ms. The price is that a pause of Redis longer than that, be it a fork or a
// slow disk, is answered by the policy too: under Closed, requests are refused. Where
// waiting is preferred, set Patience to Timeout. A Redis that is merely far, or becomes slower,
// is learned within a few answers; before the first answer, and as long as a cluster
// lets some slots of a range be answered and others not, calls wait for up to
// Timeout.
//
//   - Closed refuses with *quota.UnavailableError.
//   - Open lets everything through; how much is spent in the meantime has no
//     bound but the engines' speed.
//   - LocalShare grants Config.Share of every limit from memory: with n gateways
//     of share s an outage of t seconds lets through at most
//     n*s*(Burst + Rate*t) more tokens per window than the contract, and
//     n*max(1, floor(s*Concurrency)) requests at once beside those that were
//     already running. Several outages in a row share one such burst, because the
//     memory is kept between them.
//
// What Open and LocalShare let through is charged when it settles, as a debt if
// it must be, and Renew makes it held in Redis.
//
// An error that Redis answers with opens the breaker only if Redis does not take
// the probe's write either. One that speaks of the server or the client, such as
// LOADING, READONLY, OOM, CLUSTERDOWN or NOPERM, and leaves the probe alone, is
// about some slots or commands: the policy answers those calls and no others, and
// their settlements are tried again after a second, and then twice as long each
// time, up to half a minute. Config.Logger is told every ten seconds.
//
// # When a tenant's keys are broken
//
// A key of another type, or with other contents than the scripts write, is the
// matter of its tenant: the breaker stays closed, and the policy answers for this
// tenant alone, under Closed with an *quota.UnavailableError that holds a *KeyError.
// Config.Logger is told every ten seconds, with the keys and Redis' own words.
// Deleting the keys, which forgets what the tenant spent, puts it right at once.
// Settlements are tried again as above. Those that were refused for ten minutes are
// given up, and so are further ones when a quarter of the backlog waits; the log
// says whose they were and how many tokens are not charged.
package redisquota
