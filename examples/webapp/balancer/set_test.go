package balancer_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/examples/webapp/balancer"
)

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func newSet(t *testing.T, cfg balancer.Config) *balancer.Set {
	t.Helper()
	cfg.Logger = quiet()
	s, err := balancer.NewSet(cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = s.Close(ctx)
		nothingRuns(t)
	})
	return s
}

// at returns the address and the port of a balancer of the set.
func at(t *testing.T, s *balancer.Set, name string) (string, int) {
	t.Helper()
	b, ok := s.Get(name)
	require.True(t, ok)
	return b.Addr().String(), b.Addr().(*net.TCPAddr).Port
}

func TestSetFollowsRequestedBalancers(t *testing.T) {
	s := newSet(t, balancer.Config{})
	x, y := []string{named(t, "x")}, []string{named(t, "y")}
	require.NoError(t, s.Ensure("b", 0, x))
	require.NoError(t, s.Ensure("a", 0, y))
	require.Equal(t, []string{"a", "b"}, s.Names())
	addr, port := at(t, s, "b")
	require.Equal(t, "x", ask(t, addr))

	before, _ := s.Get("b")
	for _, same := range []int{0, port, port, 0} {
		require.NoError(t, s.Ensure("b", same, y))
		after, _ := s.Get("b")
		require.True(t, before == after, same)
	}
	require.Equal(t, "y", ask(t, addr), "the backends have changed")

	s.Remove("b")
	s.Remove("b")
	refuses(t, addr)
	require.Equal(t, []string{"a"}, s.Names())
	_, ok := s.Get("b")
	require.False(t, ok)
	require.NoError(t, s.Ensure("a", port, x), "the port is free")
	require.Equal(t, "x", ask(t, addr))
}

func TestMovedBalancerDrainsConnections(t *testing.T) {
	s := newSet(t, balancer.Config{Drain: time.Hour})
	x := []string{named(t, "x")}
	require.NoError(t, s.Ensure("spare", 0, nil))
	_, free := at(t, s, "spare")
	s.Remove("spare")
	require.NoError(t, s.Ensure("a", 0, x))
	old, _ := at(t, s, "a")
	c := dial(t, old)
	require.Equal(t, "x", answer(t, c))

	require.NoError(t, s.Ensure("a", free, x))
	refuses(t, old)
	now, port := at(t, s, "a")
	require.Equal(t, free, port)
	require.Equal(t, "x", ask(t, now))
	require.True(t, talks(t, c))
	require.NoError(t, c.Close())
}

func TestRemovedBackendIsCutAfterDrainTimeout(t *testing.T) {
	s := newSet(t, balancer.Config{Drain: time.Millisecond})
	require.NoError(t, s.Ensure("a", 0, []string{named(t, "x")}))
	addr, _ := at(t, s, "a")
	c := dial(t, addr)
	require.Equal(t, "x", answer(t, c))
	s.Remove("a")
	require.Empty(t, answer(t, c))
}

func TestTakenPortIsAnError(t *testing.T) {
	other, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer other.Close()
	taken := other.Addr().(*net.TCPAddr).Port
	s := newSet(t, balancer.Config{})
	err = s.Ensure("a", taken, nil)
	require.ErrorIs(t, err, balancer.ErrPortTaken)
	require.ErrorContains(t, err, other.Addr().String())
	require.Empty(t, s.Names())

	require.NoError(t, s.Ensure("a", 0, nil))
	addr, _ := at(t, s, "a")
	require.ErrorIs(t, s.Ensure("a", taken, []string{named(t, "x")}), balancer.ErrPortTaken)
	require.Equal(t, "x", ask(t, addr), "it stays where it was, with the new backends")
	require.NoError(t, other.Close())
	require.NoError(t, s.Ensure("a", taken, []string{named(t, "y")}))
	require.Equal(t, "y", ask(t, other.Addr().String()))
}

func TestBalancersMaySwapPorts(t *testing.T) {
	s := newSet(t, balancer.Config{})
	x, y := []string{named(t, "x")}, []string{named(t, "y")}
	require.NoError(t, s.Ensure("a", 0, x))
	require.NoError(t, s.Ensure("b", 0, y))
	addrA, portA := at(t, s, "a")
	addrB, portB := at(t, s, "b")
	err := s.Ensure("a", portB, x)
	require.ErrorIs(t, err, balancer.ErrPortTaken)
	require.ErrorContains(t, err, `by "b"`)
	require.NoError(t, s.Ensure("b", portA, y))
	require.NoError(t, s.Ensure("a", portB, x))
	require.Equal(t, "y", ask(t, addrA))
	require.Equal(t, "x", ask(t, addrB))
}

func TestClosedSetStaysEmpty(t *testing.T) {
	cause := errors.New("enough")
	s := newSet(t, balancer.Config{Drain: time.Hour})
	x := []string{named(t, "x")}
	require.NoError(t, s.Ensure("a", 0, x))
	require.NoError(t, s.Ensure("b", 0, x))
	addrA, _ := at(t, s, "a")
	addrB, _ := at(t, s, "b")
	a, b := dial(t, addrA), dial(t, addrB)
	require.Equal(t, "x", answer(t, a))
	require.Equal(t, "x", answer(t, b))
	s.Remove("b") // it drains
	closes(t, s, cause)
	require.Empty(t, answer(t, a))
	require.Empty(t, answer(t, b))
	refuses(t, addrA)
	require.Empty(t, s.Names())
	require.ErrorIs(t, s.Ensure("a", 0, x), balancer.ErrClosed)
	s.Remove("a")
	closes(t, s, nil)
}

func TestCloseWaitsForDrainingConnections(t *testing.T) {
	s := newSet(t, balancer.Config{Drain: time.Hour})
	require.NoError(t, s.Ensure("a", 0, []string{named(t, "x")}))
	a, _ := s.Get("a")
	c := dial(t, a.Addr().String())
	require.Equal(t, "x", answer(t, c))
	s.Remove("a")
	require.Equal(t, 1, a.Stats().Open)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.NoError(t, s.Close(ctx))
	require.Zero(t, a.Stats().Open)
}

func TestPortsAreValidated(t *testing.T) {
	s := newSet(t, balancer.Config{})
	for _, port := range []int{-1, 65536} {
		require.ErrorContains(t, s.Ensure("a", port, nil), "the limits are 0 and 65535")
	}
}

func TestBackendIsBusyWhileMovedBalancerDrains(t *testing.T) {
	s := newSet(t, balancer.Config{})
	x, y := named(t, "x"), named(t, "y")
	require.NoError(t, s.Ensure("a", 0, []string{x}))
	addr, port := at(t, s, "a")
	c := dial(t, addr)
	require.Equal(t, "x", answer(t, c))
	for {
		other := dead(t)
		_, p, err := net.SplitHostPort(other)
		require.NoError(t, err)
		n, err := strconv.Atoi(p)
		require.NoError(t, err)
		if err := s.Ensure("a", n, []string{x, y}); err == nil && n != port {
			break
		}
	}
	require.NoError(t, s.Ensure("a", 0, []string{y}))
	require.True(t, s.Busy(x), "the balancer of the old port has a connection")
	require.True(t, talks(t, c))
	require.NoError(t, c.Close())
	for s.Busy(x) { // the balancer takes a moment to notice
		runtime.Gosched()
	}
	require.True(t, s.Busy(y))
	s.Remove("a")
	require.False(t, s.Busy(y))
}
