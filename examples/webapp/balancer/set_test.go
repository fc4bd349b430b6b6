package balancer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-go/setpoint/examples/webapp/balancer"
)

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func newSet(t *testing.T, cfg balancer.Config) *balancer.Set {
	t.Helper()
	cfg.Logger = quiet()
	s, err := balancer.NewSet(cfg)
	if err != nil {
		t.Fatal(err)
	}
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
	if !ok {
		t.Fatal("ok is false")
	}
	return b.Addr().String(), b.Addr().(*net.TCPAddr).Port
}

func TestSetFollowsRequestedBalancers(t *testing.T) {
	s := newSet(t, balancer.Config{})
	x, y := []string{named(t, "x")}, []string{named(t, "y")}
	if err := s.Ensure("b", 0, x); err != nil {
		t.Fatalf(`s.Ensure("b", 0, x): %v`, err)
	}
	if err := s.Ensure("a", 0, y); err != nil {
		t.Fatalf(`s.Ensure("a", 0, y): %v`, err)
	}
	if got, want := s.Names(), ([]string{"a", "b"}); !slices.Equal(got, want) {
		t.Fatalf("s.Names() = %q, want %q", got, want)
	}
	addr, port := at(t, s, "b")
	if got := ask(t, addr); got != "x" {
		t.Fatalf("ask(t, addr) = %q, want %q", got, "x")
	}

	before, _ := s.Get("b")
	for _, same := range []int{0, port, port, 0} {
		if err := s.Ensure("b", same, y); err != nil {
			t.Fatalf(`s.Ensure("b", same, y): %v`, err)
		}
		after, _ := s.Get("b")
		if before != after {
			t.Fatalf("with port %d: s.Get(\"b\") = %v, want still %v", same, after, before)
		}
	}
	if got := ask(t, addr); got != "y" {
		t.Fatalf("the backends have changed: ask(t, addr) = %q, want %q", got, "y")
	}

	s.Remove("b")
	s.Remove("b")
	refuses(t, addr)
	if got, want := s.Names(), ([]string{"a"}); !slices.Equal(got, want) {
		t.Fatalf("s.Names() = %q, want %q", got, want)
	}
	_, ok := s.Get("b")
	if ok {
		t.Fatal("ok is true")
	}
	if err := s.Ensure("a", port, x); err != nil {
		t.Fatalf(`the port is free: s.Ensure("a", port, x): %v`, err)
	}
	if got := ask(t, addr); got != "x" {
		t.Fatalf("ask(t, addr) = %q, want %q", got, "x")
	}
}

