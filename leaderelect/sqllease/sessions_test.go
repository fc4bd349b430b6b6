package sqllease_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/leaderelect/sqllease"
)

func newSessions(t testing.TB, db *sql.DB) *sqllease.Sessions {
	t.Helper()
	s, err := sqllease.NewSessions(db, sqllease.SessionsConfig{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// hold has a session held. The channel gets the end of it.
func hold(ctx context.Context, s *sqllease.Sessions, session string) <-chan error {
	end := make(chan error, 1)
	go func() { end <- s.Hold(ctx, session, func() {}) }() // ends with ctx, or as the test wants it
	synctest.Wait()
	return end
}

// pending reports whether a call has not returned.
func pending(c <-chan error) bool {
	synctest.Wait()
	return len(c) == 0
}

func TestSessionEndsWithHoldersConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, db := openLocks(t)
		s := newSessions(t, db)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if err := s.Gone(ctx, "a"); err != nil {
			t.Fatalf(`no process holds it: s.Gone(ctx, "a"): %v`, err)
		}
		end := hold(ctx, s, "a")
		if got, want := fmt.Sprint(s.Hold(ctx, "a", func() { t.Error("it is held twice") })), "another connection has its lock"; !strings.Contains(got, want) {
			t.Fatalf("s.Hold = %q, want an error that contains %q", got, want)
		}
		if err := s.Gone(ctx, "b"); err != nil {
			t.Fatalf(`it has a lock of its own: s.Gone(ctx, "b"): %v`, err)
		}

		gone := make(chan error, 2)
		for range cap(gone) {
			go func() { gone <- s.Gone(ctx, "a") }() // ends with the session
		}
		time.Sleep(150 * time.Second)
		if !pending(gone) {
			t.Fatal("it is held: pending(gone) is false")
		}
		_, _, waits := server.counts()
		if waits != 2+2*3 {
			t.Errorf("each is begun again once in a minute: waits = %v, want %v", waits, 2+2*3)
		}
		if !pending(end) {
			t.Fatal("pending(end) is false")
		}
		cut := time.Now()
		server.cut()
		if err := <-gone; err != nil {
			t.Fatalf("<-gone: %v", err)
		}
		if err := <-gone; err != nil {
			t.Fatalf("<-gone: %v", err)
		}
		if got := time.Now(); !got.Equal(cut) {
			t.Errorf("at once: time.Now() = %v, want %v", got, cut)
		}
		if got, want := fmt.Sprint(<-end), `sqllease: hold session "a": `; !strings.Contains(got, want) {
			t.Fatalf("<-end = %q, want an error that contains %q", got, want)
		}
		if got := time.Since(cut); got > time.Second {
			t.Errorf("the holder learns it when it checks: time.Since(cut) = %v, want at most %v", got, time.Second)
		}
	})
}

func TestSessionEndsWithContextAndIsNotReused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, db := openLocks(t)
		s := newSessions(t, db)
		ctx, cancel := context.WithCancelCause(t.Context())
		end := hold(ctx, s, "a")
		open, held, _ := server.counts()
		if got, want := ([]int{open, held}), ([]int{1, 1}); !slices.Equal(got, want) {
			t.Fatalf("[]int{open, held} = %v, want %v", got, want)
		}
		cancel(errNetwork)
		if err := <-end; !errors.Is(err, errNetwork) {
			t.Fatalf("<-end = %v, want %v", err, errNetwork)
		}
		open, held, _ = server.counts()
		if got, want := ([]int{open, held}), ([]int{0, 0}); !slices.Equal(got, want) {
			t.Fatalf("[]int{open, held} = %v, want %v", got, want)
		}
		if err := s.Gone(t.Context(), "a"); err != nil {
			t.Fatalf(`s.Gone(ctx, "a"): %v`, err)
		}
	})
}

