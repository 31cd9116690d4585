package redisquota

import (
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// KeyError says that Redis is there and refuses a call for what the keys of its
// tenant hold, such as a value of another type. Nothing was taken or charged. It
// is found with errors.As in the *quota.UnavailableError that the store returns.
// Calls of other tenants are not concerned.
type KeyError struct {
	Tenant string
	Keys   []string // all that Redis holds of the tenant; it does not say which is wrong
	Err    error    // in Redis' own words
}

// Error returns the keys and Redis' own words.
func (e *KeyError) Error() string {
	return "redisquota: redis refuses what is kept at " + strings.Join(e.Keys, " and ") + ": " + e.Err.Error()
}

// Unwrap returns Redis' answer.
func (e *KeyError) Unwrap() error { return e.Err }

// wholeServer reports whether Redis says by the code that it serves nobody, or not
// this client, or not this part of the key space.
func wholeServer(code string) bool {
	switch code {
	case "LOADING", "BUSY", "MASTERDOWN", // not at the moment
		"READONLY", "OOM", "MISCONF", "NOREPLICAS", // no writes
		"CLUSTERDOWN", "MOVED", "ASK", "TRYAGAIN", "CROSSSLOT", // not these slots
		"NOAUTH", "WRONGPASS", "NOPERM", "DENIED", "NOPROTO", // not this client
		"NOSCRIPT", "EXECABORT": // not in this way
		return true
	}
	return false
}

// wholeServerText does the same for what has no code of its own, such as, in Redis
// 7.0, what a user may not do in a script.
func wholeServerText(text string) bool {
	for _, t := range [...]string{
		"The user executing the script can't",
		"Unknown Redis command",
		"This Redis command is not allowed from script",
		"Error compiling script",
	} {
		if strings.Contains(text, t) {
			return true
		}
	}
	return false
}

// refusal reports whether err is Redis' answer to one call for what its keys
// hold, and says nothing about other calls. That is a wrong type, or what a
// script ran into that was well in itself. All else, also what is not known, is
// taken for a Redis that is away: no answer, and each answer that did not come
// from a script.
func refusal(err error) bool {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return false
	}
	text := reply.Error()
	code, _, _ := strings.Cut(text, " ")
	if code == "WRONGTYPE" {
		return true
	}
	if wholeServer(code) || wholeServerText(text) || !strings.Contains(text, "user_script:") {
		return false
	}
	// Before Redis 7 the code of a command that a script called stands further on:
	// "ERR Error running script (call to f_<sha>): @user_script:12: -OOM command ...".
	for word := range strings.FieldsSeq(text) {
		if wholeServer(strings.TrimPrefix(word, "-")) {
			return false
		}
	}
	return true
}

// answered reports whether Redis said err.
func answered(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// refuse returns what the caller of o gets for Redis' refusal, which is logged now
// and then: under Open and LocalShare, and for settlements, no caller hears of it.
func (s *Store) refuse(o *op, reply error) *KeyError {
	e := &KeyError{Keys: []string{o.text[0], o.text[1]}, Err: reply}
	e.Tenant, _ = s.tenantOf(o.text[0])
	if s.told.due(e.Tenant, s.cfg.Now()) {
		s.cfg.Logger.Warn("Redis refuses what a tenant's keys hold; the policy answers for this tenant alone", "tenant", e.Tenant, "keys", e.Keys, "error", reply)
	}
	return e
}

// tellAnswered logs, now and then, an error that Redis answered some of the calls
// with while it is not away: Stats say nothing of it, and under Open and LocalShare
// no caller hears of it.
func (s *Store) tellAnswered(failed []*op) {
	for _, o := range failed {
		if answered(o.err) && s.toldAll.due("", s.cfg.Now()) {
			s.cfg.Logger.Warn("Redis answers calls with an error, and yet takes writes; the policy answers for those calls", "error", o.err)
			return
		}
	}
}

// told keeps each tenant's line in the log apart from its next.
type told struct {
	mu sync.Mutex
	at map[string]time.Time
}

// tellEvery is how often a log hears of one tenant.
const tellEvery = 10 * time.Second

// due reports whether it is time to tell of the tenant, and notes that it is done.
func (t *told) due(tenant string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if at, ok := t.at[tenant]; ok && now.Sub(at) < tellEvery {
		return false
	}
	if t.at == nil || len(t.at) >= 1000 { // bounded: some are told of too soon
		t.at = make(map[string]time.Time)
	}
	t.at[tenant] = now
	return true
}
