package redislease_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/leasetest"
	"github.com/setpoint-go/setpoint/leaderelect/redislease"
)

func TestStoreConformsToLeaseStore(t *testing.T) {
	for name, bytes := range map[string]bool{"strings": false, "bytes": true} {
		t.Run(name, func(t *testing.T) {
			leasetest.Run(t, func(*testing.T) leasetest.Backend {
				m := newModel()
				m.bytes = bytes
				return leasetest.Backend{
					Store:  must(redislease.New(m, redislease.Config{})),
					Reopen: func() leaderelect.LeaseStore { return must(redislease.New(m, redislease.Config{})) },
					Delete: func(key string) { delete(m.hashes, "{leases}:"+key) },
					CutReply: func() {
						m.answer = func(any) (any, error) {
							m.answer = nil
							return nil, errNetwork
						}
					},
				}
			})
		})
	}
}

func TestWriteSentTwiceIsAppliedOnce(t *testing.T) {
	ctx := context.Background()
	m := newModel()
	s := must(redislease.New(m, redislease.Config{}))
	m.twice = true
	first, err := s.Create(ctx, leaderelect.Entry{Key: "lease", Value: []byte("a"), Term: 1})
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Get(ctx, "lease")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, got); diff != "" {
		t.Errorf("got mismatch (-want +got):\n%s", diff)
	}

	m.twice = true
	second, err := s.Update(ctx, first)
	if err != nil {
		t.Fatal(err)
	}
	if second.Version == first.Version {
		t.Errorf("second.Version = %q, want another", second.Version)
	}
	_, err = s.Update(ctx, first)
	if !errors.Is(err, leaderelect.ErrConflict) {
		t.Fatalf("err = %v, want %v", err, leaderelect.ErrConflict)
	}
}

func TestPrefixesSeparateStores(t *testing.T) {
	ctx := context.Background()
	m := newModel()
	a, b := must(redislease.New(m, redislease.Config{})), must(redislease.New(m, redislease.Config{Prefix: "{b}"}))
	_, err := a.Create(ctx, leaderelect.Entry{Key: "lease", Term: 1})
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.Get(ctx, "lease")
	if !errors.Is(err, leaderelect.ErrNotFound) {
		t.Fatalf("err = %v, want %v", err, leaderelect.ErrNotFound)
	}
	if _, ok := m.hashes["{leases}:lease"]; !ok {
		t.Errorf("m.hashes = %v, want it to contain %v", m.hashes, "{leases}:lease")
	}
}

