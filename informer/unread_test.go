package informer_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
)

var errSyntax = errors.New("unexpected end of input")

// spoiled is a source whose test decides what it lists and yields.
type spoiled struct {
	lists  chan informer.List[site] // the next lists
	events chan informer.Event[site]
	ends   chan error // ends the watch
}

func newSpoiled() *spoiled {
	return &spoiled{make(chan informer.List[site], 10), make(chan informer.Event[site]), make(chan error)}
}

func (s *spoiled) List(ctx context.Context) (informer.List[site], error) {
	select {
	case l := <-s.lists:
		return l, nil
	case <-ctx.Done():
		return informer.List[site]{}, context.Cause(ctx)
	}
}

func (s *spoiled) Watch(ctx context.Context, _ informer.Version) iter.Seq2[informer.Event[site], error] {
	return func(yield func(informer.Event[site], error) bool) {
		for {
			select {
			case ev := <-s.events:
				if !yield(ev, nil) {
					return
				}
			case err := <-s.ends:
				yield(informer.Event[site]{}, err)
				return
			case <-ctx.Done():
				return
			}
		}
	}
}

// list makes the informer list l.
func (s *spoiled) list(l informer.List[site]) {
	s.lists <- l
	synctest.Wait()
	if len(s.lists) > 0 { // else the informer was about to list
		s.ends <- informer.ErrExpired
	}
	time.Sleep(time.Hour) // the backoff between lists
	synctest.Wait()
}

func (s *spoiled) yield(ev informer.Event[site]) {
	s.events <- ev
	synctest.Wait()
}

// world is an informer of a spoiled source, with what a user sees of it.
type unreadWorld struct {
	*spoiled
	t        *testing.T
	in       *informer.Informer[string, site]
	errs     errorLog
	readable atomic.Int64 // calls of OnReadable
	handler  *recorder
}

func newUnreadWorld(t *testing.T, first informer.List[site]) *unreadWorld {
	w := &unreadWorld{spoiled: newSpoiled(), t: t}
	w.lists <- first
	w.in = must(informer.New(w.spoiled, nameOf, informer.Config{Name: "sites", OnError: w.errs.Add}))
	w.in.OnReadable(func() { w.readable.Add(1) })
	w.handler = newRecorder(t)
	w.handler.gaps = true
	w.handler.add(w.in)
	start(t, w.in)
	return w
}

// is checks what a user sees: the cached objects, the unread ones, and how often OnReadable was called since the last call.
func (w *unreadWorld) is(cached, unread string, readable int, why string) {
	w.t.Helper()
	synctest.Wait()
	var names []string
	for _, s := range w.in.All() {
		names = append(names, fmt.Sprintf("%s.%d", s.Name, s.Rev))
	}
	slices.Sort(names)
	assert.Equal(w.t, cached, strings.Join(names, " "), why)
	var keys []string
	for key, err := range w.in.AllUnread() {
		keys = append(keys, key)
		assert.Equal(w.t, err, w.in.Unread(key), why)
	}
	assert.Equal(w.t, unread, strings.Join(keys, " "), why)
	assert.Equal(w.t, len(keys), w.in.Stats().Unread, why)
	assert.EqualValues(w.t, readable, w.readable.Swap(0), why)
}

func site1(name string, rev int) site { return site{Name: name, Rev: rev} }

func unreadSite(name string) informer.Unread[site] {
	return informer.Unread[site]{Object: site{Name: name}, Err: errSyntax}
}

// An object that exists and cannot be read keeps its last state, and never looks deleted.
func TestUnreadableEventKeepsTheLastStateAndIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newUnreadWorld(t, informer.List[site]{Version: 1, Items: []site{site1("a", 1)}})
		w.is("a.1", "", 0, "")
		require.NoError(t, w.in.Unread("a"))
		require.NoError(t, w.in.Unread("never seen"))

		w.yield(informer.Event[site]{Type: informer.Unreadable, Object: site{Name: "a"}, Err: errSyntax, Version: 2})
		w.yield(informer.Event[site]{Type: informer.Unreadable, Object: site{Name: "b"}, Err: errSyntax, Version: 3})
		w.is("a.1", "a b", 0, "one was read before, one never")
		assert.EqualValues(t, 3, w.in.Version(), "the change is applied as far as it can be")
		require.ErrorIs(t, w.in.Unread("b"), errSyntax)
		errs := w.errs.Take()
		require.Len(t, errs, 2)
		require.EqualError(t, errs[0], "informer: read a of sites: unexpected end of input")
		w.yield(informer.Event[site]{Type: informer.Unreadable, Object: site{Name: "b"}, Err: errSyntax, Version: 4})
		assert.Empty(t, w.errs.Take(), "reported once")

		w.yield(informer.Event[site]{Type: informer.Modified, Object: site1("b", 5), Version: 5})
		w.is("a.1 b.5", "a", 1, "read for the first time")
		w.yield(informer.Event[site]{Type: informer.Deleted, Object: site{Name: "a"}, KeyOnly: true, Version: 6})
		w.is("b.5", "", 1, "deleted while it was unread")
		w.yield(informer.Event[site]{Type: informer.Unreadable, Object: site{Name: "c"}, Version: 7})
		w.is("b.5", "c", 0, "without a reason")
		w.yield(informer.Event[site]{Type: informer.Deleted, Object: site{Name: "c"}, KeyOnly: true, Version: 8})
		w.is("b.5", "", 1, "deleted, and never read")
		assert.Equal(t, []string{"add a.1 initial=true", "add b.5 initial=false", "delete a.1 unknown"}, w.handler.take())
	})
}

func TestListReplacesTheUnreadObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newUnreadWorld(t, informer.List[site]{
			Version: 1, Items: []site{site1("a", 1), site1("b", 1)}, Unread: []informer.Unread[site]{unreadSite("x"), unreadSite("y")},
		})
		w.is("a.1 b.1", "x y", 0, "never read")
		errs := w.errs.Take()
		require.Len(t, errs, 1, "one error for one list")
		require.EqualError(t, errs[0], "informer: list sites: 2 objects cannot be read, such as x: unexpected end of input")

		w.list(informer.List[site]{Version: 2, Items: []site{site1("a", 1), site1("x", 2)}, Unread: []informer.Unread[site]{unreadSite("b")}})
		w.is("a.1 b.1 x.2", "b", 1, "x was read, y was deleted, b keeps its state")
		w.list(informer.List[site]{Version: 3, Items: []site{site1("a", 1), site1("x", 2), site1("b", 1)}})
		w.is("a.1 b.1 x.2", "", 1, "b was repaired to the state that it had")
		w.list(informer.List[site]{
			Version: 4, Items: []site{site1("a", 1), site1("x", 2), site1("b", 1), site1("c", 4)}, Unread: []informer.Unread[site]{unreadSite("c")},
		})
		w.is("a.1 b.1 c.4 x.2", "c", 0, "the source has the last good state of c")
		assert.Equal(t, []string{"add a.1 initial=true", "add b.1 initial=true", "add x.2 initial=false", "add c.4 initial=false"}, w.handler.take())
	})
}

// Any object that such a list lacks may be in a record whose keys nobody can read.
func TestListWithMissingRecordsDeletesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newUnreadWorld(t, informer.List[site]{Version: 1, Items: []site{site1("a", 1)}, Missing: []error{errSyntax}})
		w.is("a.1", "", 0, "")
		require.ErrorIs(t, w.in.Unread("b"), errSyntax, "it may exist")
		require.NoError(t, w.in.Unread("a"))
		require.ErrorIs(t, w.in.Missing(), errSyntax)
		assert.Equal(t, 1, w.in.Stats().Missing)
		errs := w.errs.Take()
		require.Len(t, errs, 1)
		require.ErrorContains(t, errs[0], "nothing is deleted: a record of the last list cannot be read: unexpected end of input")

		w.list(informer.List[site]{Version: 2, Items: []site{site1("b", 2)}, Missing: []error{errSyntax, errOutage}})
		w.is("a.1 b.2", "a", 0, "a may be in a record that is missing")
		require.ErrorContains(t, w.in.Unread("a"), "2 records of the last list cannot be read; the first: unexpected end of input")
		w.yield(informer.Event[site]{Type: informer.Deleted, Object: site1("b", 3), Version: 3})
		w.is("a.1", "a", 1, "")
		require.NoError(t, w.in.Unread("b"), "the watch knows that it is deleted")
		require.Error(t, w.in.Unread("c"))
		w.yield(informer.Event[site]{Type: informer.Modified, Object: site1("a", 3), Version: 3})
		w.is("a.3", "", 1, "a watch has read it")
		w.lists <- informer.List[site]{Version: 3, Items: []site{site1("a", 3), site1("b", 2)}, Missing: []error{errSyntax}}
		time.Sleep(time.Hour)
		w.is("a.3 b.2", "", 0, "the events may have been about a missing record, so there was a list")
		require.Empty(t, w.lists)

		w.list(informer.List[site]{Version: 4, Items: []site{site1("b", 2)}})
		w.is("b.2", "", 1, "the list is complete")
		require.NoError(t, w.in.Missing())
		require.NoError(t, w.in.Unread("c"))
		w.list(informer.List[site]{Version: 5, Items: []site{site1("b", 2)}})
		w.is("b.2", "", 0, "nothing was unread")
		assert.Equal(t, []string{"add a.1 initial=true", "add b.2 initial=false", "delete b.3", "update a.1 3", "add b.2 initial=false", "delete a.3 unknown"}, w.handler.take())
	})
}

