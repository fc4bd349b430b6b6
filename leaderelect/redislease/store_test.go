package redislease_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/leasetest"
	"github.com/setpoint-go/setpoint/leaderelect/redislease"
	"github.com/setpoint-go/setpoint/retry"
)

func TestStoreConformsToLeaseStore(t *testing.T) {
	for name, bytes := range map[string]bool{"strings": false, "bytes": true} {
		t.Run(name, func(t *testing.T) {
			leasetest.Run(t, func(*testing.T) leasetest.Backend {
				m := newModel()
				m.bytes = bytes
				return leasetest.Backend{
					Store:  redislease.New(m, redislease.Config{}),
					Reopen: func() leaderelect.LeaseStore { return redislease.New(m, redislease.Config{}) },
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
	s := redislease.New(m, redislease.Config{})
	m.twice = true
	first, err := s.Create(ctx, leaderelect.Entry{Key: "lease", Value: []byte("a"), Term: 1})
	require.NoError(t, err)
	got, err := s.Get(ctx, "lease")
	require.NoError(t, err)
	assert.Equal(t, first, got)

	m.twice = true
	second, err := s.Update(ctx, first)
	require.NoError(t, err)
	assert.NotEqual(t, first.Version, second.Version)
	_, err = s.Update(ctx, first)
	require.ErrorIs(t, err, leaderelect.ErrConflict)
}

func TestPrefixesSeparateStores(t *testing.T) {
	ctx := context.Background()
	m := newModel()
	a, b := redislease.New(m, redislease.Config{}), redislease.New(m, redislease.Config{Prefix: "{b}"})
	_, err := a.Create(ctx, leaderelect.Entry{Key: "lease", Term: 1})
	require.NoError(t, err)
	_, err = b.Get(ctx, "lease")
	require.ErrorIs(t, err, leaderelect.ErrNotFound)
	assert.Contains(t, m.hashes, "{leases}:lease")
}

func TestListReadsPagesOfOneHundred(t *testing.T) {
	ctx := context.Background()
	m := newModel()
	s := redislease.New(m, redislease.Config{})
	for i := range 250 {
		_, err := s.Create(ctx, leaderelect.Entry{Key: strings.Repeat("k", i), Term: 1})
		require.NoError(t, err)
	}
	m.calls = 0
	list, err := s.List(ctx, "")
	require.NoError(t, err)
	assert.Len(t, list, 250)
	assert.Equal(t, 4, m.calls)
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
		s := redislease.New(m, redislease.Config{})
		_, err := s.Create(ctx, leaderelect.Entry{Key: "lease", Term: 1})
		require.NoError(t, err)
		m.answer = func(any) (any, error) { return reply, nil }
		vague := func(err error) {
			t.Helper()
			require.ErrorContains(t, err, "unexpected reply", "%v", reply)
			require.NotErrorIs(t, err, leaderelect.ErrConflict)
			require.NotErrorIs(t, err, leaderelect.ErrNotFound)
			require.NotErrorIs(t, err, redislease.ErrFenced)
		}
		_, err = s.Get(ctx, "lease")
		vague(err)
		_, err = s.Create(ctx, leaderelect.Entry{Key: "lease"})
		vague(err)
		_, err = s.Update(ctx, leaderelect.Entry{Key: "lease"})
		vague(err)
	}
	m := newModel()
	s := redislease.New(m, redislease.Config{})
	for _, reply := range []any{nil, "a", []any{int64(1)}} {
		m.answer = func(any) (any, error) { return reply, nil }
		_, err := s.List(ctx, "")
		require.ErrorContains(t, err, "unexpected reply")
	}
	for _, reply := range []any{nil, int64(1), []any{int64(1), "a", "b"}} {
		m.answer = func(any) (any, error) { return reply, nil }
		_, err := s.GuardedTerm(ctx, "lease", 1, "", nil)
		require.ErrorContains(t, err, "unexpected reply")
	}
}

func TestErrorOfClientIsWrapped(t *testing.T) {
	ctx := context.Background()
	m := newModel()
	s := redislease.New(m, redislease.Config{})
	e, err := s.Create(ctx, leaderelect.Entry{Key: "lease", Term: 12})
	require.NoError(t, err)
	m.script = func([]string, []any) any { return "done" }
	got, err := s.GuardedTerm(ctx, "lease", 12, "...", nil)
	require.NoError(t, err)
	assert.Equal(t, "done", got)

	m.answer = func(any) (any, error) { return nil, errNetwork }
	_, err = s.Get(ctx, "lease")
	require.ErrorIs(t, err, errNetwork)
	_, err = s.Create(ctx, leaderelect.Entry{Key: "another"})
	require.ErrorIs(t, err, errNetwork)
	_, err = s.Update(ctx, e)
	require.ErrorIs(t, err, errNetwork)
	_, err = s.List(ctx, "")
	require.ErrorIs(t, err, errNetwork, "of the keys")
	m.answer = func(reply any) (any, error) {
		m.answer = func(any) (any, error) { return nil, errNetwork }
		return reply, nil
	}
	_, err = s.List(ctx, "")
	require.ErrorIs(t, err, errNetwork, "of the records")
	m.answer = func(any) (any, error) {
		m.answer = nil
		return []any{int64(1)}, nil
	}
	_, err = s.List(ctx, "")
	require.ErrorContains(t, err, "unexpected reply", "a key that is no text")
}

func TestGuardedScriptHasDeadlineOfLease(t *testing.T) {
	m := newModel()
	m.script = func([]string, []any) any { return nil }
	var deadline time.Time
	s := redislease.New(redislease.Func(func(ctx context.Context, script string, keys []string, args ...any) (any, error) {
		if strings.Contains(script, "guarded") {
			deadline, _ = ctx.Deadline()
		}
		return m.Eval(ctx, script, keys, args...)
	}), redislease.Config{})
	elector, err := leaderelect.New(leaderelect.Config{
		Store: s, Key: "lease", Identity: "test", Logger: slog.New(slog.DiscardHandler),
		OnStartedLeading: func(ctx context.Context, l *leaderelect.Leadership) error {
			_, err := s.Guarded(l.Context(), "", nil)
			assert.Equal(t, l.Deadline(), deadline)
			return err
		},
	})
	require.NoError(t, err)
	require.NoError(t, elector.RunOnce(context.Background()))
}

func TestReplacedLeaderCannotUseTermOfAnotherLease(t *testing.T) {
	m := newModel()
	m.script = func([]string, []any) any { return nil }
	s := redislease.New(m, redislease.Config{})
	_, err := s.Create(t.Context(), leaderelect.Entry{Key: "another lease", Term: 1})
	require.NoError(t, err)
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
				require.EqualError(t, err, `redislease: guard by "lease": term 1: term is over`)
				return nil
			},
		})
		require.NoError(t, err)
		require.NoError(t, elector.RunOnce(t.Context()))
	}
}

var errScript = errors.New("no")

func TestOnlyCurrentLeadersScriptRuns(t *testing.T) {
	m := newModel()
	s := redislease.New(m, redislease.Config{})
	runs := 0
	m.script = func(keys []string, args []any) any {
		runs++
		assert.Equal(t, []string{"{leases}:k"}, keys)
		assert.Equal(t, []any{"v", 7}, args)
		return "done"
	}
	lead := func(f func(ctx context.Context)) {
		elector, err := leaderelect.New(leaderelect.Config{
			Store: s, Key: "lease", Identity: "test", Logger: slog.New(slog.DiscardHandler),
			OnStartedLeading: func(ctx context.Context, _ *leaderelect.Leadership) error { f(ctx); return nil },
		})
		require.NoError(t, err)
		require.NoError(t, elector.RunOnce(context.Background()))
	}
	var past context.Context
	lead(func(ctx context.Context) {
		past = context.WithoutCancel(ctx)
		got, err := s.Guarded(ctx, "...", []string{"{leases}:k"}, "v", 7)
		require.NoError(t, err)
		assert.Equal(t, "done", got)
	})
	lead(func(ctx context.Context) {
		_, err := s.Guarded(past, "...", []string{"{leases}:k"}, "v", 7)
		require.ErrorIs(t, err, redislease.ErrFenced)
		var fenced interface{ Fenced() bool }
		assert.True(t, errors.As(err, &fenced) && fenced.Fenced(), "a controller does not try again")
		assert.EqualError(t, err, `redislease: guard by "lease": term 1: term is over`)
		assert.Equal(t, 1, runs)
		m.script = func([]string, []any) any { return nil }
		got, err := s.Guarded(ctx, "...", nil)
		require.NoError(t, err)
		assert.Nil(t, got)
		m.answer = func(any) (any, error) { return nil, errNetwork }
		_, err = s.Guarded(ctx, "...", nil)
		require.ErrorIs(t, err, errNetwork)
		require.NotErrorIs(t, err, redislease.ErrFenced)
		m.answer = func(any) (any, error) { return []any{int64(1), errScript}, nil }
		_, err = s.Guarded(ctx, "return redis.error_reply('no')", nil)
		require.ErrorIs(t, err, errScript, "clients return a script error in its place")
		m.answer = nil
	})
	_, err := s.Guarded(context.Background(), "...", nil)
	require.EqualError(t, err, `redislease: guard: the context belongs to no leadership`)
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = s.GuardedTerm(ended, "lease", 2, "...", nil)
	require.ErrorIs(t, err, context.Canceled)
}

func TestOnlyErrorsThatLastArePermanent(t *testing.T) {
	for text, want := range map[string]bool{
		"NOAUTH Authentication required.": true, "NOPERM User u has no permissions to run the 'eval' command": true,
		"WRONGPASS invalid username-password pair": true, "CROSSSLOT Keys in request don't hash to the same slot": true,
		"WRONGTYPE Operation against a key holding the wrong kind of value script: 1a, on @user_script:2.": true,

		"READONLY You can't write against a read only replica.": false, "LOADING Redis is loading the dataset in memory": false,
		"OOM command not allowed when used memory > 'maxmemory'.": false, "CLUSTERDOWN The cluster is down": false,
		"MISCONF Redis is configured to save RDB snapshots": false, "connection reset": false, "": false,
	} {
		m := newModel()
		m.answer = func(any) (any, error) { return nil, fmt.Errorf("%w", errors.New(text)) }
		s := redislease.New(m, redislease.Config{})
		_, err := s.Get(t.Context(), "lease")
		assert.Equal(t, want, retry.IsPermanent(err), "%v", err)
		_, err = s.Create(t.Context(), leaderelect.Entry{Key: "lease"})
		assert.Equal(t, want, retry.IsPermanent(err), "%v", err)
		_, err = s.List(t.Context(), "")
		assert.Equal(t, want, retry.IsPermanent(err), "%v", err)
	}
}

func TestCallAfterEndOfContextReturnsCause(t *testing.T) {
	cause := errors.New("the replica drains")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	s := redislease.New(newModel(), redislease.Config{})
	_, err := s.Get(ctx, "lease")
	require.ErrorIs(t, err, cause)
	_, err = s.Create(ctx, leaderelect.Entry{Key: "lease"})
	require.ErrorIs(t, err, cause)
}
