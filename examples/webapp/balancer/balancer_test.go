package balancer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/examples/webapp/balancer"
)

func TestConnectionsAreRoundRobin(t *testing.T) {
	b := listen(t, balancer.Config{}, named(t, "x"), named(t, "y"), named(t, "z"))
	for _, want := range []string{"x", "y", "z", "x", "y", "z", "x"} {
		require.Equal(t, want, ask(t, b.Addr().String()))
	}
	require.EqualValues(t, 7, b.Stats().Accepted)
	require.Zero(t, b.Stats().Refused)
}

func TestUnreachableBackendIsSkipped(t *testing.T) {
	b := listen(t, balancer.Config{}, named(t, "x"), dead(t), "no address", named(t, "y"))
	for _, want := range []string{"x", "y", "y", "y", "x"} {
		require.Equal(t, want, ask(t, b.Addr().String()))
	}
}

func TestConnectionWithoutBackendIsClosed(t *testing.T) {
	b := listen(t, balancer.Config{})
	require.Empty(t, ask(t, b.Addr().String()))
	b.SetBackends([]string{dead(t), dead(t)})
	require.Empty(t, ask(t, b.Addr().String()))
	b.SetBackends(nil)
	require.Empty(t, ask(t, b.Addr().String()))
	closes(t, b, nil)
	require.Equal(t, balancer.Stats{Accepted: 3, Refused: 3}, b.Stats())
}

// closes closes b, which has to end of itself when cause is nil.
func closes(t *testing.T, b interface{ Close(context.Context) error }, cause error) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	if cause != nil {
		cancel(cause)
	} else {
		defer time.AfterFunc(patience, func() { cancel(errors.New("it does not drain")) }).Stop()
	}
	require.ErrorIs(t, b.Close(ctx), cause)
}

func TestBackendChangesApplyToNewConnections(t *testing.T) {
	x := named(t, "x")
	backends := []string{x}
	b := listen(t, balancer.Config{}, backends...)
	b.SetBackends(backends)
	backends[0] = "changed by the caller"
	require.Equal(t, []string{x}, b.Backends())
	b.Backends()[0] = "changed by a reader"

	old := dial(t, b.Addr().String())
	require.Equal(t, "x", answer(t, old))
	b.SetBackends([]string{named(t, "y")})
	require.Equal(t, "y", ask(t, b.Addr().String()))
	require.True(t, talks(t, old))
	require.NoError(t, old.Close())
}

func TestBackendIsBusyUntilLastConnectionEnds(t *testing.T) {
	ended := make(chan struct{})
	x, y := backend(t, func(c *net.TCPConn) {
		_, _ = io.WriteString(c, "x\n")
		_, _ = io.Copy(io.Discard, c)
		close(ended)
	}), named(t, "y")
	b := listen(t, balancer.Config{}, x)
	require.True(t, b.Busy(x), "it may get connections")
	require.False(t, b.Busy(y))
	c := dial(t, b.Addr().String())
	require.Equal(t, "x", answer(t, c))
	b.SetBackends([]string{y})
	require.True(t, b.Busy(x), "it has one")
	require.NoError(t, c.Close())
	<-ended
	for b.Busy(x) { // the balancer takes a moment to notice
		runtime.Gosched()
	}
	require.Equal(t, "y", ask(t, b.Addr().String()))
	require.False(t, b.Busy(x))
}

// A connection that was accepted before its backend was removed, and has not chosen one yet, chooses among the new
// backends.
func TestFailedDialTriesCurrentBackends(t *testing.T) {
	var b *balancer.Balancer
	y := named(t, "y")
	gone := dead(t)
	ready := make(chan struct{})
	dialling := &hook{do: func() { // when the first attempt has failed
		<-ready
		b.SetBackends([]string{y})
	}}
	b = listen(t, balancer.Config{Logger: slog.New(dialling)}, gone)
	close(ready)
	require.Equal(t, "y", ask(t, b.Addr().String()))
	require.False(t, b.Busy(gone))
}

// hook is a log handler that does something with each line.
type hook struct {
	slog.Handler
	do func()
}

func (h *hook) Enabled(context.Context, slog.Level) bool  { return true }
func (h *hook) Handle(context.Context, slog.Record) error { h.do(); return nil }

func TestHalfCloseIsForwarded(t *testing.T) {
	t.Run("from the client", func(t *testing.T) {
		b := listen(t, balancer.Config{}, backend(t, func(c *net.TCPConn) {
			got, err := io.ReadAll(c)
			_, _ = fmt.Fprintf(c, "%s %v\n", got, err)
		}))
		c := dial(t, b.Addr().String())
		_, err := io.WriteString(c, "question")
		require.NoError(t, err)
		require.NoError(t, c.CloseWrite())
		require.Equal(t, "question <nil>", answer(t, c))
	})
	t.Run("from the backend", func(t *testing.T) {
		got := make(chan string, 1)
		b := listen(t, balancer.Config{}, backend(t, func(c *net.TCPConn) {
			_, _ = io.WriteString(c, "all of it")
			_ = c.CloseWrite()
			rest, err := io.ReadAll(c)
			got <- fmt.Sprint(string(rest), err)
		}))
		c := dial(t, b.Addr().String())
		all, err := io.ReadAll(c)
		require.NoError(t, err)
		require.Equal(t, "all of it", string(all))
		_, err = io.WriteString(c, "thanks")
		require.NoError(t, err)
		require.NoError(t, c.Close())
		require.Equal(t, "thanks<nil>", <-got)
	})
}