// An object of which an index function panics exists, although the cache lacks it.
func TestObjectThatCannotBeAppliedIsUnread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newUnreadWorld(t, informer.List[site]{Version: 1})
		var broken knob[bool]
		broken.set(true)
		cache.AddIndex(w.in.Indexer(), func(s site) []int {
			if broken.get() && s.Name == "a" {
				panic("it has no index")
			}
			return nil
		})
		w.yield(informer.Event[site]{Type: informer.Added, Object: site1("a", 2), Version: 2})
		w.is("", "a", 0, "")
		require.ErrorContains(t, w.in.Unread("a"), "it has no index")
		broken.set(false)
		w.lists <- informer.List[site]{Version: 2, Items: []site{site1("a", 2)}}
		time.Sleep(time.Hour)
		w.is("a.2", "", 1, "the informer has listed again by itself")
	})
}

func TestNewHistoryIsListedByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newUnreadWorld(t, informer.List[site]{Version: 90, Items: []site{site1("a", 90), site1("b", 5)}})
		w.is("a.90 b.5", "", 0, "")
		began := time.Now()
		w.lists <- informer.List[site]{Version: 5, Items: []site{{Name: "b", Life: 2, Rev: 5}}}
		w.ends <- fmt.Errorf("sites: %w", informer.ErrNewHistory)
		w.is("b.5", "", 0, "")
		assert.Zero(t, time.Since(began), "at once")
		assert.EqualValues(t, 5, w.in.Version())
		assert.Empty(t, w.errs.Take())
		b, _ := w.in.Get("b")
		assert.Equal(t, 2, b.Life, "a version of another history is another state")
		require.ErrorIs(t, informer.ErrNewHistory, informer.ErrExpired)

		w.lists <- informer.List[site]{Version: 4}
		w.ends <- informer.ErrExpired
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.ErrorContains(t, errors.Join(w.errs.Take()...), "the list is of version 4, but version 5 was seen")
	})
}

func TestOnUnreadIsCalledOncePerObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newUnreadWorld(t, informer.List[site]{Version: 1, Items: []site{site1("a", 1)}, Unread: []informer.Unread[site]{unreadSite("first")}})
		synctest.Wait()
		var keys []string
		stop := w.in.OnUnread(func(key string) {
			require.Error(t, w.in.Unread(key), "it is unread by then")
			keys = append(keys, key)
		})
		took := func() (took []string) {
			synctest.Wait()
			took, keys = keys, nil
			return took
		}
		for range 2 {
			w.yield(informer.Event[site]{Type: informer.Unreadable, Object: site{Name: "b"}, Err: errSyntax, Version: 2})
		}
		assert.Equal(t, []string{"b"}, took())
		assert.Len(t, w.errs.Take(), 2, "one for the list, and one for b")
		w.yield(informer.Event[site]{Type: informer.Unreadable, Object: site{Name: "b"}, Err: errOutage, Version: 2})
		assert.Empty(t, took())
		assert.Len(t, w.errs.Take(), 1, "another reason is reported")
		w.list(informer.List[site]{
			Version: 3, Items: []site{site1("a", 1), site1("b", 1)},
			Unread: []informer.Unread[site]{unreadSite("first"), unreadSite("b"), unreadSite("a")},
		})
		assert.Equal(t, []string{"a"}, took(), "the others were unread before")
		w.yield(informer.Event[site]{Type: informer.Modified, Object: site1("b", 4), Version: 4})
		w.yield(informer.Event[site]{Type: informer.Unreadable, Object: site{Name: "b"}, Err: errSyntax, Version: 5})
		assert.Equal(t, []string{"b"}, took(), "again")
		w.list(informer.List[site]{Version: 6, Missing: []error{errSyntax}})
		assert.Empty(t, took())
		stop()
		w.yield(informer.Event[site]{Type: informer.Unreadable, Object: site{Name: "c"}, Err: errSyntax, Version: 7})
		assert.Empty(t, took())
	})
}