func TestWaitForSessionContinuesAfterLimitOfFastClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, db := openLocks(t)
		server.limit = 50 * time.Second // a minute of the server, whose clock is fast
		s := newSessions(t, db)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		hold(ctx, s, "a")
		gone := make(chan error, 1)
		go func() { gone <- s.Gone(t.Context(), "a") }() // ends with the session
		time.Sleep(time.Hour)
		if !pending(gone) {
			t.Fatalf("s.Gone(t.Context(), \"a\"): %v, want it to wait: a connection holds the session", <-gone)
		}
		cancel()
		if err := <-gone; err != nil {
			t.Fatalf("s.Gone(t.Context(), \"a\"): %v", err)
		}
	})
}

func TestWaitForSessionEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, db := openLocks(t)
		s := newSessions(t, db)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		hold(ctx, s, "a")
		short, stop := context.WithTimeout(ctx, 90*time.Second)
		defer stop()
		begin := time.Now()
		if err := s.Gone(short, "a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf(`s.Gone(short, "a") = %v, want %v`, err, context.DeadlineExceeded)
		}
		if got := time.Since(begin); got != 90*time.Second {
			t.Fatalf("time.Since(begin) = %v, want %v", got, 90*time.Second)
		}
	})
}

func TestStandbyIsNotQueriedForSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, db := openLocks(t)
		s := newSessions(t, db)
		server.is(func() { server.standby = true })
		if got := fmt.Sprint(s.Hold(t.Context(), "a", func() { t.Error("it is held") })); !strings.Contains(got, "standby") {
			t.Fatalf("s.Hold = %q, want an error that contains %q", got, "standby")
		}
		if got := fmt.Sprint(s.Gone(t.Context(), "a")); !strings.Contains(got, "standby") {
			t.Fatalf(`s.Gone(ctx, "a") = %q, want an error that contains %q`, got, "standby")
		}
	})
}

func TestTransactionPoolerIsDetected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, db := openLocks(t)
		s := newSessions(t, db)
		end := hold(t.Context(), s, "a")
		server.is(func() { server.pooled = true })
		if got := fmt.Sprint(<-end); !strings.Contains(got, "is a pooler in between?") {
			t.Fatalf("<-end = %q, want an error that contains %q", got, "is a pooler in between?")
		}
	})
}

func TestServerErrorDoesNotEndSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, db := openLocks(t)
		s := newSessions(t, db)
		server.slow = func(string) error { return errNetwork }
		if err := s.Hold(t.Context(), "a", func() { t.Error("it is held") }); !errors.Is(err, errNetwork) {
			t.Fatalf("s.Hold = %v, want %v", err, errNetwork)
		}
		if err := s.Gone(t.Context(), "a"); !errors.Is(err, errNetwork) {
			t.Fatalf(`s.Gone(ctx, "a") = %v, want %v`, err, errNetwork)
		}
		server.slow = nil
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if err := s.Hold(t.Context(), "a", func() { t.Error("it is held") }); err == nil {
			t.Fatal("s.Hold = nil, want an error")
		}
		if err := s.Gone(t.Context(), "a"); err == nil {
			t.Fatal(`s.Gone(ctx, "a") = nil, want an error`)
		}
	})
}

func TestNewSessionsPanicsWithoutDatabase(t *testing.T) {
	if got, want := panicOf(func() {
		_, _ = sqllease.NewSessions(nil, sqllease.SessionsConfig{})
	}), "sqllease: NewSessions: the database is nil"; got != want {
		t.Fatalf("panic = %v, want %v", got, want)
	}
}

func TestSessionsConfigErrorsNameTheField(t *testing.T) {
	_, err := sqllease.NewSessions(new(sql.DB), sqllease.SessionsConfig{CheckPeriod: -1})
	if got, want := fmt.Sprint(err), "sqllease: new sessions: SessionsConfig.CheckPeriod is -1ns, must not be negative"; !strings.Contains(got, want) {
		t.Fatalf("err = %q, want an error that contains %q", got, want)
	}
	_, err = sqllease.NewSessions(new(sql.DB), sqllease.SessionsConfig{})
	if err := errors.Join(err); err != nil {
		t.Fatal(err)
	}
}

// panicOf returns the value with which f panics.
func panicOf(f func()) (value any) {
	defer func() { value = recover() }()
	f()
	return nil
}
