package informertest_test

import (
	"context"
	"errors"
	"iter"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/informertest"
)

// invention is a broken subject that was invented from the documentation alone, without a look at the suite.
type invention struct {
	name, noticed string
	open          func() informertest.Subject[pair]
}

// invent returns a subject with a fault.
func invent(f faulty) func() informertest.Subject[pair] {
	return func() informertest.Subject[pair] {
		src := newSource()
		under := f
		under.source = src
		return subject(src, under)
	}
}

// watching is a fault of watches: it has the watch of the source.
func watching(f func(s *source, ctx context.Context, after informer.Version, yield func(event, error) bool)) faulty {
	return faulty{watch: func(s *source, ctx context.Context, after informer.Version) events {
		return func(yield func(event, error) bool) { f(s, ctx, after, yield) }
	}}
}

// calling is a fault of the calls of a source that need a turn.
type calling struct {
	*source
	mu     *sync.Mutex
	broken bool
}

func (c *calling) List(ctx context.Context) (informer.List[pair], error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken {
		return informer.List[pair]{}, errors.New("the connection is broken")
	}
	c.broken = ctx.Err() != nil
	return c.source.List(ctx)
}

// promising promises bookmarks.
type promising struct {
	*source
	late time.Duration
}

func (promising) BookmarkPeriod() time.Duration { return time.Second }

