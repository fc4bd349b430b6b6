package informertest_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/informertest"
)

// mortal is a source whose objects can vanish, and that can get a new history. A version is that of a source of informertest, and below
// that, in eight bits, the history.
type mortal struct {
	mu       sync.Mutex
	source   *source
	history  informer.Version
	vanished map[informer.Version]bool

	// Mistakes.
	silent   bool                                                 // what vanishes is never reported
	openOnly bool                                                 // it is reported to watches that have begun by then
	endless  bool                                                 // an open watch does not end with its history
	check    func(m *mortal, after informer.Version, n int) error // of the version at which a watch begins, if it is of another history
}

const historyBits = 8

func (m *mortal) now() (*source, informer.Version) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.source, m.history
}

func (m *mortal) vanish(name string) error {
	src, _ := m.now()
	m.mu.Lock()
	m.vanished[src.Version()+1] = true
	m.mu.Unlock()
	src.Delete(name)
	return nil
}

func (m *mortal) restart() error {
	m.mu.Lock()
	old := m.source
	m.source, m.vanished = newSource(), map[informer.Version]bool{}
	m.history--
	m.mu.Unlock()
	if !m.endless {
		old.Break(informer.ErrNewHistory)
	}
	return nil
}

func (m *mortal) List(ctx context.Context) (informer.List[pair], error) {
	src, history := m.now()
	l, err := src.List(ctx)
	l.Version = l.Version<<historyBits | history
	return l, err
}

func (m *mortal) Watch(ctx context.Context, after informer.Version) events {
	return func(yield func(event, error) bool) {
		src, history := m.now()
		begun := src.Version()
		if of := after & (1<<historyBits - 1); after != 0 && of != history {
			if err := m.check(m, after, int(begun)); err != nil {
				yield(event{}, err)
				return
			}
		}
		for ev, err := range src.Watch(ctx, after>>historyBits) {
			m.mu.Lock()
			vanished := err == nil && m.vanished[ev.Version]
			m.mu.Unlock()
			switch {
			case vanished && (m.silent || m.openOnly && ev.Version <= begun):
				continue
			case vanished:
				ev, err = event{}, informer.ErrExpired
			}
			ev.Version = ev.Version<<historyBits | history
			if err != nil {
				ev = event{}
			}
			if !yield(ev, err) || err != nil {
				return
			}
		}
	}
}

// newHistory is the right check.
func newHistory(*mortal, informer.Version, int) error { return informer.ErrNewHistory }

func mortalSubject(m *mortal) informertest.Subject[pair] {
	m.source, m.history, m.vanished = newSource(), 200, map[informer.Version]bool{}
	if m.check == nil {
		m.check = newHistory
	}
	s := subject(m.source, m)
	current := func() informertest.Subject[pair] { src, _ := m.now(); return subject(src, m) }
	s.Put = func(name string, rev int) error { return current().Put(name, rev) }
	s.Delete = func(name string) error { return current().Delete(name) }
	s.Spoil = func(name string) error { return current().Spoil(name) }
	s.Expire = func() error { return current().Expire() }
	s.Bookmark = func() error { return current().Bookmark() }
	s.Vanish, s.Restart = m.vanish, m.restart
	return s
}

func TestSourceWhoseHistoryBeginsAnewKeepsTheContract(t *testing.T) {
	informertest.Run(t, func(*testing.T) informertest.Subject[pair] { return mortalSubject(&mortal{}) })
}

func TestSuiteDetectsMistakesAboutVanishedObjectsAndNewHistories(t *testing.T) {
	for name, test := range map[string]struct {
		mistake *mortal  // used for one subject after another
		noticed []string // the cases that notice it
		may     []string // the cases that notice it in some orders of goroutines
	}{
		"nobody reports what vanishes": {mistake: &mortal{silent: true}, noticed: []string{
			"an open watch reports an object that has vanished, or expires",
			"a watch that begins after an object has vanished reports it, or expires",
			"an object that has vanished leaves a cache, also while others change",
		}},
		"only open watches report what vanishes": {mistake: &mortal{openOnly: true}, noticed: []string{
			"a watch that begins after an object has vanished reports it, or expires",
		}, may: []string{
			"an object that has vanished leaves a cache, also while others change", // the informer watches only after that
		}},
		"an open watch waits for the versions of the old history": {mistake: &mortal{endless: true}, noticed: []string{
			"an open watch ends when a new history begins", "a cache follows the source into a new history",
		}},
		"a version of an old history is taken for one of the new": {
			mistake: &mortal{check: func(*mortal, informer.Version, int) error { return nil }},
			noticed: []string{"a watch from a version of an earlier history ends with ErrNewHistory"},
		},
		"a version of an old history is noticed only until its number is used again": {
			mistake: &mortal{check: func(m *mortal, after informer.Version, n int) error {
				if int(after>>historyBits) <= n {
					return nil
				}
				return informer.ErrNewHistory
			}},
			noticed: []string{"a watch from a version of an earlier history ends with ErrNewHistory"},
		},
		"a new history looks like an expired version": {
			mistake: &mortal{check: func(*mortal, informer.Version, int) error { return informer.ErrExpired }},
			noticed: []string{"a watch from a version of an earlier history ends with ErrNewHistory"},
		},
		"a new history is an error without a meaning": {
			mistake: &mortal{check: func(*mortal, informer.Version, int) error { return errors.New("410") }},
			noticed: []string{"a watch from a version of an earlier history ends with ErrNewHistory"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				failed, _ := informertest.Failures(t, func() informertest.Subject[pair] {
					return mortalSubject(test.mistake)
				})
				for _, noticed := range test.noticed {
					assert.Contains(t, failed, noticed)
				}
				for name := range failed {
					assert.Contains(t, append(test.noticed, test.may...), name)
				}
			})
		})
	}
}
