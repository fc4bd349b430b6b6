package informertest_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/informertest"
)

type (
	source = informertest.Source[string, pair]
	events = iter.Seq2[informer.Event[pair], error]
	event  = informer.Event[pair]
)

// subject returns src as the suite wants it, under test by way of under.
func subject(src *source, under informer.ListWatcher[pair]) informertest.Subject[pair] {
	return informertest.Subject[pair]{
		Source:   under,
		Put:      func(name string, rev int) error { src.Put(pair{name, strconv.Itoa(rev)}); return nil },
		Delete:   func(name string) error { src.Delete(name); return nil },
		Spoil:    func(name string) error { src.Spoil(pair{name: name}, errSpoiled); return nil },
		Read:     read,
		History:  1000,
		Expire:   func() error { src.Compact(); return nil },
		Bookmark: func() error { src.Bookmark(); return nil },
	}
}

var errSpoiled = errors.New("half written")

func read(p pair) (string, int) {
	rev, _ := strconv.Atoi(p.value)
	return p.name, rev
}

func TestSourceKeepsTheContract(t *testing.T) {
	informertest.Run(t, func(*testing.T) informertest.Subject[pair] {
		src := newSource()
		return subject(src, src)
	})
}

func TestPagedSourceKeepsTheContract(t *testing.T) {
	for _, size := range []int{1, 7, 1000} {
		t.Run(strconv.Itoa(size), func(t *testing.T) {
			informertest.Run(t, func(*testing.T) informertest.Subject[pair] {
				src := newSource()
				return subject(src, src.Paged(size))
			})
		})
	}
}

func TestMapKeepsTheContract(t *testing.T) {
	informertest.Run(t, func(*testing.T) informertest.Subject[pair] {
		src := newSource()
		return subject(src, informer.Map(src.Paged(7), func(p pair) pair { return p }))
	})
}

func TestIdentityFilterKeepsTheContract(t *testing.T) {
	informertest.Run(t, func(*testing.T) informertest.Subject[pair] {
		src := newSource()
		return subject(src, informer.Filter(src.Paged(7), func(pair) bool { return true }))
	})
}

// hiccup is an error after which a watch goes on.
type hiccup struct{ error }

func (hiccup) Continues() bool { return true }

func TestSourceThatReportsErrorsAndGoesOnKeepsTheContract(t *testing.T) {
	informertest.Run(t, func(*testing.T) informertest.Subject[pair] {
		src := newSource()
		return subject(src, faulty{source: src, watch: func(s *source, ctx context.Context, after informer.Version) events {
			return func(yield func(event, error) bool) {
				for ev, err := range s.Watch(ctx, after) {
					if !yield(event{}, hiccup{errors.New("a read has failed")}) || !yield(ev, err) {
						return
					}
				}
			}
		}})
	})
}

// forgetful is a subject that remembers one change, and cannot be told to forget it.
func forgetful() informertest.Subject[pair] {
	src := newSource()
	s := subject(src, src)
	put, remove := s.Put, s.Delete
	s.Put = func(name string, rev int) error { src.Compact(); return put(name, rev) }
	s.Delete = func(name string) error { src.Compact(); return remove(name) }
	s.History, s.Expire = 1, nil
	return s
}

func TestCasesForMissingPromisesAreSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed, skipped := informertest.Failures(t, forgetful)
		assert.Empty(t, failed)
		assert.Equal(t, 37, skipped)
		failed, skipped = informertest.Failures(t, func() informertest.Subject[pair] {
			src := newSource()
			s := subject(src, src)
			s.History, s.Expire, s.Bookmark = 0, nil, nil
			return s
		})
		assert.Empty(t, failed)
		assert.Equal(t, 41, skipped)
	})
}

// faulty is a source with one fault: a field that is not nil replaces the method.
type faulty struct {
	*source
	list  func(*source, context.Context) (informer.List[pair], error)
	watch func(*source, context.Context, informer.Version) events
}

func (f faulty) List(ctx context.Context) (informer.List[pair], error) {
	if f.list != nil {
		return f.list(f.source, ctx)
	}
	return f.source.List(ctx)
}

