package dbtest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store/backend"
)

// BeginLossyWriters is like BeginWriters, for a backend that may lose acknowledged writes. If the store refuses a write because an earlier one was lost,
// the writers go on.
func BeginLossyWriters(t testing.TB, db backend.Backend, target string) *Writers {
	t.Helper()
	a := &audit{Backend: db}
	w := &Writers{t: t, target: target, db: a, audit: a}
	w.begin()
	return w
}

// CheckLossy ends the processes and compares their acknowledged writes with the backend, as Check does. lost reports whether a version was
// lost. Check also compares what each watch of the informer has reported with the history: within the versions that it covers, it has
// reported every change that is left, and besides these only lost ones. It returns the number of changes in the history, of acknowledged
// writes that were lost, and of watches that have expired.
func (w *Writers) CheckLossy(history backend.Backend, lost func(informer.Version) bool) (changes, missing, expired int) {
	w.t.Helper()
	w.end()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	l := w.finish(ctx)
	lives, missing := w.compareHistory(ctx, history, l.Version, lost)
	w.compareHandler(ctx, l.Items)
	all := map[informer.Version]string{}
	for key, l := range lives {
		for v := range l.versions {
			all[v] = key
		}
	}
	for _, complaint := range w.audit.compare(all, lost) {
		w.t.Error(complaint)
	}
	return len(all), missing, w.audit.expired
}

// audit is a backend that remembers what its watches report.
type audit struct {
	backend.Backend

	mu sync.Mutex
	// mu guards the following.
	watches []*report
	expired int
}

// report is what a watch has reported.
type report struct {
	after, upTo informer.Version
	changes     map[informer.Version]string // the keys
}

// Watch implements [backend.Backend].
func (a *audit) Watch(
	ctx context.Context, kind string, q backend.Query, after informer.Version,
) iter.Seq2[backend.Change, error] {
	return func(yield func(backend.Change, error) bool) {
		r := &report{after: after, upTo: after, changes: map[informer.Version]string{}}
		a.mu.Lock()
		a.watches = append(a.watches, r)
		a.mu.Unlock()
		for c, err := range a.Backend.Watch(ctx, kind, q, after) {
			a.mu.Lock()
			switch {
			case errors.Is(err, backend.ErrExpired):
				a.expired++
			case err == nil && c.Record.Key != "":
				r.changes[c.Record.Version] = c.Record.Key
				fallthrough
			case err == nil:
				r.upTo = c.Version
			}
			a.mu.Unlock()
			if !yield(c, err) {
				return
			}
		}
	}
}

// compare compares the reports with all changes that are left, and returns what is wrong.
func (a *audit) compare(all map[informer.Version]string, lost func(informer.Version) bool) (complaints []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	versions := slices.Sorted(maps.Keys(all))
	for _, r := range a.watches {
		begin, _ := slices.BinarySearch(versions, r.after+1)
		end, _ := slices.BinarySearch(versions, r.upTo+1)
		for _, v := range versions[begin:max(begin, end)] {
			if r.changes[v] != all[v] {
				complaints = append(complaints, r.complain(v, "left out "+all[v]))
			}
		}
		for _, v := range slices.Sorted(maps.Keys(r.changes)) {
			if all[v] != r.changes[v] && !lost(v) {
				complaints = append(complaints, r.complain(v, "reported "+r.changes[v]+", which is not in the history"))
			}
		}
	}
	return complaints
}

func (r *report) complain(v informer.Version, what string) string {
	return fmt.Sprintf("the watch from version %d to %d has, at version %d, %s", r.after, r.upTo, v, what)
}
