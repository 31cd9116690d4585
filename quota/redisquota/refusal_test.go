package redisquota

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/redis/go-redis/v9"
)

// replyError is an error that Redis answered with.
type replyError string

func (e replyError) Error() string { return string(e) }
func (e replyError) RedisError()   {}

var _ redis.Error = replyError("")

func TestRefusal(t *testing.T) {
	const (
		at  = " script: d428573a4356bc6caa149dc925b0f2dba21022c7, on @user_script:38."
		old = "ERR Error running script (call to f_d428573a4356bc6caa149dc925b0f2dba21022c7): @user_script:38: "
	)
	for _, tt := range []struct {
		err  error
		want bool
	}{
		// What the keys hold.
		{replyError("WRONGTYPE Operation against a key holding the wrong kind of value" + at), true},
		{replyError("WRONGTYPE Operation against a key holding the wrong kind of value"), true},
		{replyError("ERR user_script:1: bad argument #2 to 'unpack' (data string too short)" + at), true},
		{replyError("ERR user_script:1: attempt to perform arithmetic on a nil value" + at), true},
		{replyError("ERR value is not a valid float" + at), true},
		{replyError("ERR hash value is not an integer" + at), true},
		{replyError("STRANGE what nobody has seen" + at), true},
		{replyError("ERR Error running script: Script killed by user with SCRIPT KILL." + at), true},
		{replyError(old + "WRONGTYPE Operation against a key holding the wrong kind of value"), true},
		{replyError(old + "bad argument #2 to 'unpack' (data string too short)"), true},
		{fmt.Errorf("wrapped: %w", replyError("WRONGTYPE Operation against a key")), true},

		// The server, or this client.
		{replyError("LOADING Redis is loading the dataset in memory"), false},
		{replyError("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."), false},
		{replyError("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."), false},
		{replyError("READONLY You can't write against a read only replica."), false},
		{replyError("READONLY You can't write against a read only replica." + at), false},
		{replyError(old + "@user_script: 38: -READONLY You can't write against a read only replica."), false},
		{replyError("OOM command not allowed when used memory > 'maxmemory'." + at), false},
		{replyError(old + "@user_script: 38: -OOM command not allowed when used memory > 'maxmemory'."), false},
		{replyError("MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk."), false},
		{replyError(old + "@user_script: 38: -MISCONF Redis is configured to save RDB snapshots"), false},
		{replyError("NOREPLICAS Not enough good replicas to write." + at), false},
		{replyError("CLUSTERDOWN The cluster is down"), false},
		{replyError("CLUSTERDOWN Hash slot not served"), false},
		{replyError("MOVED 3999 127.0.0.1:6381"), false},
		{replyError("ASK 3999 127.0.0.1:6381"), false},
		{replyError("TRYAGAIN Multiple keys request during rehashing of slot"), false},
		{replyError("CROSSSLOT Keys in request don't hash to the same slot"), false},
		{replyError("NOAUTH Authentication required."), false},
		{replyError("WRONGPASS invalid username-password pair or user is disabled."), false},
		{replyError("NOPERM this user has no permissions to run the 'evalsha' command"), false},
		{replyError("NOPERM User gateway has no permissions to run the 'hget' command" + at), false},
		{replyError("ERR The user executing the script can't run this command or subcommand" + at), false},
		{replyError(old + "@user_script: 38: The user executing the script can't run this command or subcommand"), false},
		{replyError("ERR Unknown Redis command called from script" + at), false},
		{replyError("ERR Error compiling script (new function): user_script:1: unexpected symbol near ')'"), false},
		{replyError("DENIED Redis is running in protected mode"), false},
		{replyError("NOPROTO unsupported protocol version"), false},
		{replyError("NOSCRIPT No matching script. Please use EVAL."), false},
		{replyError("EXECABORT Transaction discarded because of previous errors."), false},
		{replyError("ERR max number of clients reached"), false},
		{replyError("ERR unknown command 'evalsha'"), false},
		{replyError("ERR operation not permitted"), false},
		{replyError("ERR upstream failure"), false},
		{replyError("STRANGE what nobody has seen"), false},

		// No answer.
		{io.EOF, false},
		{context.DeadlineExceeded, false},
		{&net.OpError{Op: "dial", Err: errors.New("connection refused")}, false},
		{errors.New("redisquota: no answer: WRONGTYPE of another"), false},
	} {
		if got := refusal(tt.err); got != tt.want {
			t.Errorf("refusal(%v) = %v, want %v", tt.err, got, tt.want)
		}
	}
}