func (f faulty) Watch(ctx context.Context, after informer.Version) events {
	if f.watch != nil {
		return f.watch(f.source, ctx, after)
	}
	return f.source.Watch(ctx, after)
}

// lists is a fault of lists.
func lists(f func(l *informer.List[pair])) faulty {
	return faulty{list: func(s *source, ctx context.Context) (informer.List[pair], error) {
		l, err := s.List(ctx)
		f(&l)
		return l, err
	}}
}

// tells is a fault of events: f returns the events to yield instead of one.
func tells(f func(ev event) []event) faulty {
	return faulty{watch: func(s *source, ctx context.Context, after informer.Version) events {
		return func(yield func(event, error) bool) {
			for ev, err := range s.Watch(ctx, after) {
				if err != nil {
					yield(ev, err)
					return
				}
				for _, told := range f(ev) {
					if !yield(told, nil) {
						return
					}
				}
			}
		}
	}}
}

// ends is a fault of the ends of watches: f tells what the error becomes.
func ends(f func(err error, yield func(event, error) bool)) faulty {
	return faulty{watch: func(s *source, ctx context.Context, after informer.Version) events {
		return func(yield func(event, error) bool) {
			for ev, err := range s.Watch(ctx, after) {
				if err != nil {
					f(err, yield)
					return
				}
				if !yield(ev, nil) {
					return
				}
			}
		}
	}}
}

// later is a fault of the events whose object exists: f changes one, and reports whether it is told. Its argument now is the current state.
func later(f func(ev *event, now pair) bool) faulty {
	return faulty{watch: func(s *source, ctx context.Context, after informer.Version) events {
		return tells(func(ev event) []event {
			list, _ := s.List(context.Background())
			for _, now := range list.Items {
				if now.name == ev.Object.name && ev.Type != informer.Deleted && !f(&ev, now) {
					return nil
				}
			}
			return []event{ev}
		}).watch(s, ctx, after)
	}}
}

func isType(t informer.EventType) func(event) bool {
	return func(ev event) bool { return ev.Type == t }
}

// when is a fault of only the events for which is returns true.
func when(is func(event) bool, f func(ev *event)) faulty {
	return tells(func(ev event) []event {
		if is(ev) {
			f(&ev)
		}
		return []event{ev}
	})
}

