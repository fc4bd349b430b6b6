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
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/setpoint-go/setpoint/examples/webapp/balancer"
)

func TestConnectionsAreRoundRobin(t *testing.T) {
	b := listen(t, balancer.Config{}, named(t, "x"), named(t, "y"), named(t, "z"))
	for _, want := range []string{"x", "y", "z", "x", "y", "z", "x"} {
		if got := ask(t, b.Addr().String()); got != want {
			t.Fatalf("ask(t, b.Addr().String()) = %q, want %q", got, want)
		}
	}
	if got := b.Stats().Accepted; got != 7 {
		t.Fatalf("b.Stats().Accepted = %v, want 7", got)
	}
	if got := b.Stats().Refused; got != 0 {
		t.Fatalf("b.Stats().Refused = %v, want 0", got)
	}
}

func TestUnreachableBackendIsSkipped(t *testing.T) {
	b := listen(t, balancer.Config{}, named(t, "x"), dead(t), "no address", named(t, "y"))
	for _, want := range []string{"x", "y", "y", "y", "x"} {
		if got := ask(t, b.Addr().String()); got != want {
			t.Fatalf("ask(t, b.Addr().String()) = %q, want %q", got, want)
		}
	}
}

func TestConnectionWithoutBackendIsClosed(t *testing.T) {
	b := listen(t, balancer.Config{})
	if got := ask(t, b.Addr().String()); got != "" {
		t.Fatalf(`ask(t, b.Addr().String()) = %q, want ""`, got)
	}
	b.SetBackends([]string{dead(t), dead(t)})
	if got := ask(t, b.Addr().String()); got != "" {
		t.Fatalf(`ask(t, b.Addr().String()) = %q, want ""`, got)
	}
	b.SetBackends(nil)
	if got := ask(t, b.Addr().String()); got != "" {
		t.Fatalf(`ask(t, b.Addr().String()) = %q, want ""`, got)
	}
	closes(t, b, nil)
	if got, want := b.Stats(), (balancer.Stats{Accepted: 3, Refused: 3}); got != want {
		t.Fatalf("b.Stats() = %+v, want %+v", got, want)
	}
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
	if err := b.Close(ctx); !errors.Is(err, cause) {
		t.Fatalf("b.Close(ctx) = %v, want %v", err, cause)
	}
}

func TestBackendChangesApplyToNewConnections(t *testing.T) {
	x := named(t, "x")
	backends := []string{x}
	b := listen(t, balancer.Config{}, backends...)
	b.SetBackends(backends)
	backends[0] = "changed by the caller"
	if got, want := b.Backends(), ([]string{x}); !slices.Equal(got, want) {
		t.Fatalf("b.Backends() = %q, want %q", got, want)
	}
	b.Backends()[0] = "changed by a reader"

	old := dial(t, b.Addr().String())
	if got := answer(t, old); got != "x" {
		t.Fatalf("answer(t, old) = %q, want %q", got, "x")
	}
	b.SetBackends([]string{named(t, "y")})
	if got := ask(t, b.Addr().String()); got != "y" {
		t.Fatalf("ask(t, b.Addr().String()) = %q, want %q", got, "y")
	}
	if !talks(t, old) {
		t.Fatal("talks(t, old) is false")
	}
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestBackendIsBusyUntilLastConnectionEnds(t *testing.T) {
	ended := make(chan struct{})
	x, y := backend(t, func(c *net.TCPConn) {
		_, _ = io.WriteString(c, "x\n")
		_, _ = io.Copy(io.Discard, c)
		close(ended)
	}), named(t, "y")
	b := listen(t, balancer.Config{}, x)
	if !b.Busy(x) {
		t.Fatal("it may get connections: b.Busy(x) is false")
	}
	if b.Busy(y) {
		t.Fatal("b.Busy(y) is true")
	}
	c := dial(t, b.Addr().String())
	if got := answer(t, c); got != "x" {
		t.Fatalf("answer(t, c) = %q, want %q", got, "x")
	}
	b.SetBackends([]string{y})
	if !b.Busy(x) {
		t.Fatal("it has one: b.Busy(x) is false")
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	<-ended
	for b.Busy(x) { // the balancer takes a moment to notice
		runtime.Gosched()
	}
	if got := ask(t, b.Addr().String()); got != "y" {
		t.Fatalf("ask(t, b.Addr().String()) = %q, want %q", got, "y")
	}
	if b.Busy(x) {
		t.Fatal("b.Busy(x) is true")
	}
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
	if got := ask(t, b.Addr().String()); got != "y" {
		t.Fatalf("ask(t, b.Addr().String()) = %q, want %q", got, "y")
	}
	if b.Busy(gone) {
		t.Fatal("b.Busy(gone) is true")
	}
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
		if err != nil {
			t.Fatal(err)
		}
		if err := c.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if got := answer(t, c); got != "question <nil>" {
			t.Fatalf("answer(t, c) = %q, want %q", got, "question <nil>")
		}
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
		if err != nil {
			t.Fatal(err)
		}
		if got := string(all); got != "all of it" {
			t.Fatalf("string(all) = %q, want %q", got, "all of it")
		}
		_, err = io.WriteString(c, "thanks")
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if got := <-got; got != "thanks<nil>" {
			t.Fatalf("<-got = %q, want %q", got, "thanks<nil>")
		}
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
		if got := answer(t, c); got != "x" {
			t.Fatalf("answer(t, c) = %q, want %q", got, "x")
		}
		if err := c.SetLinger(0); err != nil {
			t.Fatal(err)
		} // a reset instead of an end
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
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
		if got := answer(t, c); got != "x" {
			t.Fatalf("answer(t, c) = %q, want %q", got, "x")
		}
		_, err := io.WriteString(c, "!")
		if err != nil {
			t.Fatal(err)
		}
		if got := answer(t, c); got != "" {
			t.Fatalf(`answer(t, c) = %q, want ""`, got)
		}
		closes(t, b, nil) // although the client has not hung up
	})
}

