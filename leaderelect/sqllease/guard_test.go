package sqllease_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"testing"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/sqllease"
)

// leading runs f as the work of a leader of the lease "lease" in s.
func leading(t *testing.T, s leaderelect.LeaseStore, f func(ctx context.Context)) {
	t.Helper()
	elector, err := leaderelect.New(leaderelect.Config{
		Store: s, Key: "lease", Identity: "test", Logger: slog.New(slog.DiscardHandler),
		OnStartedLeading: func(ctx context.Context, _ *leaderelect.Leadership) error { f(ctx); return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := elector.RunOnce(context.Background()); err != nil {
		t.Fatalf("elector.RunOnce(context.Background()): %v", err)
	}
}

func TestOnlyCurrentLeadersTransactionCommits(t *testing.T) {
	server, s := newStore(t, sqllease.Config{})
	var past context.Context
	leading(t, s, func(ctx context.Context) {
		past = context.WithoutCancel(ctx)
		server.log = nil
		if err := s.Transact(ctx, func(*sql.Tx) error { return nil }); err != nil {
			t.Fatalf("s.Transact: %v", err)
		}
		if want := ([]string{s.GuardQuery(), "COMMIT"}); !slices.Equal(server.log, want) {
			t.Errorf("server.log = %q, want %q", server.log, want)
		}

		server.log = nil
		mine := errors.New("mine")
		if got := s.Transact(ctx, func(*sql.Tx) error { return mine }); got != mine {
			t.Fatalf("s.Transact = %v, want %v", got, mine)
		}
		if want := ([]string{s.GuardQuery(), "ROLLBACK"}); !slices.Equal(server.log, want) {
			t.Errorf("server.log = %q, want %q", server.log, want)
		}

		server.before = func(query string) error {
			if query == "COMMIT" {
				return errNetwork
			}
			return nil
		}
		if err := s.Transact(ctx, func(*sql.Tx) error { return nil }); !errors.Is(err, errNetwork) {
			t.Fatalf("s.Transact = %v, want %v", err, errNetwork)
		}
		server.before = func(string) error { return errNetwork }
		err := s.Transact(ctx, func(*sql.Tx) error { t.Error("f is called without a guard"); return nil })
		if !errors.Is(err, errNetwork) {
			t.Fatalf("err = %v, want %v", err, errNetwork)
		}
		if errors.Is(err, sqllease.ErrFenced) {
			t.Fatalf("err = %v, want another error", err)
		}
		server.before = nil
	})
	server.log = nil
	err := s.Transact(past, func(*sql.Tx) error { t.Error("f is called after the leadership ended"); return nil })
	if !errors.Is(err, sqllease.ErrFenced) {
		t.Fatalf("err = %v, want %v", err, sqllease.ErrFenced)
	}
	if !errors.Is(err, leaderelect.ErrTermEnded) {
		t.Fatalf("err = %v, want %v", err, leaderelect.ErrTermEnded)
	}
	if want := ([]string{"ROLLBACK"}); !slices.Equal(server.log, want) {
		t.Errorf("by its own clock: server.log = %q, want %q", server.log, want)
	}

}

func TestReplacedLeaderCannotUseTermOfAnotherLease(t *testing.T) {
	server, s := newStore(t, sqllease.Config{})
	_, err := s.Create(t.Context(), leaderelect.Entry{Key: "another lease", Term: 1})
	if err != nil {
		t.Fatal(err)
	}
	leading(t, s, func(ctx context.Context) {
		if err := s.Transact(ctx, func(*sql.Tx) error { return nil }); err != nil {
			t.Fatalf("s.Transact: %v", err)
		}
		e, err := s.Get(ctx, "lease")
		if err != nil {
			t.Fatal(err)
		}
		e.Term = 2
		_, err = s.Update(ctx, e)
		if err != nil {
			t.Fatal(err)
		}
		server.log = nil
		err = s.Transact(ctx, func(*sql.Tx) error { t.Error("f is called"); return nil })
		if !errors.Is(err, sqllease.ErrFenced) {
			t.Fatalf("err = %v, want %v", err, sqllease.ErrFenced)
		}
		if got, want := fmt.Sprint(err), `sqllease: guard by "lease": term 1: sqllease: term is over`; got != want {
			t.Errorf("err = %q, want %q", got, want)
		}
		if want := ([]string{s.GuardQuery(), "ROLLBACK"}); !slices.Equal(server.log, want) {
			t.Errorf("server.log = %q, want %q", server.log, want)
		}
	})
}

func TestGuardRequiresLeadership(t *testing.T) {
	_, s := newStore(t, sqllease.Config{})
	err := s.Transact(context.Background(), nil)
	if got, want := fmt.Sprint(err), `sqllease: guard: the context belongs to no leadership`; got != want {
		t.Fatalf("err = %q, want %q", got, want)
	}
	if errors.Is(err, sqllease.ErrFenced) {
		t.Errorf("err = %v, want another error", err)
	}
	if err := s.GuardTerm(context.Background(), nil, "lease", math.MaxUint64); !errors.Is(err, sqllease.ErrFenced) {
		t.Fatalf(`s.GuardTerm(context.Background(), nil, "lease", math.MaxUint64) = %v, want %v`, err, sqllease.ErrFenced)
	}
}