// faults are sources that break the contract, each with the case that must detect it.
var faults = []struct {
	name, noticed, message string
	fault                  faulty
}{
	{"the list forgets its first object", "a long list is complete", "",
		lists(func(l *informer.List[pair]) { l.Items = l.Items[min(1, len(l.Items)):] })},
	{"an object is on two pages", "a long list is complete", "has 49 twice",
		lists(func(l *informer.List[pair]) {
			if len(l.Items) > 50 {
				l.Items = slices.Insert(l.Items, 50, l.Items[49])
			}
		})},
	{"the last page is lost", "a long list is complete", "",
		lists(func(l *informer.List[pair]) { l.Items = l.Items[:min(50, len(l.Items))] })},
	{"the list has a version that is too new", "a change between a list and its watch is not missed", "",
		lists(func(l *informer.List[pair]) { l.Version++ })},
	{"the list has a version that is too old", "a watch yields each change after its list, once and in order", "",
		lists(func(l *informer.List[pair]) { l.Version = max(l.Version, 1) - 1 })},
	{"the list has no version", "the version of a list grows with every change", "before, and 0 after",
		lists(func(l *informer.List[pair]) { l.Version = 0 })},
	{"the list fails", "an empty source lists nothing", "no route to host",
		faulty{list: func(*source, context.Context) (informer.List[pair], error) {
			return informer.List[pair]{}, errors.New("no route to host")
		}}},
	{"the pages of a list are of two versions", "a list during changes is consistent with its version", "differs from the events up to it",
		faulty{list: func(s *source, ctx context.Context) (informer.List[pair], error) {
			first, err := s.List(ctx)
			time.Sleep(time.Millisecond)
			second, _ := s.List(ctx)
			half := len(first.Items) / 2
			return informer.List[pair]{Items: slices.Concat(first.Items[:half], second.Items[half:]), Version: second.Version}, err
		}}},
	{"the list uses its slice again", "a list does not change afterward", "holds",
		func() faulty {
			shared := make([]pair, 200)
			return faulty{list: func(s *source, ctx context.Context) (informer.List[pair], error) {
				l, err := s.List(ctx)
				if len(l.Items) < len(shared) {
					l.Items = shared[:copy(shared, l.Items)]
				}
				return l, err
			}}
		}()},
	{"a second loop goes on", "each loop over a watch starts at the same version", "",
		faulty{watch: func(s *source, ctx context.Context, after informer.Version) events {
			return func(yield func(event, error) bool) {
				for ev, err := range s.Watch(ctx, after) {
					after = max(after, ev.Version)
					if !yield(ev, err) {
						return
					}
				}
			}
		}}},
	{"the list does not return", "a list returns when its context ends", "waited",
		faulty{list: func(s *source, ctx context.Context) (informer.List[pair], error) {
			if ctx.Err() != nil {
				time.Sleep(time.Hour)
			}
			return s.List(ctx)
		}}},
	{"a watch starts with the current state", "a change between a list and its watch is not missed", "",
		faulty{watch: func(s *source, ctx context.Context, _ informer.Version) events { return s.Watch(ctx, s.Version()) }}},
	{"a watch starts with its own version", "a watch resumes where its loop ended", "",
		faulty{watch: func(s *source, ctx context.Context, after informer.Version) events {
			return s.Watch(ctx, max(after, 1)-1)
		}}},
	{"a watch starts with the first change", "a watch from any version yields the rest", "",
		faulty{watch: func(s *source, ctx context.Context, _ informer.Version) events { return s.Watch(ctx, 0) }}},
	{"a watch starts after the first change", "a change between a list and its watch is not missed", "",
		faulty{watch: func(s *source, ctx context.Context, after informer.Version) events { return s.Watch(ctx, after+1) }}},
	{"a watch ends after one event", "a watch yields each change after its list, once and in order", "",
		faulty{watch: func(s *source, ctx context.Context, after informer.Version) events {
			return func(yield func(event, error) bool) {
				for ev, err := range s.Watch(ctx, after) {
					yield(ev, err)
					return
				}
			}
		}}},
	{"an event has the state of now", "a watch from any version yields the rest", "",
		later(func(ev *event, now pair) bool { ev.Object = now; return true })},
	{"a state that was replaced is skipped", "a watch from any version yields the rest", "",
		later(func(ev *event, now pair) bool { return ev.Object == now })},
	{"every event comes twice", "a watch yields each change after its list, once and in order", "comes after version 2",
		tells(func(ev event) []event { return []event{ev, ev} })},
	{"every second event is lost", "a watch yields each change after its list, once and in order", "",
		tells(func(ev event) []event { return []event{ev}[ev.Version%2:] })},
	{"deletions are lost", "a deletion carries the last state, and a creation after it is new", "",
		tells(func(ev event) []event {
			if ev.Type == informer.Deleted {
				return nil
			}
			return []event{ev}
		})},
	{"a watch has room for few objects", "caches following a burst of new objects converge", "differs from the source",
		faulty{watch: func(s *source, ctx context.Context, after informer.Version) events {
			seen := map[string]bool{}
			return tells(func(ev event) []event {
				if len(seen) >= 120 && !seen[ev.Object.name] && ev.Type != informer.Bookmark {
					return nil
				}
				seen[ev.Object.name] = true
				return []event{ev}
			}).watch(s, ctx, after)
		}}},
	{"creations are modifications", "a deletion carries the last state, and a creation after it is new", "Modified a",
		when(isType(informer.Added), func(ev *event) { ev.Type = informer.Modified })},
	{"a deletion has only the key", "a deletion carries the last state, and a creation after it is new", "Deleted a.0",
		when(isType(informer.Deleted), func(ev *event) { ev.Object.value = "" })},
	{"a deletion has an older state than the watch yielded", "a consumer that lists and watches during changes converges", "but its last state was 0.",
		when(isType(informer.Deleted), func(ev *event) { ev.Object.value = "0" })},
	{"an event has no version", "a watch yields each change after its list, once and in order", "comes after version",
		when(isType(informer.Modified), func(ev *event) { ev.Version = 0 })},
	{"an event has an old version", "a consumer that lists and watches during changes converges", "an event is of version 0, but version",
		when(isType(informer.Modified), func(ev *event) { ev.Version = 0 })},
	{"an event has an old version for many writers", "caches following many writers converge", "an event is of version 0, but version",
		when(isType(informer.Modified), func(ev *event) { ev.Version = 0 })},
	{"an event has no type", "a watch yields each change after its list, once and in order", "has the invalid type 0",
		when(isType(informer.Modified), func(ev *event) { ev.Type = 0 })},
	{"a bookmark has a future version", "after a bookmark nothing is missed or repeated", "",
		when(isType(informer.Bookmark), func(ev *event) { ev.Version += 10 })},
	{"a bookmark has an old version", "after a bookmark nothing is missed or repeated", "a bookmark of version 0",
		when(isType(informer.Bookmark), func(ev *event) { ev.Version = 0 })},
	{"a bookmark has an object", "after a bookmark nothing is missed or repeated", "has an object",
		when(isType(informer.Bookmark), func(ev *event) { ev.Object.name = "a" })},
	{"bookmarks are swallowed", "after a bookmark nothing is missed or repeated", "",
		tells(func(ev event) []event {
			if ev.Type == informer.Bookmark {
				return nil
			}
			return []event{ev}
		})},
	{"events come in pairs, the later one first", "two watches yield the same events", "",
		func() faulty {
			return faulty{watch: func(s *source, ctx context.Context, after informer.Version) events {
				var held []event
				return tells(func(ev event) []event {
					if held = append(held, ev); len(held) < 2 {
						return nil
					}
					slices.Reverse(held)
					told := held
					held = nil
					return told
				}).watch(s, ctx, after)
			}}
		}()},
	{"a forgotten version is not detected", "a watch from a version that is too old ends with ErrExpired", "has yielded nothing",
		faulty{watch: func(s *source, ctx context.Context, after informer.Version) events {
			return func(yield func(event, error) bool) {
				expired := false
				for ev, err := range s.Watch(ctx, after) {
					if expired = errors.Is(err, informer.ErrExpired); expired || !yield(ev, err) {
						break
					}
				}
				if expired {
					s.Watch(ctx, s.Version())(yield)
				}
			}
		}}},
	{"a forgotten version has a different error", "a watch from a version that is too old ends with ErrExpired", "410",
		ends(func(err error, yield func(event, error) bool) {
			if errors.Is(err, informer.ErrExpired) {
				err = errors.New("410")
			}
			yield(event{}, err)
		})},
	{"a watch ends without an error", "the end of its context ends a waiting watch with the cause", "without an error",
		ends(func(error, func(event, error) bool) {})},
	{"a watch returns an error other than its cause", "a watch whose context has ended ends with the cause", "context canceled",
		ends(func(_ error, yield func(event, error) bool) { yield(event{}, context.Canceled) })},
	{"a watch does not end", "the end of its context ends a waiting watch with the cause", "has not ended",
		ends(func(err error, yield func(event, error) bool) {
			time.Sleep(time.Hour)
			yield(event{}, err)
		})},
	{"a watch continues after an error", "the end of its context ends a waiting watch with the cause", "continues after the error",
		ends(func(err error, yield func(event, error) bool) {
			if yield(event{}, err) {
				yield(event{}, err)
			}
		})},
	{"an error comes with an event", "the end of its context ends a waiting watch with the cause", "which comes with an event",
		ends(func(err error, yield func(event, error) bool) { yield(event{Version: 7}, err) })},
	{"a watch does not notice that its loop ended", "breaking the loop ends the watch", "panic: runtime error",
		faulty{watch: func(s *source, ctx context.Context, after informer.Version) events {
			return func(yield func(event, error) bool) {
				open := true
				for ev, err := range s.Watch(ctx, after) {
					if open = yield(ev, err) && open; !open && err == nil {
						yield(event{}, nil)
					}
				}
			}
		}}},
}

