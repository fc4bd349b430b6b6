package leasetest

import (
	"context"
	"errors"
	"testing"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/wait"
)

const key = "controller"

// create stores a first record and returns it.
func create(t testing.TB, s leaderelect.LeaseStore, e leaderelect.Entry) leaderelect.Entry {
	t.Helper()
	got, err := s.Create(context.Background(), e)
	if err != nil {
		t.Fatalf("Create of a new record: %v", err)
	}
	stored(t, "Create", got, e)
	return got
}

// createMany stores n first records, some at once, and returns them by key.
func createMany(t testing.TB, s leaderelect.LeaseStore, n int, nth func(int) leaderelect.Entry) map[string]leaderelect.Entry {
	t.Helper()
	got := make([]leaderelect.Entry, n)
	err := wait.Parallelize(context.Background(), 8, n, func(ctx context.Context, i int) (err error) {
		got[i], err = s.Create(ctx, nth(i))
		return err
	})
	if err != nil {
		t.Fatalf("Create of new records: %v", err)
	}
	have := make(map[string]leaderelect.Entry, n)
	for i, e := range got {
		stored(t, "Create", e, nth(i))
		have[e.Key] = e
	}
	return have
}

// update replaces have by a record with another value and the same term, and returns it.
func update(t testing.TB, s leaderelect.LeaseStore, have leaderelect.Entry, value string) leaderelect.Entry {
	t.Helper()
	next := have
	next.Value = []byte(value)
	got, err := s.Update(context.Background(), next)
	if err != nil {
		t.Fatalf("Update of the current version %q: %v", have.Version, err)
	}
	stored(t, "Update", got, next)
	if got.Version == have.Version {
		t.Fatalf("Update returns the replaced version %q", have.Version)
	}
	if (have.Floor > 0 || got.Floor > 0) && got.Floor <= have.Floor {
		t.Fatalf("Update returns floor %d after %d", got.Floor, have.Floor)
	}
	return got
}

// holds requires that the record of want.Key is want.
func holds(t testing.TB, s leaderelect.LeaseStore, want leaderelect.Entry) {
	t.Helper()
	got, err := s.Get(context.Background(), want.Key)
	if err != nil {
		t.Fatalf("Get: %v", err)
	}
	is(t, "Get", got, want)
}

// is requires that got is want, with its version. The floor may have grown.
func is(t testing.TB, call string, got, want leaderelect.Entry) {
	t.Helper()
	stored(t, call, got, want)
	if got.Version != want.Version || got.Floor < want.Floor {
		t.Fatalf("%s returns version %q and floor %d, want %q and %d", call, got.Version, got.Floor, want.Version, want.Floor)
	}
}

// reaches waits until Get returns want, which was written through another handle, because a read may be stale.
func reaches(t testing.TB, s leaderelect.LeaseStore, want leaderelect.Entry) {
	t.Helper()
	errLate := errors.New("it returns an earlier record")
	eventually(t, "Get of a write through another handle", func(ctx context.Context) error {
		got, err := s.Get(ctx, want.Key)
		if err == nil && got.Version != want.Version || errors.Is(err, leaderelect.ErrNotFound) {
			err = errLate
		}
		return err
	})
	holds(t, s, want)
}

// absent requires that there is no record.
func absent(t testing.TB, s leaderelect.LeaseStore, key string) {
	t.Helper()
	e, err := s.Get(context.Background(), key)
	if !errors.Is(err, leaderelect.ErrNotFound) || errors.Is(err, leaderelect.ErrConflict) {
		t.Fatalf("Get of a missing record returns %+v and error %v, want ErrNotFound", e, err)
	}
	usable(t, "Get of a missing record", err)
}

// usable requires that err does not say that the store can never work.
func usable(t testing.TB, what string, err error) {
	t.Helper()
	if retry.IsPermanent(err) {
		t.Fatalf("%s returns an error that is marked as permanent, so electors end: %v", what, err)
	}
}

// stored requires that got is want, whatever its version.
func stored(t testing.TB, call string, got, want leaderelect.Entry) {
	t.Helper()
	if got.Key != want.Key || string(got.Value) != string(want.Value) || got.Term != want.Term {
		t.Fatalf("%s returns key %q, term %d, %d bytes %.40q; want key %q, term %d, %d bytes %.40q", call,
			got.Key, got.Term, len(got.Value), got.Value, want.Key, want.Term, len(want.Value), want.Value)
	}
	if got.Version == "" {
		t.Fatalf("%s returns an empty version", call)
	}
}

// conflict requires that err is ErrConflict.
func conflict(t testing.TB, what string, err error) {
	t.Helper()
	if !errors.Is(err, leaderelect.ErrConflict) || errors.Is(err, leaderelect.ErrNotFound) {
		t.Fatalf("%s returns error %v, want ErrConflict", what, err)
	}
	usable(t, what, err)
}

// entry returns a record to create.
func entry(value string) leaderelect.Entry {
	return leaderelect.Entry{Key: key, Value: []byte(value), Term: 1}
}
