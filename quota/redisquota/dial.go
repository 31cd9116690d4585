package redisquota

import (
	"context"
	"net"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// dialHook hands the pool a broken connection where a dial failed. go-redis counts
// failed dials, never forgets them, and after PoolSize of them tries once a
// second, or, where dials go unanswered, once in DialTimeout and a second more:
// Redis would be back long before the pool is. A connection that breaks at its
// first use is thrown away and nothing else.
type dialHook struct{}

func (dialHook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := next(ctx, network, addr)
		if err != nil {
			return brokenConn{err}, nil
		}
		return c, nil
	}
}

func (dialHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (dialHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// addDialHook adds it to c, or to each node of a cluster.
func addDialHook(c redis.UniversalClient) {
	switch c := c.(type) {
	case *redis.Client:
		c.AddHook(dialHook{})
	case *redis.ClusterClient:
		c.OnNewNode(func(n *redis.Client) { n.AddHook(dialHook{}) })
	}
}

// brokenConn is a connection that fails with the error of its dial. One whose
// caller did not wait for it is put aside by the pool, and must not be taken for
// good later: that is what SyscallConn is for, by which the pool looks whether a
// connection was closed in the meantime.
type brokenConn struct{ err error }

func (b brokenConn) SyscallConn() (syscall.RawConn, error) { return nil, b.err }

func (b brokenConn) Read([]byte) (int, error)         { return 0, b.err }
func (b brokenConn) Write([]byte) (int, error)        { return 0, b.err }
func (b brokenConn) Close() error                     { return nil }
func (b brokenConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (b brokenConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (b brokenConn) SetDeadline(time.Time) error      { return nil }
func (b brokenConn) SetReadDeadline(time.Time) error  { return nil }
func (b brokenConn) SetWriteDeadline(time.Time) error { return nil }
