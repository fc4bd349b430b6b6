package dbtest_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/leaderelect/leasetest"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/backend"
)

func TestMemoryHoldsAppsAndLeases(t *testing.T) {
	db := memory(t)
	r, err := dbtest.Put(t.Context(), db, "a", "1")
	if err != nil {
		t.Fatal(err)
	}
	got, err := db.Get(t.Context(), "app", "a")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, got); diff != "" {
		t.Fatalf("got mismatch (-want +got):\n%s", diff)
	}
	_, err = dbtest.Apps(t, db).Create(t.Context(), store.Object[dbtest.App]{Key: "a"})
	if err != nil {
		t.Fatal(err)
	}
	leasetest.Run(t, func(t *testing.T) leasetest.Backend {
		return leasetest.Backend{Store: dbtest.Leases(t, memory(t))}
	})
}

func memory(t *testing.T) *store.Memory {
	db := store.NewMemory(store.MemoryConfig{})
	return db
}

func TestMemoryHandlesHostileStrings(t *testing.T) { dbtest.HostileStrings(t, memory(t)) }

func TestMemoryHandlesBatchedWrites(t *testing.T) { dbtest.WriteTogether(t, memory(t), 4, 10) }

// stuck is a database whose writes all get the version of the first one.
type stuck struct {
	backend.Backend
	first sync.Once
	at    informer.Version
}

func (s *stuck) Transact(
	ctx context.Context, kind, key string, fences []backend.Fence, decide backend.Decide,
) (backend.Record, error) {
	r, err := s.Backend.Transact(ctx, kind, key, fences, decide)
	s.first.Do(func() { s.at = r.Version })
	r.Version = s.at
	return r, err
}

// failing records failures, and continues.
type failing struct {
	testing.TB
	mu       sync.Mutex
	failures []string
}

func (f *failing) Errorf(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failures = append(f.failures, fmt.Sprintf(format, args...))
}

func TestBatchedWritesAtOneVersionAreDetected(t *testing.T) {
	f := &failing{TB: t}
	dbtest.WriteTogether(f, &stuck{Backend: memory(t)}, 2, 3)
	if len(f.failures) != 5+2 {
		t.Errorf("%d failures, want five more of that version, and two records of other ones: %q", len(f.failures), f.failures)
	}
}