// oneAtATime is a source of which one consumer at a time may have an event.
type oneAtATime struct {
	*source
	turn chan struct{}
}

func (o oneAtATime) Watch(ctx context.Context, after informer.Version) events {
	return func(yield func(event, error) bool) {
		for ev, err := range o.source.Watch(ctx, after) {
			o.turn <- struct{}{}
			more := yield(ev, err)
			<-o.turn
			if !more {
				return
			}
		}
	}
}

func TestSuiteDetectsConsumersThatHoldUpOthers(t *testing.T) {
	for name, c := range map[string]struct {
		noticed string
		subject func(src *source, turn chan struct{}) informertest.Subject[pair]
	}{
		"other consumers": {"a consumer that does not read on delays no other", func(src *source, turn chan struct{}) informertest.Subject[pair] {
			return subject(src, oneAtATime{src, turn})
		}},
		"writers": {"a consumer may list and change the source inside its loop", func(src *source, turn chan struct{}) informertest.Subject[pair] {
			s := subject(src, oneAtATime{src, turn})
			put := s.Put
			s.Put = func(name string, rev int) error {
				select {
				case turn <- struct{}{}:
				case <-time.After(time.Hour):
					return errors.New("somebody else has the turn")
				}
				defer func() { <-turn }()
				return put(name, rev)
			}
			return s
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				failed, _ := informertest.FailuresOf(t, c.noticed, func() informertest.Subject[pair] {
					return c.subject(newSource(), make(chan struct{}, 1))
				})
				assert.NotEmpty(t, failed)
				time.Sleep(2 * time.Hour) // until the writers that wait in the source have given up
			})
		})
	}
}

