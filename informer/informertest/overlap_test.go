package informertest_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/informertest"
	"github.com/setpoint-go/setpoint/internal/broadcast"
)

// ordering is how a ledger gives versions to transactions.
type ordering int

const (
	locked  ordering = iota // a counter, locked until the commit
	horizon                 // a sequence; readers stop below the oldest open transaction
	nextval                 // a sequence; readers take what they see: wrong
	eager                   // horizon, with bookmarks that are ahead of it: wrong
)

// ledger is a table with a change log, as a database has it: a transaction draws its version when it begins, and others
// see its rows from its commit on.
type ledger struct {
	order ordering
	pause func(rev int) time.Duration // between begin and commit of a Put
	turn  sync.Mutex                  // held by the open transaction, if locked

	mu sync.Mutex // guards the following

	version informer.Version
	rows    []row
	objects []pair
	changed broadcast.Signal
}

// row is one row of the change log.
type row struct {
	event
	committed bool
}

func newLedger(order ordering) *ledger {
	return &ledger{order: order}
}

// begin makes a change in a transaction of its own, and returns the commit.
func (l *ledger) begin(c informertest.Change) (commit func()) {
	if l.order == locked {
		l.turn.Lock()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.version++
	ev := event{Type: informer.Added, Object: pair{c.Name, strconv.Itoa(c.Rev)}, Version: l.version}
	if i := l.indexLocked(c.Name); i >= 0 {
		ev.Type = informer.Modified
		if c.Delete {
			ev.Type, ev.Object = informer.Deleted, l.objects[i]
		}
	}
	l.rows = append(l.rows, row{event: ev})
	return func() { l.commit(ev) }
}

func (l *ledger) commit(ev event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.rows {
		if l.rows[i].Version == ev.Version {
			l.rows[i].committed = true
		}
	}
	switch i := l.indexLocked(ev.Object.name); {
	case ev.Type == informer.Deleted:
		l.objects = slices.Delete(l.objects, i, i+1)
	case i >= 0:
		l.objects[i] = ev.Object
	default:
		l.objects = append(l.objects, ev.Object)
	}
	l.changed.Wake()
	if l.order == locked {
		l.turn.Unlock()
	}
}

func (l *ledger) indexLocked(name string) int {
	return slices.IndexFunc(l.objects, func(p pair) bool { return p.name == name })
}

// reachedLocked is the version that a reader may reach now.
func (l *ledger) reachedLocked() (reached informer.Version) {
	for _, r := range l.rows {
		switch {
		case r.committed:
			reached = max(reached, r.Version)
		case l.order == horizon || l.order == eager:
			return r.Version - 1
		}
	}
	return reached
}

func (l *ledger) List(context.Context) (informer.List[pair], error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return informer.List[pair]{Items: slices.Clone(l.objects), Version: l.reachedLocked()}, nil
}

func (l *ledger) Watch(ctx context.Context, after informer.Version) events {
	return func(yield func(event, error) bool) {
		for {
			l.mu.Lock()
			var now []event
			reached := l.reachedLocked()
			for _, r := range l.rows {
				if r.committed && r.Version > after && r.Version <= reached {
					now = append(now, r.event)
				}
			}
			if l.order == eager && l.version > max(after, reached) {
				now = append(now, event{Type: informer.Bookmark, Version: l.version})
			}
			changed := l.changed.Next()
			l.mu.Unlock()
			for _, ev := range now {
				if !yield(ev, nil) {
					return
				}
				after = ev.Version
			}
			select {
			case <-changed:
			case <-ctx.Done():
				yield(event{}, context.Cause(ctx))
				return
			}
		}
	}
}

// overlap is a subject's Overlap.
func (l *ledger) overlap(first, second informertest.Change, look func()) error {
	commitFirst := l.begin(first)
	if l.order == locked {
		begun := make(chan func())
		go func() { begun <- l.begin(second) }() // waits for the first; ends then; received below
		commitFirst()
		look()
		(<-begun)()
		return nil
	}
	l.begin(second)()
	look()
	commitFirst()
	return nil
}

func (l *ledger) subject() informertest.Subject[pair] {
	write := func(c informertest.Change) error {
		commit := l.begin(c)
		if l.pause != nil {
			time.Sleep(l.pause(c.Rev))
		}
		commit()
		return nil
	}
	return informertest.Subject[pair]{
		Source:  l,
		Put:     func(name string, rev int) error { return write(informertest.Change{Name: name, Rev: rev}) },
		Delete:  func(name string) error { return write(informertest.Change{Name: name, Delete: true}) },
		Overlap: l.overlap,
		Read:    read,
		History: 1000,
	}
}

func TestCommitOrderedSourceKeepsTheContract(t *testing.T) {
	for name, order := range map[string]ordering{"a counter locked until the commit": locked, "a horizon": horizon} {
		t.Run(name, func(t *testing.T) {
			informertest.Run(t, func(*testing.T) informertest.Subject[pair] { return newLedger(order).subject() })
		})
	}
}

func TestSuiteDetectsVersionsOutOfCommitOrder(t *testing.T) {
	for _, m := range []struct {
		name    string
		order   ordering
		message string
	}{
		{"versions come from a sequence", nextval, "is missing"},
		{"a bookmark is ahead of an open transaction", eager, "is missing"},
	} {
		t.Run(m.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				failed, _ := informertest.Failures(t, func() informertest.Subject[pair] { return newLedger(m.order).subject() })
				for _, name := range []string{
					"a creation that commits late is not missed",
					"an update that commits late is not missed",
					"a deletion that commits late is not missed",
					"a creation that commits after a deletion is not missed",
				} {
					assert.Contains(t, failed, name)
				}
				assert.Contains(t, failed["a creation that commits late is not missed"], m.message)
			})
		})
	}
}

