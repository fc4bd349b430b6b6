//go:build linux

package backendtest

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/leasetest"
	"github.com/setpoint-go/setpoint/leaderelect/redislease"
)

// startRedis starts an empty server that keeps what it has acknowledged.
func startRedis(t testing.TB) *servertest.Server {
	t.Helper()
	path := servertest.Program(t, "redis-server", "redis-server")
	dir, attr := servertest.DaemonDir(t)
	addr := servertest.FreeAddr(t)
	_, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	client := openRedis(t, addr, -1)
	return servertest.Start(t, addr, func() *exec.Cmd {
		c := exec.Command(path, "--port", port, "--bind", "127.0.0.1", "--dir", dir, "--save", "", "--appendonly", "yes", "--appendfsync", "always")
		c.SysProcAttr = attr
		return c
	}, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		return client.Ping(ctx).Err()
	})
}

// openRedis returns a client of the server at an address. It tries again so many times; 0 is the default of the library.
func openRedis(t testing.TB, addr string, retries int) *redis.Client {
	t.Helper()
	c := newRedis(addr, retries)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func newRedis(addr string, retries int) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true, MaxRetries: retries})
}

// redisLeases returns a store through a client.
func redisLeases(c *redis.Client, prefix string) *redislease.Store {
	return redislease.New(redislease.Func(func(ctx context.Context, script string, keys []string, args ...any) (any, error) {
		return c.Eval(ctx, script, keys, args...).Result()
	}), redislease.Config{Prefix: prefix})
}

func TestRedis(t *testing.T) {
	t.Parallel()
	logging.Disable()
	server := startRedis(t)
	direct := openRedis(t, server.Addr(), 0)
	var prefixes atomic.Int32
	newPrefix := func() string { return fmt.Sprintf("{leases-%d}", prefixes.Add(1)) }

	for name, retries := range map[string]int{"is a lease store": -1, "with a client that tries again is a lease store": 0} {
		t.Run(name, func(t *testing.T) {
			leasetest.Run(t, func(t *testing.T) leasetest.Backend {
				p, prefix := servertest.NewProxy(t, server.Addr()), newPrefix()
				near := redisLeases(direct, prefix)
				return leasetest.Backend{
					Store:    redisLeases(openRedis(t, p.Addr(), retries), prefix),
					Reopen:   func() leaderelect.LeaseStore { return near },
					Delete:   func(key string) { require.NoError(t, direct.Del(context.Background(), prefix+":"+key).Err()) },
					Idle:     500 * time.Millisecond,
					Drop:     p.Stall,
					Heal:     p.Heal,
					CutReply: p.CutNextReply,
					Restart:  server.Restart,
					Guard: leasetest.Guard{
						Do: func(ctx context.Context, key string, term uint64, _ func()) error {
							_, err := near.GuardedTerm(ctx, key, term, "return 1", nil)
							return err
						},
						Leading: func(ctx context.Context, _ func()) error {
							_, err := near.Guarded(ctx, "return 1", nil)
							return err
						},
						Refused: redislease.ErrFenced,
						AtOnce:  true,
					},
				}
			})
		})
	}

	t.Run("a renewal adds its lease to a list that has lost it", func(t *testing.T) {
		ctx, prefix := context.Background(), newPrefix()
		s := redisLeases(direct, prefix)
		e, err := s.Create(ctx, leaderelect.Entry{Key: "lease", Value: []byte("a"), Term: 1})
		require.NoError(t, err)
		require.NoError(t, direct.Del(ctx, prefix).Err())
		e, err = s.Update(ctx, e)
		require.NoError(t, err)
		list, err := s.List(ctx, "")
		require.NoError(t, err)
		require.Equal(t, []leaderelect.Entry{e}, list)
	})

	t.Run("a guarded script has its own keys and arguments", func(t *testing.T) {
		ctx, s := context.Background(), redisLeases(direct, newPrefix())
		_, err := s.Create(ctx, leaderelect.Entry{Key: "lease", Term: 1<<63 + 1})
		require.NoError(t, err)
		got, err := s.GuardedTerm(ctx, "lease", 1<<63+1, `return {#KEYS, KEYS[1], #ARGV, ARGV[1], ARGV[2]}`, []string{"{leases}:k"}, "a", 7)
		require.NoError(t, err)
		require.Equal(t, []any{int64(1), "{leases}:k", int64(2), "a", "7"}, got)
		got, err = s.GuardedTerm(ctx, "lease", 1<<63+1, `redis.call('SET', KEYS[1], ARGV[1])`, []string{"{leases}:k"}, "a")
		require.NoError(t, err)
		require.Nil(t, got)
		require.Equal(t, "a", direct.Get(ctx, "{leases}:k").Val())
		got, err = s.GuardedTerm(ctx, "lease", 1<<63+1, `return 'first', 'second'`, nil)
		require.NoError(t, err)
		require.Equal(t, direct.Eval(ctx, `return 'first', 'second'`, nil).Val(), got, "the result of EVAL")
		_, err = s.GuardedTerm(ctx, "lease", 1<<63, `redis.call('SET', KEYS[1], ARGV[1])`, []string{"{leases}:k"}, "b")
		require.ErrorIs(t, err, redislease.ErrFenced)
		require.Equal(t, "a", direct.Get(ctx, "{leases}:k").Val())
		for _, script := range []string{`redis.call('NOSUCH')`, `return redis.pcall('NOSUCH')`, `return redis.error_reply('no')`} {
			_, err = s.GuardedTerm(ctx, "lease", 1<<63+1, script, nil)
			require.Error(t, err, script)
			require.NotErrorIs(t, err, redislease.ErrFenced)
		}
	})

	t.Run("histories are linearizable", func(t *testing.T) {
		linearizable(t, func(t *testing.T) cluster {
			prefix := newPrefix()
			c := cluster{restart: server.Restart}
			for range clients {
				p := servertest.NewProxy(t, server.Addr())
				c.proxies = append(c.proxies, p)
				c.stores = append(c.stores, redisLeases(openRedis(t, p.Addr(), -1), prefix))
			}
			return c
		})
	})
}