func (p promising) Watch(ctx context.Context, after informer.Version) events {
	return func(yield func(event, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		if p.late > 0 {
			go func() { // ends with the watch
				for ctx.Err() == nil {
					select {
					case <-ctx.Done():
					case <-time.After(p.late):
						p.Bookmark()
					}
				}
			}()
		}
		p.source.Watch(ctx, after)(yield)
	}
}

// latest tells a latest version.
type latest struct {
	*source
	f func(s *source, ctx context.Context) (informer.Version, error)
}

func (l latest) LatestVersion(ctx context.Context) (informer.Version, error) {
	return l.f(l.source, ctx)
}

// together is a subject whose transactions have the given version for each of their two changes.
func together(versions func(first, second informer.Version) (informer.Version, informer.Version)) func() informertest.Subject[pair] {
	return func() informertest.Subject[pair] {
		src := newSource()
		var mu sync.Mutex
		of := map[informer.Version]informer.Version{}
		s := subject(src, faulty{source: src, watch: func(s *source, ctx context.Context, after informer.Version) events {
			return func(yield func(event, error) bool) {
				for ev, err := range s.Watch(ctx, after) {
					mu.Lock()
					if v, ok := of[ev.Version]; ok {
						ev.Version = v
					}
					mu.Unlock()
					if !yield(ev, err) {
						return
					}
				}
			}
		}})
		s.Together = func(first, second informertest.Change) error {
			mu.Lock()
			defer mu.Unlock()
			for _, c := range []informertest.Change{first, second} {
				if c.Delete {
					src.Delete(c.Name)
				} else {
					src.Put(pair{c.Name, strconv.Itoa(c.Rev)})
				}
			}
			now := src.Version()
			of[now-1], of[now] = versions(now-1, now)
			return nil
		}
		return s
	}
}

// heralding is a source whose watches begin with a bookmark if they have nothing else to yield.
type heralding struct{ informer.ListWatcher[pair] }

func (s heralding) Watch(ctx context.Context, after informer.Version) events {
	return func(yield func(event, error) bool) {
		l, err := s.List(ctx)
		if err == nil && after >= l.Version && !yield(event{Type: informer.Bookmark, Version: l.Version}, nil) {
			return
		}
		s.ListWatcher.Watch(ctx, after)(yield)
	}
}

// merging is a subject that may merge, with a fault.
func merging(open func() informertest.Subject[pair]) func() informertest.Subject[pair] {
	return func() informertest.Subject[pair] {
		s := open()
		s.Merges = true
		return s
	}
}

// torn is a subject whose lists lack an object while another one is being written.
func torn() informertest.Subject[pair] {
	src := newSource()
	var mu sync.Mutex
	writing := 0
	s := subject(src, faulty{source: src, list: func(s *source, ctx context.Context) (informer.List[pair], error) {
		time.Sleep(time.Millisecond / 2)
		l, err := s.List(ctx)
		mu.Lock()
		defer mu.Unlock()
		if writing > 0 && len(l.Items) > 50 {
			l.Items = l.Items[1:]
		}
		return l, err
	}})
	put := s.Put
	s.Put = func(name string, rev int) error {
		count := func(n int) { mu.Lock(); defer mu.Unlock(); writing += n }
		count(1)
		defer count(-1)
		time.Sleep(time.Millisecond)
		return put(name, rev)
	}
	return s
}

// inventions are the thirty sources. Those whose rule existed already name the case that noticed them from the start.
func inventions() []invention {
	return []invention{
		{"the version of a list is that of its newest object", "the version of a list grows with every change", func() informertest.Subject[pair] {
			src := newSource()
			var mu sync.Mutex
			versions := map[string]informer.Version{}
			s := subject(src, faulty{source: src, list: func(s *source, ctx context.Context) (informer.List[pair], error) {
				mu.Lock()
				defer mu.Unlock()
				l, err := s.List(ctx)
				l.Version = 0
				for _, p := range l.Items {
					l.Version = max(l.Version, versions[p.name])
				}
				return l, err
			}})
			put := s.Put
			s.Put = func(name string, rev int) error {
				mu.Lock()
				defer mu.Unlock()
				err := put(name, rev)
				versions[name] = src.Version()
				return err
			}
			return s
		}},
		{"the version of a list is the number of its objects", "the version of a list grows with every change",
			invent(lists(func(l *informer.List[pair]) { l.Version = informer.Version(len(l.Items)) }))},
		{"a list is from a replica that lags by a second", "a list holds each object once, in its last state", func() informertest.Subject[pair] {
			src := newSource()
			var mu sync.Mutex
			var have informer.List[pair]
			var at time.Time
			return subject(src, faulty{source: src, list: func(s *source, ctx context.Context) (l informer.List[pair], err error) {
				mu.Lock()
				defer mu.Unlock()
				if time.Since(at) > time.Second {
					have, err = s.List(ctx)
					at = time.Now()
				}
				return have, err
			}})
		}},
		{"a list has deleted objects", "a list holds each object once, in its last state", func() informertest.Subject[pair] {
			src := newSource()
			s := subject(src, src)
			s.Delete = func(name string) error { src.Put(pair{name, "0"}); return nil }
			return s
		}},
		{"a list whose context has ended is cut", "a list whose context ends is complete, or fails",
			invent(faulty{list: func(s *source, ctx context.Context) (informer.List[pair], error) {
				l, err := s.List(context.Background())
				if ctx.Err() != nil {
					l.Items = l.Items[:len(l.Items)/2]
				}
				return l, err
			}})},
		{"a list is read while it is rewritten", "a list during changes is consistent with its version", torn},
		{"a list of a source that merges is read while it is rewritten", "a list during changes lacks no other object", merging(torn)},

		{"a watch from version zero begins with now", "a watch from any version yields the rest",
			invent(watching(func(s *source, ctx context.Context, after informer.Version, yield func(event, error) bool) {
				if after == 0 {
					after = s.Version()
				}
				s.Watch(ctx, after)(yield)
			}))},
		{"a watch begins with all objects", "a watch yields each change after its list, once and in order",
			invent(watching(func(s *source, ctx context.Context, after informer.Version, yield func(event, error) bool) {
				l, _ := s.List(ctx)
				for _, p := range l.Items {
					if !yield(event{Type: informer.Added, Object: p, Version: l.Version}, nil) {
						return
					}
				}
				s.Watch(ctx, after)(yield)
			}))},
		{"the version after a compaction expires too", "a list allows watching again after ErrExpired", func() informertest.Subject[pair] {
			src := newSource()
			compacted := false
			s := subject(src, faulty{source: src, watch: func(s *source, ctx context.Context, after informer.Version) events {
				if compacted {
					after = max(after, 1) - 1
				}
				return s.Watch(ctx, after)
			}})
			expire := s.Expire
			s.Expire = func() error { compacted = true; return expire() }
			return s
		}},
		{"a watch goes on after the compaction that has overtaken it", "a consumer that a compaction overtakes misses nothing, or its watch ends",
			invent(watching(func(s *source, ctx context.Context, after informer.Version, yield func(event, error) bool) {
				n, overtaken := 0, true
				for overtaken {
					overtaken = false
					for ev, err := range s.Watch(ctx, after) {
						if overtaken = n > 0 && errors.Is(err, informer.ErrExpired); overtaken {
							after = s.Version()
							break
						}
						if n++; !yield(ev, err) {
							return
						}
					}
				}
			}))},
		{"a watch has room for 100 events", "a slow consumer misses nothing, or its watch ends",
			invent(watching(func(s *source, ctx context.Context, after informer.Version, yield func(event, error) bool) {
				room := make(chan func() (event, error), 100)
				ctx, cancel := context.WithCancelCause(ctx)
				var all sync.WaitGroup
				defer all.Wait()
				defer cancel(nil)
				all.Go(func() { // ends with the watch
					for ev, err := range s.Watch(ctx, after) {
						one := func() (event, error) { return ev, err }
						if err != nil {
							room <- one
							return
						}
						select {
						case room <- one:
						default: // dropped
						}
					}
				})
				for one := range room {
					ev, err := one()
					if !yield(ev, err) || err != nil {
						return
					}
				}
			}))},
		{"a writer waits for a consumer that is 100 events behind", "a slow consumer misses nothing, or its watch ends", func() informertest.Subject[pair] {
			src := newSource()
			room, over := make(chan struct{}, 100), false
			s := subject(src, faulty{source: src, watch: func(s *source, ctx context.Context, after informer.Version) events {
				return tells(func(ev event) []event {
					select {
					case <-room:
					default:
					}
					return []event{ev}
				}).watch(s, ctx, after)
			}})
			put := s.Put
			s.Put = func(name string, rev int) error {
				select {
				case room <- struct{}{}:
				case <-time.After(time.Hour):
					over = true
				}
				if over {
					return errors.New("nobody reads")
				}
				return put(name, rev)
			}
			return s
		}},
		{"a watch reads 100 past changes, and waits for the next", "a slow consumer misses nothing, or its watch ends",
			invent(watching(func(s *source, ctx context.Context, after informer.Version, yield func(event, error) bool) {
				begun, n := s.Version(), 0
				for ev, err := range s.Watch(ctx, after) {
					if n++; err == nil && ev.Version <= begun && n > 100 {
						continue
					}
					if !yield(ev, err) {
						return
					}
				}
			}))},
		{"a re-creation is a modification", "a deletion carries the last state, and a creation after it is new", func() informertest.Subject[pair] {
			src := newSource()
			var mu sync.Mutex
			known := map[string]bool{}
			return subject(src, faulty{source: src, watch: tells(func(ev event) []event {
				mu.Lock()
				defer mu.Unlock()
				if ev.Type == informer.Added && known[ev.Object.name] {
					ev.Type = informer.Modified
				}
				known[ev.Object.name] = known[ev.Object.name] || ev.Type == informer.Deleted
				return []event{ev}
			}).watch})
		}},
		{"a watch that resumes has no deletions", "a watch from any version yields the rest",
			invent(watching(func(s *source, ctx context.Context, after informer.Version, yield func(event, error) bool) {
				begun := s.Version()
				for ev, err := range s.Watch(ctx, after) {
					if ev.Type == informer.Deleted && ev.Version <= begun {
						continue
					}
					if !yield(ev, err) {
						return
					}
				}
			}))},
		{"a watch leaves a goroutine behind", "a watch that has ended leaves nothing behind",
			invent(watching(func(s *source, ctx context.Context, after informer.Version, yield func(event, error) bool) {
				go time.Sleep(time.Hour)
				s.Watch(ctx, after)(yield)
			}))},
		{"a call whose context has ended breaks the connection", "the source works after calls whose contexts have ended", func() informertest.Subject[pair] {
			src := newSource()
			return subject(src, &calling{source: src, mu: new(sync.Mutex)})
		}},
		{"a clock with seconds gives the versions", "a watch yields each change after its list, once and in order", func() informertest.Subject[pair] {
			src := newSource()
			seconds := func() informer.Version { return informer.Version(time.Now().Unix()) }
			return subject(src, faulty{source: src,
				list: func(s *source, ctx context.Context) (informer.List[pair], error) {
					l, err := s.List(ctx)
					l.Version = seconds()
					return l, err
				},
				watch: func(s *source, ctx context.Context, after informer.Version) events {
					return when(func(event) bool { return true }, func(ev *event) { ev.Version = seconds() }).watch(s, ctx, s.Version())
				},
			})
		}},
		{"the writers' clocks give the versions, and one is behind", "a consumer that lists and watches during changes converges", func() informertest.Subject[pair] {
			src := newSource()
			return subject(src, faulty{source: src, watch: when(func(ev event) bool { return ev.Object.name == "2" }, func(ev *event) {
				ev.Version -= min(ev.Version, 5)
			}).watch})
		}},
		{"the end of a context expires a watch", "the end of its context ends a waiting watch with the cause",
			invent(ends(func(err error, yield func(event, error) bool) { yield(event{}, errors.Join(err, informer.ErrExpired)) }))},
		{"an event is of the version that is current", "a watch from any version yields the rest",
			invent(watching(func(s *source, ctx context.Context, after informer.Version, yield func(event, error) bool) {
				when(func(event) bool { return true }, func(ev *event) { ev.Version = s.Version() }).watch(s, ctx, after)(yield)
			}))},
		{"a deletion is KeyOnly, and names another key", "a deletion carries the last state, and a creation after it is new",
			invent(when(isType(informer.Deleted), func(ev *event) { ev.Object, ev.KeyOnly = pair{name: "?"}, true }))},
		{"a modification is KeyOnly", "a deletion carries the last state, and a creation after it is new",
			invent(when(isType(informer.Modified), func(ev *event) { ev.KeyOnly = true }))},

		{"promised bookmarks do not come", "an idle watch yields something within the BookmarkPeriod", func() informertest.Subject[pair] {
			src := newSource()
			return subject(src, promising{source: src})
		}},
		{"promised bookmarks are late", "an idle watch yields something within the BookmarkPeriod", func() informertest.Subject[pair] {
			src := newSource()
			return subject(src, promising{src, 10 * time.Second})
		}},
		{"no watch reaches the latest version", "the latest version covers every change, and a watch reaches it", func() informertest.Subject[pair] {
			src := newSource()
			return subject(src, latest{src, func(s *source, _ context.Context) (informer.Version, error) { return s.Version() + 1, nil }})
		}},
		{"the latest version ignores its context", "the latest version covers every change, and a watch reaches it", func() informertest.Subject[pair] {
			src := newSource()
			return subject(src, latest{src, func(s *source, ctx context.Context) (informer.Version, error) {
				if ctx.Err() != nil {
					time.Sleep(time.Hour)
				}
				return s.Version(), ctx.Err()
			}})
		}},
		{"both changes of a transaction have its version", "changes that commit together are not split",
			together(func(_, second informer.Version) (informer.Version, informer.Version) { return second, second })},
		{"changes of a transaction have one version, and bookmarks come after it", "changes that commit together are not split",
			func() informertest.Subject[pair] {
				s := together(func(_, second informer.Version) (informer.Version, informer.Version) { return second, second })()
				s.Source = heralding{s.Source}
				return s
			}},
		{"changes of a transaction come in reverse", "changes that commit together are not split",
			together(func(first, second informer.Version) (informer.Version, informer.Version) { return second, first })},
	}
}

func TestSuiteDetectsInventedSources(t *testing.T) {
	for _, c := range inventions() {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				failed, _ := informertest.Failures(t, c.open)
				assert.Contains(t, failed, c.noticed)
				time.Sleep(2 * time.Hour) // until the goroutines of the broken source have ended
			})
		})
	}
}