// A source whose watches soon expire, and then its next list comes from a replica that has stopped.
func TestSuiteDetectsListsThatGoBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed, _ := informertest.Failures(t, func() informertest.Subject[pair] {
			src := newSource()
			var mu sync.Mutex
			var first *informer.List[pair]
			behind, more := false, 10
			return subject(src, faulty{
				source: src,
				list: func(s *source, ctx context.Context) (informer.List[pair], error) {
					mu.Lock()
					defer mu.Unlock()
					l, err := s.List(ctx)
					if first == nil {
						first = &l
					}
					if behind && more > 0 {
						l, behind = *first, false
						more--
					}
					return l, err
				},
				watch: func(s *source, ctx context.Context, after informer.Version) events {
					return func(yield func(event, error) bool) {
						n := 0
						for ev, err := range s.Watch(ctx, after) {
							if n++; n > 3 {
								mu.Lock()
								behind = true
								mu.Unlock()
								yield(event{}, informer.ErrExpired)
								return
							}
							if !yield(ev, err) {
								return
							}
						}
					}
				},
			})
		})
		assert.Contains(t, failed["a consumer that lists and watches during changes converges"], "the list is of version")
		assert.Contains(t, failed["caches following many writers converge"], "the list is of version")
	})
}

func TestSuiteDetectsEveryFault(t *testing.T) {
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				failed, _ := informertest.Failures(t, func() informertest.Subject[pair] {
					src := newSource()
					under := f.fault
					under.source = src
					return subject(src, under)
				})
				assert.Contains(t, failed, f.noticed)
				assert.Contains(t, failed[f.noticed], f.message)
				time.Sleep(2 * time.Hour) // what sleeps in a faulty source shall end
			})
		})
	}
}

func TestSuiteDetectsWatchSharingItsEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed, _ := informertest.Failures(t, func() informertest.Subject[pair] {
			src := newSource()
			told := make(map[informer.Version]bool)
			var mu sync.Mutex
			return subject(src, faulty{source: src, watch: tells(func(ev event) []event {
				mu.Lock()
				defer mu.Unlock()
				if told[ev.Version] {
					return nil
				}
				told[ev.Version] = true
				return []event{ev}
			}).watch})
		})
		assert.Contains(t, failed["two watches yield the same events"], "has yielded nothing")
	})
}

// The events come from a log that is written before a change is visible.
func TestSuiteDetectsEventsBeforeTheirChangeIsVisible(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed, _ := informertest.Failures(t, func() informertest.Subject[pair] {
			src := newSource()
			var mu sync.Mutex
			visible, _ := src.List(t.Context())
			s := subject(src, faulty{source: src, list: func(*source, context.Context) (informer.List[pair], error) {
				mu.Lock()
				defer mu.Unlock()
				return visible, nil
			}})
			appear := func() {
				now, _ := src.List(t.Context())
				time.Sleep(time.Millisecond)
				mu.Lock()
				defer mu.Unlock()
				if now.Version > visible.Version {
					visible = now
				}
			}
			put, remove := s.Put, s.Delete
			s.Put = func(name string, rev int) error { defer appear(); return put(name, rev) }
			s.Delete = func(name string) error { defer appear(); return remove(name) }
			return s
		})
		assert.Contains(t, failed["a list that begins after an event shows its change"], "a list that begins after that")
	})
}