func TestListReadsPagesOfOneHundred(t *testing.T) {
	ctx := context.Background()
	m := newModel()
	s := must(redislease.New(m, redislease.Config{}))
	for i := range 250 {
		_, err := s.Create(ctx, leaderelect.Entry{Key: strings.Repeat("k", i), Term: 1})
		if err != nil {
			t.Fatal(err)
		}
	}
	m.calls = 0
	list, err := s.List(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 250 {
		t.Errorf("len(list) = %d, want 250: %v", len(list), list)
	}
	if m.calls != 4 {
		t.Errorf("m.calls = %v, want 4", m.calls)
	}
}

func TestUnexpectedReplyIsAnAmbiguousError(t *testing.T) {
	ctx := context.Background()
	record := func(fields ...any) any { return []any{[]any(fields)} }
	for _, reply := range []any{
		nil, int64(2), "1", true, []any{}, []any{nil}, []any{int64(1)}, []any{"a"}, record(nil), record("v", "1"), record("v", "1", "a", "b"),
		record("v", "one", "a"), record("v", "-1", "a"), record("", "1", "a"), record("v", int64(1), "a"), record(int64(1), "1", "a"),
		record("v", "1", nil), record("v", "18446744073709551616", "a"), []any{[]any{}, []any{}},
	} {
		m := newModel()
		s := must(redislease.New(m, redislease.Config{}))
		_, err := s.Create(ctx, leaderelect.Entry{Key: "lease", Term: 1})
		if err != nil {
			t.Fatal(err)
		}
		m.answer = func(any) (any, error) { return reply, nil }
		vague := func(err error) {
			t.Helper()
			if got := fmt.Sprint(err); !strings.Contains(got, "unexpected reply") {
				t.Fatalf("%v: err = %q, want an error that contains %q", reply, got, "unexpected reply")
			}
			if errors.Is(err, leaderelect.ErrConflict) {
				t.Fatalf("err = %v, want another error", err)
			}
			if errors.Is(err, leaderelect.ErrNotFound) {
				t.Fatalf("err = %v, want another error", err)
			}
			if errors.Is(err, redislease.ErrFenced) {
				t.Fatalf("err = %v, want another error", err)
			}
		}
		_, err = s.Get(ctx, "lease")
		vague(err)
		_, err = s.Create(ctx, leaderelect.Entry{Key: "lease"})
		vague(err)
		_, err = s.Update(ctx, leaderelect.Entry{Key: "lease"})
		vague(err)
	}
	m := newModel()
	s := must(redislease.New(m, redislease.Config{}))
	for _, reply := range []any{nil, "a", []any{int64(1)}} {
		m.answer = func(any) (any, error) { return reply, nil }
		_, err := s.List(ctx, "")
		if got := fmt.Sprint(err); !strings.Contains(got, "unexpected reply") {
			t.Fatalf("err = %q, want an error that contains %q", got, "unexpected reply")
		}
	}
	for _, reply := range []any{nil, int64(1), []any{int64(1), "a", "b"}} {
		m.answer = func(any) (any, error) { return reply, nil }
		_, err := s.GuardedTerm(ctx, "lease", 1, "", nil)
		if got := fmt.Sprint(err); !strings.Contains(got, "unexpected reply") {
			t.Fatalf("err = %q, want an error that contains %q", got, "unexpected reply")
		}
	}
}

func TestGuardedScriptHasDeadlineOfLease(t *testing.T) {
	m := newModel()
	m.script = func([]string, []any) any { return nil }
	var deadline time.Time
	s := must(redislease.New(redislease.Func(func(ctx context.Context, script string, keys []string, args ...any) (any, error) {
		if strings.Contains(script, "guarded") {
			deadline, _ = ctx.Deadline()
		}
		return m.Eval(ctx, script, keys, args...)
	}), redislease.Config{}))
	elector, err := leaderelect.New(leaderelect.Config{
		Store: s, Key: "lease", Identity: "test", Logger: slog.New(slog.DiscardHandler),
		OnStartedLeading: func(ctx context.Context, l *leaderelect.Leadership) error {
			_, err := s.Guarded(l.Context(), "", nil)
			if want := l.Deadline(); !deadline.Equal(want) {
				t.Errorf("deadline = %v, want %v", deadline, want)
			}
			return err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := elector.RunOnce(context.Background()); err != nil {
		t.Fatalf("elector.RunOnce(context.Background()): %v", err)
	}
}

func TestReplacedLeaderCannotUseTermOfAnotherLease(t *testing.T) {
	m := newModel()
	m.script = func([]string, []any) any { return nil }
	s := must(redislease.New(m, redislease.Config{}))
	_, err := s.Create(t.Context(), leaderelect.Entry{Key: "another lease", Term: 1})
	if err != nil {
		t.Fatal(err)
	}
	var past context.Context
	for range 2 {
		elector, err := leaderelect.New(leaderelect.Config{
			Store: s, Key: "lease", Identity: "test", Logger: slog.New(slog.DiscardHandler),
			OnStartedLeading: func(ctx context.Context, _ *leaderelect.Leadership) error {
				if past == nil {
					past = context.WithoutCancel(ctx)
					return nil
				}
				_, err := s.Guarded(past, "...", nil)
				if got, want := fmt.Sprint(err), `redislease: guard by "lease": term 1: redislease: term is over`; got != want {
					t.Fatalf("err = %q, want %q", got, want)
				}
				return nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := elector.RunOnce(t.Context()); err != nil {
			t.Fatalf("elector.RunOnce(ctx): %v", err)
		}
	}
}

var errScript = errors.New("no")

func TestOnlyCurrentLeadersScriptRuns(t *testing.T) {
	m := newModel()
	s := must(redislease.New(m, redislease.Config{}))
	runs := 0
	m.script = func(keys []string, args []any) any {
		runs++
		if want := ([]string{"{leases}:k"}); !slices.Equal(keys, want) {
			t.Errorf("keys = %q, want %q", keys, want)
		}
		if diff := cmp.Diff([]any{"v", 7}, args); diff != "" {
			t.Errorf("args mismatch (-want +got):\n%s", diff)
		}
		return "done"
	}
	lead := func(f func(ctx context.Context)) {
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
	var past context.Context
	lead(func(ctx context.Context) {
		past = context.WithoutCancel(ctx)
		got, err := s.Guarded(ctx, "...", []string{"{leases}:k"}, "v", 7)
		if err != nil {
			t.Fatal(err)
		}
		if got != any("done") {
			t.Errorf("got = %v, want %v", got, "done")
		}
	})
	lead(func(ctx context.Context) {
		_, err := s.Guarded(past, "...", []string{"{leases}:k"}, "v", 7)
		if !errors.Is(err, redislease.ErrFenced) {
			t.Fatalf("err = %v, want %v", err, redislease.ErrFenced)
		}
		if got, want := fmt.Sprint(err), `redislease: guard by "lease": term 1: redislease: term is over`; got != want {
			t.Errorf("err = %q, want %q", got, want)
		}
		if runs != 1 {
			t.Errorf("runs = %v, want 1", runs)
		}
		m.script = func([]string, []any) any { return nil }
		got, err := s.Guarded(ctx, "...", nil)
		if err != nil {
			t.Fatal(err)
		}
		if got != nil {
			t.Errorf("got = %v, want nil", got)
		}
		m.answer = func(any) (any, error) { return nil, errNetwork }
		_, err = s.Guarded(ctx, "...", nil)
		if !errors.Is(err, errNetwork) {
			t.Fatalf("err = %v, want %v", err, errNetwork)
		}
		if errors.Is(err, redislease.ErrFenced) {
			t.Fatalf("err = %v, want another error", err)
		}
		m.answer = func(any) (any, error) { return []any{int64(1), errScript}, nil }
		_, err = s.Guarded(ctx, "return redis.error_reply('no')", nil)
		if !errors.Is(err, errScript) {
			t.Fatalf("clients return a script error in its place: err = %v, want %v", err, errScript)
		}
		m.answer = nil
	})
	_, err := s.Guarded(context.Background(), "...", nil)
	if got, want := fmt.Sprint(err), `redislease: guard: the context belongs to no leadership`; got != want {
		t.Fatalf("err = %q, want %q", got, want)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = s.GuardedTerm(ended, "lease", 2, "...", nil)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("err = %v, want %v", err, context.Canceled)
	}
}
