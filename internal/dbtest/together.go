package dbtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store/backend"
)

// WriteTogether makes writes by several writers, each to its own key. It checks that each write has a version of its own, and that the last
// one of each key is stored.
func WriteTogether(t testing.TB, db backend.Backend, writers, writes int) {
	t.Helper()
	written := make([][]informer.Version, writers)
	var g sync.WaitGroup
	for w := range writers {
		g.Go(func() {
			for range writes {
				r, err := Put(t.Context(), db, fmt.Sprint(w), "{}")
				if err != nil {
					t.Errorf("a write of writer %d: %v", w, err)
				}
				written[w] = append(written[w], r.Version)
			}
		})
	}
	g.Wait()
	seen := make(map[informer.Version]bool)
	for w, versions := range written {
		for _, v := range versions {
			if seen[v] {
				t.Errorf("two writes have the version %d", v)
			}
			seen[v] = true
		}
		r, err := db.Get(t.Context(), "app", fmt.Sprint(w))
		if last := versions[writes-1]; err != nil || r.Version != last {
			t.Errorf("the last write of writer %d has the version %d, and the record %d: %v", w, last, r.Version, err)
		}
	}
}

// ImpatientWritersHarmNoOthers makes writers give up at any moment, up to a limit, while others make a number of writes. Those succeed, although
// the backend may make the writes of both together.
func ImpatientWritersHarmNoOthers(t testing.TB, db backend.Backend, limit time.Duration, writes int) {
	t.Helper()
	stop := make(chan struct{})
	var hasty, patient sync.WaitGroup
	for i := range 8 {
		hasty.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Microsecond+time.Duration(n)*37*time.Microsecond%limit)
				_, _ = Put(ctx, db, fmt.Sprint("hasty", i), "{}")
				cancel()
			}
		})
	}
	for i := range 2 {
		patient.Go(func() {
			for range writes {
				if _, err := Put(t.Context(), db, fmt.Sprint("patient", i), "{}"); err != nil {
					t.Errorf("a write of one who waits: %v", err)
					return
				}
			}
		})
	}
	patient.Wait()
	close(stop)
	hasty.Wait()
}

// InTx calls f with a context under which writes are part of a transaction of the caller, and commits that if f returns nil.
type InTx = func(ctx context.Context, f func(ctx context.Context) error) error

// TransactionsDoNotDeadlock makes transactions write objects and terms in different orders. All of them end.
func TransactionsDoNotDeadlock(t testing.TB, db backend.Backend, inTx InTx) {
	t.Helper()
	var g sync.WaitGroup
	for i := range 8 {
		g.Go(func() {
			for range 10 {
				err := inTx(t.Context(), func(ctx context.Context) error {
					for j := range 3 {
						if _, err := Put(ctx, db, fmt.Sprint((i*j+i)%5), "1", backend.Fence{Lease: fmt.Sprint(j * i % 3), Term: 1}); err != nil {
							return err
						}
					}
					return nil
				})
				if err != nil {
					t.Errorf("transaction %d: %v", i, err)
					return
				}
			}
		})
	}
	g.Wait()
}

// WriteWaitsForTransaction makes a write wait for a transaction that has written. The wait ends with its context.
func WriteWaitsForTransaction(t testing.TB, db backend.Backend, inTx InTx) {
	t.Helper()
	gone := errors.New("gone")
	err := inTx(t.Context(), func(ctx context.Context) error {
		if _, err := Put(ctx, db, "a", "1"); err != nil {
			return err
		}
		short, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, gone)
		defer cancel()
		if _, err := Put(short, db, "b", "1"); !errors.Is(err, gone) {
			t.Errorf("a write while a transaction is open: %v, want %v", err, gone)
		}
		return nil
	})
	if err != nil {
		t.Errorf("the transaction: %v", err)
	}
	if _, err := Put(t.Context(), db, "b", "1"); err != nil {
		t.Errorf("a write after the transaction: %v", err)
	}
}