func TestMovedBalancerDrainsConnections(t *testing.T) {
	s := newSet(t, balancer.Config{Drain: time.Hour})
	x := []string{named(t, "x")}
	if err := s.Ensure("spare", 0, nil); err != nil {
		t.Fatalf(`s.Ensure("spare", 0, nil): %v`, err)
	}
	_, free := at(t, s, "spare")
	s.Remove("spare")
	if err := s.Ensure("a", 0, x); err != nil {
		t.Fatalf(`s.Ensure("a", 0, x): %v`, err)
	}
	old, _ := at(t, s, "a")
	c := dial(t, old)
	if got := answer(t, c); got != "x" {
		t.Fatalf("answer(t, c) = %q, want %q", got, "x")
	}

	if err := s.Ensure("a", free, x); err != nil {
		t.Fatalf(`s.Ensure("a", free, x): %v`, err)
	}
	refuses(t, old)
	now, port := at(t, s, "a")
	if port != free {
		t.Fatalf("port = %v, want %v", port, free)
	}
	if got := ask(t, now); got != "x" {
		t.Fatalf("ask(t, now) = %q, want %q", got, "x")
	}
	if !talks(t, c) {
		t.Fatal("talks(t, c) is false")
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestRemovedBackendIsCutAfterDrainTimeout(t *testing.T) {
	s := newSet(t, balancer.Config{Drain: time.Millisecond})
	if err := s.Ensure("a", 0, []string{named(t, "x")}); err != nil {
		t.Fatalf(`s.Ensure("a", 0, []string{named(t, "x")}): %v`, err)
	}
	addr, _ := at(t, s, "a")
	c := dial(t, addr)
	if got := answer(t, c); got != "x" {
		t.Fatalf("answer(t, c) = %q, want %q", got, "x")
	}
	s.Remove("a")
	if got := answer(t, c); got != "" {
		t.Fatalf(`answer(t, c) = %q, want ""`, got)
	}
}

func TestTakenPortIsAnError(t *testing.T) {
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	taken := other.Addr().(*net.TCPAddr).Port
	s := newSet(t, balancer.Config{})
	err = s.Ensure("a", taken, nil)
	if !errors.Is(err, balancer.ErrPortTaken) {
		t.Fatalf("err = %v, want %v", err, balancer.ErrPortTaken)
	}
	if got, want := fmt.Sprint(err), other.Addr().String(); !strings.Contains(got, want) {
		t.Fatalf("err = %q, want an error that contains %q", got, want)
	}
	if got := s.Names(); len(got) != 0 {
		t.Fatalf("s.Names() = %v, want none", got)
	}

	if err := s.Ensure("a", 0, nil); err != nil {
		t.Fatalf(`s.Ensure("a", 0, nil): %v`, err)
	}
	addr, _ := at(t, s, "a")
	if err := s.Ensure("a", taken, []string{named(t, "x")}); !errors.Is(err, balancer.ErrPortTaken) {
		t.Fatalf(`s.Ensure("a", taken, []string{named(t, "x")}) = %v, want %v`, err, balancer.ErrPortTaken)
	}
	if got := ask(t, addr); got != "x" {
		t.Fatalf("it stays where it was, with the new backends: ask(t, addr) = %q, want %q", got, "x")
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Ensure("a", taken, []string{named(t, "y")}); err != nil {
		t.Fatalf(`s.Ensure("a", taken, []string{named(t, "y")}): %v`, err)
	}
	if got := ask(t, other.Addr().String()); got != "y" {
		t.Fatalf("ask(t, other.Addr().String()) = %q, want %q", got, "y")
	}
}

func TestBalancersMaySwapPorts(t *testing.T) {
	s := newSet(t, balancer.Config{})
	x, y := []string{named(t, "x")}, []string{named(t, "y")}
	if err := s.Ensure("a", 0, x); err != nil {
		t.Fatalf(`s.Ensure("a", 0, x): %v`, err)
	}
	if err := s.Ensure("b", 0, y); err != nil {
		t.Fatalf(`s.Ensure("b", 0, y): %v`, err)
	}
	addrA, portA := at(t, s, "a")
	addrB, portB := at(t, s, "b")
	err := s.Ensure("a", portB, x)
	if !errors.Is(err, balancer.ErrPortTaken) {
		t.Fatalf("err = %v, want %v", err, balancer.ErrPortTaken)
	}
	if got := fmt.Sprint(err); !strings.Contains(got, `by "b"`) {
		t.Fatalf("err = %q, want an error that contains %q", got, `by "b"`)
	}
	if err := s.Ensure("b", portA, y); err != nil {
		t.Fatalf(`s.Ensure("b", portA, y): %v`, err)
	}
	if err := s.Ensure("a", portB, x); err != nil {
		t.Fatalf(`s.Ensure("a", portB, x): %v`, err)
	}
	if got := ask(t, addrA); got != "y" {
		t.Fatalf("ask(t, addrA) = %q, want %q", got, "y")
	}
	if got := ask(t, addrB); got != "x" {
		t.Fatalf("ask(t, addrB) = %q, want %q", got, "x")
	}
}

func TestClosedSetStaysEmpty(t *testing.T) {
	cause := errors.New("enough")
	s := newSet(t, balancer.Config{Drain: time.Hour})
	x := []string{named(t, "x")}
	if err := s.Ensure("a", 0, x); err != nil {
		t.Fatalf(`s.Ensure("a", 0, x): %v`, err)
	}
	if err := s.Ensure("b", 0, x); err != nil {
		t.Fatalf(`s.Ensure("b", 0, x): %v`, err)
	}
	addrA, _ := at(t, s, "a")
	addrB, _ := at(t, s, "b")
	a, b := dial(t, addrA), dial(t, addrB)
	if got := answer(t, a); got != "x" {
		t.Fatalf("answer(t, a) = %q, want %q", got, "x")
	}
	if got := answer(t, b); got != "x" {
		t.Fatalf("answer(t, b) = %q, want %q", got, "x")
	}
	s.Remove("b") // it drains
	closes(t, s, cause)
	if got := answer(t, a); got != "" {
		t.Fatalf(`answer(t, a) = %q, want ""`, got)
	}
	if got := answer(t, b); got != "" {
		t.Fatalf(`answer(t, b) = %q, want ""`, got)
	}
	refuses(t, addrA)
	if got := s.Names(); len(got) != 0 {
		t.Fatalf("s.Names() = %v, want none", got)
	}
	if err := s.Ensure("a", 0, x); !errors.Is(err, balancer.ErrClosed) {
		t.Fatalf(`s.Ensure("a", 0, x) = %v, want %v`, err, balancer.ErrClosed)
	}
	s.Remove("a")
	closes(t, s, nil)
}

func TestCloseWaitsForDrainingConnections(t *testing.T) {
	s := newSet(t, balancer.Config{Drain: time.Hour})
	if err := s.Ensure("a", 0, []string{named(t, "x")}); err != nil {
		t.Fatalf(`s.Ensure("a", 0, []string{named(t, "x")}): %v`, err)
	}
	a, _ := s.Get("a")
	c := dial(t, a.Addr().String())
	if got := answer(t, c); got != "x" {
		t.Fatalf("answer(t, c) = %q, want %q", got, "x")
	}
	s.Remove("a")
	if got := a.Stats().Open; got != 1 {
		t.Fatalf("a.Stats().Open = %v, want 1", got)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Close(ctx); err != nil {
		t.Fatalf("s.Close(ctx): %v", err)
	}
	if got := a.Stats().Open; got != 0 {
		t.Fatalf("a.Stats().Open = %v, want 0", got)
	}
}

func TestPortsAreValidated(t *testing.T) {
	s := newSet(t, balancer.Config{})
	for _, port := range []int{-1, 65536} {
		if got, want := fmt.Sprint(s.Ensure("a", port, nil)), "the limits are 0 and 65535"; !strings.Contains(got, want) {
			t.Fatalf(`s.Ensure("a", port, nil) = %q, want an error that contains %q`, got, want)
		}
	}
}

func TestBackendIsBusyWhileMovedBalancerDrains(t *testing.T) {
	s := newSet(t, balancer.Config{})
	x, y := named(t, "x"), named(t, "y")
	if err := s.Ensure("a", 0, []string{x}); err != nil {
		t.Fatalf(`s.Ensure("a", 0, []string{x}): %v`, err)
	}
	addr, port := at(t, s, "a")
	c := dial(t, addr)
	if got := answer(t, c); got != "x" {
		t.Fatalf("answer(t, c) = %q, want %q", got, "x")
	}
	for {
		other := dead(t)
		_, p, err := net.SplitHostPort(other)
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.Atoi(p)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Ensure("a", n, []string{x, y}); err == nil && n != port {
			break
		}
	}
	if err := s.Ensure("a", 0, []string{y}); err != nil {
		t.Fatalf(`s.Ensure("a", 0, []string{y}): %v`, err)
	}
	if !s.Busy(x) {
		t.Fatal("the balancer of the old port has a connection: s.Busy(x) is false")
	}
	if !talks(t, c) {
		t.Fatal("talks(t, c) is false")
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	for s.Busy(x) { // the balancer takes a moment to notice
		runtime.Gosched()
	}
	if !s.Busy(y) {
		t.Fatal("s.Busy(y) is false")
	}
	s.Remove("a")
	if s.Busy(y) {
		t.Fatal("s.Busy(y) is true")
	}
}