// versioned tells its latest version, which is behind by some changes.
type versioned struct {
	*source
	behind informer.Version
}

func (v versioned) LatestVersion(context.Context) (informer.Version, error) {
	return max(v.Version(), v.behind) - v.behind, nil
}

func TestSuiteDetectsLatestVersionThatLacksAChange(t *testing.T) {
	const noticed = "the latest version covers every change, and a watch reaches it"
	synctest.Test(t, func(t *testing.T) {
		for behind := range informer.Version(2) {
			failed, _ := informertest.Failures(t, func() informertest.Subject[pair] {
				src := newSource()
				return subject(src, versioned{src, behind})
			})
			if behind == 0 {
				assert.Empty(t, failed)
			} else {
				assert.Contains(t, failed[noticed], "the latest version is 0, but a watch at version 0 lacks")
			}
		}
	})
}

// must returns v. It panics if err is not nil: a test that constructs its subject from a bad Config is broken.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Each of these mistakes makes an object that exists and cannot be read harm others, or look deleted.
func TestSuiteDetectsMistakesAboutUnreadObjects(t *testing.T) {
	changing := func(change func(ev event) (event, bool)) faulty {
		return watching(func(s *source, ctx context.Context, after informer.Version, yield func(event, error) bool) {
			for ev, err := range s.Watch(ctx, after) {
				ok := true
				if err == nil && ev.Type == informer.Unreadable {
					ev, ok = change(ev)
				}
				if !ok || !yield(ev, err) {
					if !ok {
						yield(event{}, errSpoiled)
					}
					return
				}
			}
		})
	}
	listing := func(change func(l *informer.List[pair])) faulty {
		return faulty{list: func(s *source, ctx context.Context) (informer.List[pair], error) {
			l, err := s.List(ctx)
			if len(l.Unread) > 0 {
				change(&l)
			}
			return l, err
		}}
	}
	for name, f := range map[string]faulty{
		"it ends the watch": changing(func(ev event) (event, bool) { return ev, false }),
		"it looks deleted": changing(func(ev event) (event, bool) {
			ev.Type, ev.Err, ev.KeyOnly = informer.Deleted, nil, true
			return ev, true
		}),
		"it looks unchanged":           changing(func(ev event) (event, bool) { return event{Type: informer.Bookmark, Version: ev.Version}, true }),
		"it has no reason":             changing(func(ev event) (event, bool) { ev.Err = nil; return ev, true }),
		"it looks like an empty state": changing(func(ev event) (event, bool) { ev.Type, ev.Err = informer.Modified, nil; return ev, true }),
		"it has another key":           changing(func(ev event) (event, bool) { ev.Object.name = ""; return ev, true }),
		"a list leaves it out":         listing(func(l *informer.List[pair]) { l.Unread = nil }),
		"a list has it as an object":   listing(func(l *informer.List[pair]) { l.Items, l.Unread = append(l.Items, l.Unread[0].Object), nil }),
		"a list has no reason":         listing(func(l *informer.List[pair]) { l.Unread = slices.Clone(l.Unread); l.Unread[0].Err = nil }),
		"a list does not name it":      listing(func(l *informer.List[pair]) { l.Unread, l.Missing = nil, []error{errSpoiled} }),
		"a list leaves others out":     listing(func(l *informer.List[pair]) { l.Items = nil }),
		"a list fails": {list: func(s *source, ctx context.Context) (informer.List[pair], error) {
			if l, err := s.List(ctx); len(l.Unread) == 0 {
				return l, err
			}
			return informer.List[pair]{}, errSpoiled
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				failed, _ := informertest.Failures(t, invent(f))
				assert.NotEmpty(t, failed)
			})
		})
	}
}
