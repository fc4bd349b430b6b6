package dbtest

import (
	"fmt"
	"sync"
	"testing"

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