func TestSuiteDetectsLateCommitsWithoutOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed, _ := informertest.Failures(t, func() informertest.Subject[pair] {
			l := newLedger(nextval)
			l.pause = func(rev int) time.Duration { return time.Duration(rev%7) * time.Millisecond }
			s := l.subject()
			s.Overlap = nil
			return s
		})
		assert.Contains(t, failed["caches following many writers converge"], "differs from the source")
	})
}

func TestSuiteReportsMissingOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		count := func(overlap bool) int {
			failed, skipped := informertest.Failures(t, func() informertest.Subject[pair] {
				s := newLedger(locked).subject()
				if !overlap {
					s.Overlap = nil
				}
				return s
			})
			assert.Empty(t, failed)
			return skipped
		}
		assert.Equal(t, count(true)+4, count(false))
	})
}

// merged is a source that keeps only the last state of each object: its watches skip states that were replaced.
type merged struct {
	*ledger
	forget informer.EventType // events that it loses: wrong
}

func (m merged) Watch(ctx context.Context, after informer.Version) events {
	return func(yield func(event, error) bool) {
		m.mu.Lock()
		had := map[string]bool{}
		for _, r := range m.rows {
			if r.Version <= after {
				had[r.Object.name] = r.Type != informer.Deleted
			}
		}
		last := map[string]event{}
		for _, r := range m.rows {
			if r.Version > after {
				last[r.Object.name] = r.event
			}
		}
		upTo := m.version
		m.mu.Unlock()
		var now []event
		for name, ev := range last {
			switch {
			case ev.Type == informer.Deleted && !had[name]:
				continue
			case ev.Type == m.forget && len(last) > 1:
				continue
			case ev.Type != informer.Deleted:
				ev.Type = informer.Added
				if had[name] {
					ev.Type = informer.Modified
				}
			}
			now = append(now, ev)
		}
		slices.SortFunc(now, func(a, b event) int { return cmp.Compare(a.Version, b.Version) })
		for _, ev := range now {
			if !yield(ev, nil) {
				return
			}
		}
		m.ledger.Watch(ctx, upTo)(yield)
	}
}

func TestMergingSourceKeepsTheContractIfDeclared(t *testing.T) {
	open := func(forget informer.EventType) informertest.Subject[pair] {
		l := newLedger(locked)
		s := l.subject()
		s.Source, s.Merges = merged{ledger: l, forget: forget}, true
		return s
	}
	informertest.Run(t, func(*testing.T) informertest.Subject[pair] { return open(0) })
	synctest.Test(t, func(t *testing.T) {
		failed, _ := informertest.Failures(t, func() informertest.Subject[pair] {
			s := open(0)
			s.Merges = false
			return s
		})
		assert.Contains(t, failed, "a watch from any version yields the rest")
		failed, _ = informertest.Failures(t, func() informertest.Subject[pair] { return open(informer.Deleted) })
		assert.Contains(t, failed["a watch from any version yields the rest"], "has yielded nothing", "a merged deletion is lost")
	})
}

// equaler is a source with an Equal.
type equaler struct {
	*source
	equal func(s *source, a, b pair) bool
}

func (e equaler) Equal(a, b pair) bool { return e.equal(e.source, a, b) }

func TestSuiteDetectsWrongEqual(t *testing.T) {
	const name = "an object is equal to itself in another list, and to no other state"
	for _, m := range []struct {
		name, message string
		equal         func(s *source, a, b pair) bool
	}{
		{"a correct one", "", func(_ *source, a, b pair) bool { return a == b }},
		{"never", "reported as an update of every object", func(*source, pair, pair) bool { return false }},
		{"until the next change", "after another one changed", func(s *source, a, b pair) bool { return a == b && s.Version() < 3 }},
		{"by name", "loses the update", func(_ *source, a, b pair) bool { return a.name == b.name }},
	} {
		t.Run(m.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				failed, _ := informertest.Failures(t, func() informertest.Subject[pair] {
					src := newSource()
					return subject(src, equaler{src, m.equal})
				})
				assert.Contains(t, failed[name], m.message)
				if m.message == "" {
					assert.Empty(t, failed)
				}
			})
		})
	}
}

var errBusy = errors.New("busy")

func TestSuiteReportsFailedOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed, _ := informertest.Failures(t, func() informertest.Subject[pair] {
			s := newLedger(locked).subject()
			s.Overlap = func(informertest.Change, informertest.Change, func()) error { return errBusy }
			return s
		})
		assert.Equal(t, "busy", failed["a creation that commits late is not missed"])
	})
}