// The source has one object for all events of a watch.
func TestSuiteDetectsEventsThatChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed, _ := informertest.FailuresOf(t, "an event does not change afterward", func() informertest.Subject[*pair] {
			src := newSource()
			s := subject(src, src)
			return informertest.Subject[*pair]{
				Source: reusing{informer.Map(src, func(p pair) *pair { return &p })}, Put: s.Put, Delete: s.Delete,
				Read: func(p *pair) (string, int) {
					if p == nil {
						return "", 0
					}
					return read(*p)
				},
				History: 1000,
			}
		})
		assert.Contains(t, failed["an event does not change afterward"], "after later events")
	})
}

// reusing is a source that uses its objects again.
type reusing struct{ informer.ListWatcher[*pair] }

func (r reusing) Watch(ctx context.Context, after informer.Version) iter.Seq2[informer.Event[*pair], error] {
	return func(yield func(informer.Event[*pair], error) bool) {
		shared := new(pair)
		for ev, err := range r.ListWatcher.Watch(ctx, after) {
			if ev.Object != nil {
				*shared = *ev.Object
				ev.Object = shared
			}
			if !yield(ev, err) {
				return
			}
		}
	}
}

// The order of the two changes is not promised; only that no consumer can stop between them.
func TestChangesOfOneVersionPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed, _ := informertest.Failures(t, together(func(first, second informer.Version) (informer.Version, informer.Version) {
			return first - 1, second
		}))
		assert.Empty(t, failed)
		failed, skipped := informertest.Failures(t, func() informertest.Subject[pair] {
			src := newSource()
			return subject(src, promising{src, 900 * time.Millisecond})
		})
		assert.Empty(t, failed)
		assert.Positive(t, skipped)
	})
}