func TestCloseDrains(t *testing.T) {
	b := listen(t, balancer.Config{}, named(t, "x"))
	c := dial(t, b.Addr().String())
	if got := answer(t, c); got != "x" {
		t.Fatalf("answer(t, c) = %q, want %q", got, "x")
	}
	if got, want := b.Stats(), (balancer.Stats{Open: 1, Accepted: 1}); got != want {
		t.Fatalf("b.Stats() = %+v, want %+v", got, want)
	}
	closed := make(chan error, 1)
	// Close waits for the connection; the test receives its result.
	go func() { closed <- b.Close(context.Background()) }()
	for accepted := true; accepted; {
		other, err := net.Dial("tcp", b.Addr().String())
		if accepted = err == nil; accepted {
			other.Close()
		}
	}
	if !talks(t, c) {
		t.Fatal("talks(t, c) is false")
	}
	if len(closed) != 0 {
		t.Fatalf("closed = %v, want none", closed)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-closed; err != nil {
		t.Fatalf("<-closed: %v", err)
	}
	closes(t, b, nil) // again
}

func TestCloseCutsUndrainedConnections(t *testing.T) {
	b := listen(t, balancer.Config{}, named(t, "x"))
	first, second := dial(t, b.Addr().String()), dial(t, b.Addr().String())
	if got := answer(t, first); got != "x" {
		t.Fatalf("answer(t, first) = %q, want %q", got, "x")
	}
	if got := answer(t, second); got != "x" {
		t.Fatalf("answer(t, second) = %q, want %q", got, "x")
	}
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	err := b.Close(ctx)
	if !errors.Is(err, cause) {
		t.Fatalf("err = %v, want %v", err, cause)
	}
	if got, want := fmt.Sprint(err), fmt.Sprintf("balancer: close %s: 2 connections cut: enough", b.Addr()); got != want {
		t.Fatalf("err = %q, want %q", got, want)
	}
	if got := b.Stats().Open; got != 0 {
		t.Fatalf("b.Stats().Open = %v, want 0", got)
	}
	if got := answer(t, first); got != "" {
		t.Fatalf(`answer(t, first) = %q, want ""`, got)
	}
	if got := answer(t, second); got != "" {
		t.Fatalf(`answer(t, second) = %q, want ""`, got)
	}
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
			if err != nil {
				t.Fatal(err)
			}
			flaky := &flakyListener{Listener: l}
			flaky.failures.Store(failures)
			b := balancer.Serve(flaky, balancer.Config{Logger: quiet(), DialTimeout: time.Second})
			if failures < 10 {
				b.SetBackends([]string{named(t, "x")})
				if got := ask(t, l.Addr().String()); got != "x" {
					t.Fatalf("ask(t, l.Addr().String()) = %q, want %q", got, "x")
				}
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
	if got, want := b.Stats(), (balancer.Stats{Accepted: 100}); got != want {
		t.Fatalf("b.Stats() = %+v, want %+v", got, want)
	}
}

func TestNewRejectsInvalidConfig(t *testing.T) {
	for want, cfg := range map[string]balancer.Config{
		"Config.DialTimeout is -1ns, must not be negative": {DialTimeout: -1},
		"Config.Drain is -1ns, must not be negative":       {Drain: -1},
	} {
		_, err := balancer.Listen("127.0.0.1:0", cfg)
		if got := fmt.Sprint(err); !strings.Contains(got, want) {
			t.Fatalf("err = %q, want an error that contains %q", got, want)
		}
		_, err = balancer.NewSet(cfg)
		if got := fmt.Sprint(err); !strings.Contains(got, want) {
			t.Fatalf("err = %q, want an error that contains %q", got, want)
		}
	}
	_, err := balancer.Listen("nonsense", balancer.Config{})
	if got, want := fmt.Sprint(err), "balancer: listen tcp: address nonsense: missing port"; !strings.Contains(got, want) {
		t.Fatalf("err = %q, want an error that contains %q", got, want)
	}
}
