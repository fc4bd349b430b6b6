package leasetest

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/setpoint-go/setpoint/leaderelect"
)

var guardCases = []testCase{
	{"a guarded write needs the term of the record", func(t testing.TB, b Backend) {
		guard := guarded(t, b)
		have := create(t, b.Store, leaderelect.Entry{Key: key, Term: 1})
		create(t, b.Store, leaderelect.Entry{Key: "other", Term: 9})
		for _, term := range []uint64{1, 2, 3, 1 << 40, 1<<40 + 1} {
			have.Term = term
			have = update(t, b.Store, have, "a")
			guard.accepts(t, term)
			guard.refuses(t, term-1)
			guard.refuses(t, term+1)
			guard.refuses(t, 9)
			if low := term % (1 << 32); low != term {
				guard.refuses(t, low)
			}
			have = update(t, b.Store, have, "renewed")
			guard.accepts(t, term)
		}
		for _, term := range []uint64{0, 1} {
			err := guard.Do(context.Background(), "nobody's", term, func() { t.Errorf("a guarded write requires no record") })
			if !errors.Is(err, guard.Refused) {
				t.Fatalf("a guarded write of term %d without a record returns error %v", term, err)
			}
		}
		if b.Delete != nil {
			b.Delete(key)
			guard.refuses(t, have.Term)
			guard.refuses(t, 0)
		}
	}},

	{"a guarded write is guarded by the lease of its leadership", func(t testing.TB, b Backend) {
		guard := guarded(t, b)
		if guard.Leading == nil {
			t.Skip("the backend has no Guard.Leading")
		}
		write := func(ctx context.Context) (made bool, err error) {
			err = guard.Leading(ctx, func() { made = true })
			return made || guard.AtOnce && err == nil, err
		}
		lead(t, b.Store, func(ctx context.Context) {
			if made, err := write(ctx); !made || err != nil {
				t.Errorf("a guarded write of the leader: made %t, error %v", made, err)
			}
			have, err := b.Store.Get(ctx, key)
			if err != nil {
				t.Errorf("Get of the record of the leader: %v", err)
				return
			}
			// Another elector takes over, and the leader has not noticed yet.
			create(t, b.Store, leaderelect.Entry{Key: "other", Term: have.Term})
			have.Term++
			update(t, b.Store, have, "taken")
			if made, err := write(ctx); made || !errors.Is(err, guard.Refused) {
				t.Errorf("a guarded write of a leader that was replaced, while another lease has its term: made %t, error %v", made, err)
			}
		})
		if made, err := write(context.Background()); made || err == nil {
			t.Fatalf("a guarded write without a leadership: made %t, error %v", made, err)
		}
	}},

	{"a renewal does not wait for a guarded write", func(t testing.TB, b Backend) {
		guard := guarded(t, b)
		if guard.Exclusive || guard.AtOnce {
			t.Skip("guarded writes exclude all others")
		}
		have := create(t, b.Store, leaderelect.Entry{Key: key, Term: 3})
		err := guard.Do(context.Background(), key, 3, func() {
			begin := time.Now()
			ctx, cancel := context.WithTimeout(context.Background(), Patience)
			defer cancel()
			next := have
			next.Value = []byte("renewed")
			if _, err := b.Store.Update(ctx, next); err != nil {
				t.Errorf("a renewal waits %v for a guarded write: %v", time.Since(begin), err)
			}
		})
		if err != nil {
			t.Fatalf("a guarded write of the current term: %v", err)
		}
	}},

	{"the takeover of another lease does not wait for a guarded write", func(t testing.TB, b Backend) {
		guard := guarded(t, b)
		if guard.Exclusive || guard.AtOnce {
			t.Skip("guarded writes exclude all others")
		}
		create(t, b.Store, leaderelect.Entry{Key: key, Term: 3})
		other := create(t, b.Store, leaderelect.Entry{Key: "other", Term: 3})
		err := guard.Do(context.Background(), key, 3, func() {
			ctx, cancel := context.WithTimeout(context.Background(), Patience)
			defer cancel()
			other.Term = 4
			if _, err := b.Store.Update(ctx, other); err != nil {
				t.Errorf("the takeover of another lease waits for a guarded write: %v", err)
			}
		})
		if err != nil {
			t.Fatalf("a guarded write of the current term: %v", err)
		}
	}},

	{"a takeover waits for a guarded write", func(t testing.TB, b Backend) {
		guard := guarded(t, b)
		if guard.AtOnce {
			t.Skip("guarded writes are single steps")
		}
		have := create(t, b.Store, leaderelect.Entry{Key: key, Term: 3})
		taken := make(chan error, 1)
		err := guard.Do(context.Background(), key, 3, func() {
			// This goroutine takes over. It ends when the store lets it; it is waited for below.
			go func() {
				next := have
				next.Term = 4
				ctx, cancel := context.WithTimeout(context.Background(), Patience)
				defer cancel()
				for { // a backend may also ask to try again
					_, err := b.Store.Update(ctx, next)
					if err == nil || ctx.Err() != nil || errors.Is(err, leaderelect.ErrConflict) {
						taken <- err
						return
					}
				}
			}()
			select {
			case err := <-taken:
				taken <- err
				t.Errorf("a takeover does not wait for a guarded write: error %v", err)
			case <-time.After(300 * time.Millisecond):
			}
		})
		if err != nil {
			t.Fatalf("a guarded write of the current term: %v", err)
		}
		if err := <-taken; err != nil {
			t.Fatalf("a takeover after a guarded write: %v", err)
		}
		guard.refuses(t, 3)
		guard.accepts(t, 4)
	}},
}

// lead runs f as the work of one term of the lease.
func lead(t testing.TB, s leaderelect.LeaseStore, f func(ctx context.Context)) {
	t.Helper()
	led := false
	elector, err := leaderelect.New(leaderelect.Config{
		Store: s, Key: key, Identity: "leasetest", Logger: slog.New(slog.DiscardHandler),
		OnStartedLeading: func(ctx context.Context, _ *leaderelect.Leadership) error {
			led = true
			f(ctx)
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	if err := elector.RunOnce(ctx); !led {
		t.Fatalf("an elector does not lead: error %v", err)
	}
}

// checkedGuard is the Guard that a case uses.
type checkedGuard struct{ Guard }

// guarded returns the Guard of b, or skips the case.
func guarded(t testing.TB, b Backend) checkedGuard {
	t.Helper()
	if b.Guard.Do == nil {
		t.Skip("the backend has no Guard")
	}
	return checkedGuard{b.Guard}
}

// accepts requires that a write of the term is made.
func (g checkedGuard) accepts(t testing.TB, term uint64) {
	t.Helper()
	called := false
	if err := g.Do(context.Background(), key, term, func() { called = true }); err != nil || !called && !g.AtOnce {
		t.Fatalf("a guarded write of term %d: made %t, error %v", term, called, err)
	}
}

// refuses requires that a write of the term is refused.
func (g checkedGuard) refuses(t testing.TB, term uint64) {
	t.Helper()
	called := false
	if err := g.Do(context.Background(), key, term, func() { called = true }); called || !errors.Is(err, g.Refused) {
		t.Fatalf("a guarded write of term %d, which is not that of the record: made %t, error %v", term, called, err)
	}
}
