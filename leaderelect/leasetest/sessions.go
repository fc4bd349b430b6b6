package leasetest

import (
	"context"
	"crypto/rand"
	"sync/atomic"
	"testing"
	"time"

	"github.com/setpoint-go/setpoint/leaderelect"
)

// soon is how long a session may take to begin, to end, and to be reported. If it takes longer, a follower might as well wait for the lease.
const soon = 5 * time.Second

var sessionCases = []testCase{
	{"a session is held until the context of Hold ends", func(t testing.TB, b Backend) {
		s := needsSessions(t, b)
		for range 3 {
			h := hold(t, s, rand.Text())
			h.stays(t)
			h.end(t)
			if n := h.calls.Load(); n != 1 {
				t.Fatalf("Hold calls its function %d times, want once", n)
			}
		}
	}},

	{"a session is held when Hold calls its function", func(t testing.TB, b Backend) {
		s, name := needsSessions(t, b), rand.Text()
		ctx, cancel := context.WithTimeout(context.Background(), Patience)
		defer cancel()
		called := false
		_ = s.Hold(ctx, name, func() {
			defer cancel()
			called = true
			short, cancel := context.WithTimeout(context.Background(), deadline)
			defer cancel()
			if err := s.AwaitEnd(short, name); err == nil {
				t.Errorf("AwaitEnd returns nil in the function that Hold calls")
			}
		})
		if !called {
			t.Fatalf("Hold does not call its function for %v", Patience)
		}
	}},

	{"at most one call holds a session", func(t testing.TB, b Backend) {
		s, name := needsSessions(t, b), rand.Text()
		h := hold(t, s, name)
		ctx, cancel := context.WithTimeout(context.Background(), deadline)
		defer cancel()
		err := s.Hold(ctx, name, func() { t.Errorf("two calls hold a session") })
		if err == nil {
			t.Fatalf("Hold of a session that another call holds returns no error")
		}
		h.stays(t)
		h.end(t)
	}},

	{"AwaitEnd blocks while a session is held, and reports its end to all that wait, and later", func(t testing.TB, b Backend) {
		s, name := needsSessions(t, b), rand.Text()
		h := hold(t, s, name)
		waits := []chan error{awaitEnd(t, s, name), awaitEnd(t, s, name), awaitEnd(t, s, name)}
		for _, w := range waits {
			blocks(t, w)
		}
		h.end(t)
		for _, w := range waits {
			reports(t, w)
		}
		for range 2 {
			reports(t, awaitEnd(t, s, name))
		}
	}},

	{"AwaitEnd blocks until the end of the session that it names, not of another", func(t testing.TB, b Backend) {
		s := needsSessions(t, b)
		for _, otherOf := range []func(string) string{
			func(n string) string { return n + "A" },
			func(n string) string { return n[:len(n)-1] },
			func(n string) string { return "SESSION" + n[len("session"):] },
			func(n string) string { return n + "\x00" },
			func(string) string { return rand.Text() },
		} {
			name := "session " + rand.Text() // each is used once
			other := otherOf(name)
			first, second := hold(t, s, name), hold(t, s, other)
			ofFirst, ofSecond := awaitEnd(t, s, name), awaitEnd(t, s, other)
			blocks(t, ofFirst)
			blocks(t, ofSecond)
			first.end(t)
			reports(t, ofFirst)
			blocks(t, ofSecond)
			second.end(t)
			reports(t, ofSecond)
		}
	}},

	{"AwaitEnd returns an error soon after its context has ended", func(t testing.TB, b Backend) {
		s, name := needsSessions(t, b), rand.Text()
		h := hold(t, s, name)
		for _, wait := range []time.Duration{0, deadline} {
			ctx, cancel := withCancelAfter(context.Background(), wait)
			if wait == 0 {
				cancel()
			}
			begin := time.Now()
			err := s.AwaitEnd(ctx, name)
			cancel()
			if err == nil {
				t.Fatalf("AwaitEnd with a context that has ended reports the end of a session that is held")
			}
			if took := time.Since(begin); took > wait+soon {
				t.Fatalf("AwaitEnd returns %v after the end of its context", took-wait)
			}
		}
		h.stays(t)
		h.end(t)
	}},
}

// needsSessions returns the sessions of b, or skips the case.
func needsSessions(t testing.TB, b Backend) leaderelect.Sessions {
	t.Helper()
	if b.Sessions == nil {
		t.Skip("the backend has no Sessions")
	}
	return b.Sessions
}

// holder is a session that is held.
type holder struct {
	name   string
	cancel context.CancelFunc
	calls  atomic.Int32
	done   chan error
}

// hold begins a session, and returns when it is held.
func hold(t testing.TB, s leaderelect.Sessions, name string) *holder {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	h := &holder{name: name, cancel: cancel, done: make(chan error, 1)}
	held := make(chan struct{}, 10)
	// This goroutine holds the session. It ends with it, and end waits for it.
	go func() {
		h.done <- s.Hold(ctx, name, func() {
			h.calls.Add(1)
			held <- struct{}{}
		})
	}()
	timer := time.NewTimer(soon)
	defer timer.Stop()
	select {
	case <-held:
	case err := <-h.done:
		t.Fatalf("Hold of a new session: %v", err)
	case <-timer.C:
		t.Fatalf("Hold of a new session does not call its function for %v", soon)
	}
	return h
}

// stays requires that Hold does not return.
func (h *holder) stays(t testing.TB) {
	t.Helper()
	timer := time.NewTimer(deadline)
	defer timer.Stop()
	select {
	case err := <-h.done:
		t.Fatalf("Hold returns before its context ends: error %v", err)
	case <-timer.C:
	}
}

// end ends the session, and requires that Hold returns an error.
func (h *holder) end(t testing.TB) {
	t.Helper()
	h.cancel()
	timer := time.NewTimer(soon)
	defer timer.Stop()
	select {
	case err := <-h.done:
		if err == nil {
			t.Fatalf("Hold does not say why it returned: its error is nil")
		}
	case <-timer.C:
		t.Fatalf("Hold does not return for %v after its context has ended", soon)
	}
}

// awaitEnd calls AwaitEnd, and returns where its result arrives.
func awaitEnd(t testing.TB, s leaderelect.Sessions, name string) chan error {
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	result := make(chan error, 1)
	// This goroutine waits for the end of the session, and the case for it; the end of the case ends its context.
	go func() { result <- s.AwaitEnd(ctx, name) }()
	return result
}

// blocks requires that a call of AwaitEnd does not return.
func blocks(t testing.TB, result chan error) {
	t.Helper()
	timer := time.NewTimer(deadline / 5)
	defer timer.Stop()
	select {
	case err := <-result:
		t.Fatalf("AwaitEnd returns while the session is held: error %v", err)
	case <-timer.C:
	}
}

// reports requires that a call of AwaitEnd reports the end of the session.
func reports(t testing.TB, result chan error) {
	t.Helper()
	timer := time.NewTimer(soon)
	defer timer.Stop()
	select {
	case err := <-result:
		if err != nil {
			t.Fatalf("AwaitEnd of a session that has ended: %v", err)
		}
	case <-timer.C:
		t.Fatalf("AwaitEnd has not reported the end of a session for %v", soon)
	}
}