// The cache takes three events at once: the object was unread, was read, and is unread again.
func TestOnUnreadIsCalledOncePerBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newUnreadWorld(t, informer.List[site]{Version: 1})
		synctest.Wait()
		var keys []string
		w.in.OnUnread(func(key string) { keys = append(keys, key) })
		gate := make(chan struct{})
		w.in.OnVersion(func(v informer.Version) {
			if v == 2 || v == 6 {
				<-gate
			}
		})
		unreadable := func(v informer.Version) {
			w.yield(informer.Event[site]{Type: informer.Unreadable, Object: site{Name: "b"}, Err: errSyntax, Version: v})
		}
		readable := func(v informer.Version) {
			w.yield(informer.Event[site]{Type: informer.Modified, Object: site1("b", int(v)), Version: v})
		}
		readable(2)
		unreadable(3)
		readable(4)
		unreadable(5)
		gate <- struct{}{}
		synctest.Wait()
		assert.Equal(t, []string{"b"}, keys)

		keys = nil
		readable(6)
		unreadable(7)
		readable(8) // readable again when the batch ends
		gate <- struct{}{}
		synctest.Wait()
		assert.Empty(t, keys)
		unreadable(9)
		assert.Equal(t, []string{"b"}, keys)
	})
}

// A request for a list comes before a watch has noticed the new history: the list is older than the cache, and only a watch can say why.
func TestOlderListIsNoObstacleToNewHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newUnreadWorld(t, informer.List[site]{Version: 90, Items: []site{site1("a", 90)}})
		w.is("a.90", "", 0, "")
		w.lists <- informer.List[site]{Version: 5}
		done := make(chan error)
		go func() { done <- w.in.CatchUp(t.Context()) }() // ends below
		synctest.Wait()
		require.Empty(t, w.lists, "the source is no Versioner, so it has listed")
		w.lists <- informer.List[site]{Version: 5, Items: []site{site1("b", 5)}}
		w.ends <- informer.ErrNewHistory
		require.NoError(t, <-done)
		w.is("b.5", "", 0, "")
	})
}

// Every sequence of three lists and events about one key, against a model: what the source last said about the key.
func TestUnreadFollowsEveryShortHistoryOfAKey(t *testing.T) {
	type step struct {
		name           string
		list           bool
		exists, reads  bool // the key exists, and its state can be read
		missing, notes bool // a list with missing records; the source says something about the key
	}
	steps := []step{
		{"list has it", true, true, true, false, true},
		{"list cannot read it", true, true, false, false, true},
		{"list lacks it", true, false, false, false, true},
		{"list lacks records", true, false, false, true, false},
		{"event", false, true, true, false, true},
		{"event cannot read it", false, true, false, false, true},
		{"event deletes it", false, false, false, false, true},
	}
	total := len(steps) * len(steps) * len(steps)
	for n := range total {
		history := []step{steps[n%7], steps[n/7%7], steps[n/49]}
		if !history[0].list {
			continue
		}
		synctest.Test(t, func(t *testing.T) {
			state, cached, incomplete := "absent", 0, false // "absent", "present", "unread"
			deleted := false                                // by an event, since the last list
			rev := 0
			var w *unreadWorld
			var said strings.Builder
			for _, s := range history {
				said.WriteString(", " + s.name)
				rev++
				obj, bad := site1("a", rev), unreadSite("a")
				list := informer.List[site]{Version: informer.Version(rev)}
				ev := informer.Event[site]{Version: informer.Version(rev)}
				switch {
				case s.missing:
					list.Missing = []error{errSyntax}
				case s.exists && s.reads:
					list.Items = []site{obj}
					ev.Type, ev.Object = informer.Modified, obj
				case s.exists:
					list.Unread = []informer.Unread[site]{bad}
					ev.Type, ev.Object, ev.Err = informer.Unreadable, bad.Object, bad.Err
				default:
					ev.Type, ev.Object, ev.KeyOnly = informer.Deleted, bad.Object, true
				}
				switch {
				case w == nil:
					w = newUnreadWorld(t, list)
				case s.list:
					w.spoiled.list(list)
				default:
					w.yield(ev)
				}
				synctest.Wait()
				if s.list {
					incomplete = s.missing
				}
				switch {
				case s.missing && state == "present":
					state = "unread"
				case s.missing:
				case s.reads:
					state, cached = "present", rev
				case s.exists:
					state = "unread"
				default:
					state, cached = "absent", 0
				}
				got, ok := w.in.Get("a")
				assert.Equal(t, cached, got.Rev, said.String())
				assert.Equal(t, cached > 0, ok, said.String())
				deleted = !s.list && !s.exists || deleted && !s.list && !s.notes
				maybe := state == "unread" || incomplete && cached == 0 && !deleted
				assert.Equal(t, maybe, w.in.Unread("a") != nil, "%s: %v", said.String(), w.in.Unread("a"))
				assert.Equal(t, incomplete, w.in.Missing() != nil, said.String())
				assert.Equal(t, state == "unread", len(maps.Collect(w.in.AllUnread())) == 1, said.String())
			}
		})
		if t.Failed() {
			return
		}
	}
}