func TestBrokenSideClosesBoth(t *testing.T) {
	t.Run("the client, while the backend waits", func(t *testing.T) {
		ended, drained := make(chan struct{}), make(chan struct{})
		b := listen(t, balancer.Config{}, backend(t, func(c *net.TCPConn) {
			_, _ = io.WriteString(c, "x\n")
			_, _ = io.Copy(io.Discard, c)
			close(ended)
			<-drained // it does not hang up by itself
		}))
		defer close(drained)
		c := dial(t, b.Addr().String())
		require.Equal(t, "x", answer(t, c))
		require.NoError(t, c.SetLinger(0)) // a reset instead of an end
		require.NoError(t, c.Close())
		<-ended
		closes(t, b, nil)
	})
	t.Run("the backend, while the client waits", func(t *testing.T) {
		b := listen(t, balancer.Config{}, backend(t, func(c *net.TCPConn) {
			_, _ = io.WriteString(c, "x\n")
			_, _ = c.Read(make([]byte, 1))
			_ = c.SetLinger(0)
		}))
		c := dial(t, b.Addr().String())
		require.Equal(t, "x", answer(t, c))
		_, err := io.WriteString(c, "!")
		require.NoError(t, err)
		require.Empty(t, answer(t, c))
		closes(t, b, nil) // although the client has not hung up
	})
}

func TestCloseDrains(t *testing.T) {
	b := listen(t, balancer.Config{}, named(t, "x"))
	c := dial(t, b.Addr().String())
	require.Equal(t, "x", answer(t, c))
	require.Equal(t, balancer.Stats{Open: 1, Accepted: 1}, b.Stats())
	closed := make(chan error, 1)
	// Close waits for the connection; the test receives its result.
	go func() { closed <- b.Close(context.Background()) }()
	for accepted := true; accepted; {
		other, err := net.Dial("tcp", b.Addr().String())
		if accepted = err == nil; accepted {
			other.Close()
		}
	}
	require.True(t, talks(t, c))
	require.Empty(t, closed)
	require.NoError(t, c.Close())
	require.NoError(t, <-closed)
	closes(t, b, nil) // again
}

func TestCloseCutsUndrainedConnections(t *testing.T) {
	b := listen(t, balancer.Config{}, named(t, "x"))
	first, second := dial(t, b.Addr().String()), dial(t, b.Addr().String())
	require.Equal(t, "x", answer(t, first))
	require.Equal(t, "x", answer(t, second))
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	err := b.Close(ctx)
	require.ErrorIs(t, err, cause)
	require.EqualError(t, err, fmt.Sprintf("balancer: close %s: 2 connections cut: enough", b.Addr()))
	require.Zero(t, b.Stats().Open)
	require.Empty(t, answer(t, first))
	require.Empty(t, answer(t, second))
	refuses(t, b.Addr().String())
}

// flakyListener fails to accept a few times.
type flakyListener struct {
	net.Listener
	failures atomic.Int32
}

func (l *flakyListener) Accept() (net.Conn, error) {
	if l.failures.Add(-1) >= 0 {
		return nil, errors.New("out of descriptors")
	}
	return l.Listener.Accept()
}

func TestAcceptErrorIsSurvived(t *testing.T) {
	for name, failures := range map[string]int32{"that passes": 2, "that lasts": 1000} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			flaky := &flakyListener{Listener: l}
			flaky.failures.Store(failures)
			b := balancer.Serve(flaky, balancer.Config{Logger: quiet(), DialTimeout: time.Second})
			if failures < 10 {
				b.SetBackends([]string{named(t, "x")})
				require.Equal(t, "x", ask(t, l.Addr().String()))
			}
			closes(t, b, nil)
			nothingRuns(t)
		})
	}
}

func TestConnectionsDuringBackendChanges(t *testing.T) {
	x, y := named(t, "x"), named(t, "y")
	b := listen(t, balancer.Config{}, x)
	done := make(chan struct{})
	var changer, clients sync.WaitGroup
	changer.Go(func() {
		for sets := [][]string{{x}, {y}, {x, y}}; ; sets = append(sets[1:], sets[0]) {
			select {
			case <-done:
				return
			default:
				b.SetBackends(sets[0])
			}
		}
	})
	for range 4 {
		clients.Go(func() {
			for range 25 {
				c := dial(t, b.Addr().String())
				if name := answer(t, c); name != "x" && name != "y" || !talks(t, c) {
					t.Errorf("a connection was lost: %q", name)
				}
				c.Close()
			}
		})
	}
	clients.Wait()
	close(done)
	changer.Wait()
	closes(t, b, nil)
	require.Equal(t, balancer.Stats{Accepted: 100}, b.Stats())
}

func TestNewRejectsInvalidConfig(t *testing.T) {
	for want, cfg := range map[string]balancer.Config{
		"Config.DialTimeout is -1ns, must not be negative": {DialTimeout: -1},
		"Config.Drain is -1ns, must not be negative":       {Drain: -1},
	} {
		_, err := balancer.Listen("127.0.0.1:0", cfg)
		require.ErrorContains(t, err, want)
		_, err = balancer.NewSet(cfg)
		require.ErrorContains(t, err, want)
	}
	_, err := balancer.Listen("nonsense", balancer.Config{})
	require.ErrorContains(t, err, "balancer: listen tcp: address nonsense: missing port")
}
