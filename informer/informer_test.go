package informer_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/informertest"
	"github.com/setpoint-go/setpoint/informer/internal/sitetest"
	"github.com/setpoint-go/setpoint/wait"
)

func TestRunRunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := must(informer.New(newSource(), nameOf, informer.Config{Name: "sites"}))
		stop := sitetest.Start(t, in)
		err := in.Run(t.Context())
		require.ErrorIs(t, err, informer.ErrRunning)
		assert.EqualError(t, err, "informer: run sites: already running")

		stop()
		require.ErrorIs(t, in.Run(t.Context()), informer.ErrEnded)
		_, err = in.AddHandler(informer.Handler[string, site]{})
		assert.ErrorIs(t, err, informer.ErrEnded)
	})
}

func TestNothingHappensBeforeRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		src.Put(site{Name: "a", Rev: 1})
		in := must(informer.New(src, nameOf, informer.Config{}))
		r := newRecorder(t).add(in)
		assert.Empty(t, r.take())
		assert.Zero(t, in.Version())
		assert.Zero(t, in.LastHeard())
		assert.False(t, in.HasSynced())
		<-r.reg.Remove() // does not wait for a goroutine that was never started
	})
}

func TestRunWithEndedContextListsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := must(informer.New(scripted{list: func(context.Context) (informer.List[site], error) {
			t.Error("List was called")
			return informer.List[site]{}, nil
		}}, nameOf, informer.Config{}))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		assert.NoError(t, in.Run(ctx))
	})
}

func TestNameDefaultsToObjectType(t *testing.T) {
	assert.Equal(t, "sitetest.Site", must(informer.New(newSource(), nameOf, informer.Config{})).Name())
	assert.Equal(t, "sites", must(informer.New(newSource(), nameOf, informer.Config{Name: "sites"})).Name())
}

func TestKeyCallsKeyFunc(t *testing.T) {
	assert.Equal(t, "ulm", must(informer.New(newSource(), nameOf, informer.Config{})).Key(site{Name: "ulm"}))
}

func TestNewPanicsWithoutSourceOrKeyFunc(t *testing.T) {
	assert.Panics(t, func() { must(informer.New(nil, nameOf, informer.Config{})) })
	assert.Panics(t, func() { must(informer.New[string](newSource(), nil, informer.Config{})) })
}

// many puts n objects, of the given revision.
func many(src *informertest.Source[string, site], n, rev int) {
	for i := range n {
		src.Put(site{Name: fmt.Sprint(i), Rev: rev})
	}
}

func TestHandlersRunAfterCacheHoldsWholeList(t *testing.T) {
	const n = 2*informer.MaxBatch + 7
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		many(src, n, 1)
		in := must(informer.New(src, nameOf, informer.Config{}))
		cache.AddIndex(in.Indexer(), func(site) []int { // slow, so that handlers have the time to look
			time.Sleep(time.Millisecond)
			return nil
		})
		var rev, size knob[int]
		rev.set(1)
		size.set(n)
		calls := make(chan struct{}, 2*n)
		check := func() {
			calls <- struct{}{}
			for _, s := range in.Indexer().All() {
				if s.Rev != rev.get() {
					t.Errorf("the cache still holds %v", s)
				}
			}
			assert.Equal(t, size.get(), in.Indexer().Len())
		}
		_, err := in.AddHandler(informer.Handler[string, site]{
			OnAdd:    func(site, bool) { check(); assert.True(t, in.HasSynced()) },
			OnUpdate: func(_, _ site) { check() },
			OnDelete: func(cache.Tombstone[string, site]) { check() },
		})
		require.NoError(t, err)
		sitetest.Start(t, in)
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Len(t, calls, n)

		src.Fail(errOutage)
		rev.set(2)
		size.set(n - 5)
		many(src, n, 2)
		for i := range 5 {
			src.Delete(fmt.Sprint(i))
		}
		src.Compact()
		src.Fail(nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Len(t, calls, 2*n)
	})
}

func TestHandlerIsNeverAheadOfCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		in := must(informer.New(src, nameOf, informer.Config{}))
		atLeast := func(s site) {
			cached, ok := in.Get(s.Name)
			assert.True(t, ok)
			assert.GreaterOrEqual(t, cached.Rev, s.Rev)
		}
		_, err := in.AddHandler(informer.Handler[string, site]{
			OnAdd:    func(s site, _ bool) { atLeast(s) },
			OnUpdate: func(_, s site) { atLeast(s) },
		})
		require.NoError(t, err)
		sitetest.Start(t, in)
		for rev := range 1000 {
			src.Put(site{Name: fmt.Sprint(rev % 7), Rev: rev})
		}
		synctest.Wait()
	})
}

func TestVersionIsLastChangeInCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		src.Put(site{Name: "a"})
		in := must(informer.New(src, nameOf, informer.Config{}))
		sitetest.Start(t, in)
		assert.Equal(t, informer.Version(1), in.Version())
		for range 1000 {
			v := src.Put(site{Name: "a", Rev: int(in.Version())})
			require.NoError(t, in.WaitForVersion(t.Context(), v))
			got, ok := in.Get("a")
			assert.True(t, ok)
			assert.Equal(t, int(v)-1, got.Rev)
		}
		v := src.Bookmark()
		require.NoError(t, in.WaitForVersion(t.Context(), v))
		assert.Equal(t, v, in.Version())
	})
}

func TestSlowCacheEventuallyAppliesPendingEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		in := must(informer.New(src, nameOf, informer.Config{}))
		slow := make(chan struct{})
		cache.AddIndex(in.Indexer(), func(s site) []int { <-slow; return nil })
		r := newRecorder(t).add(in)
		sitetest.Start(t, in)
		many(src, 5*informer.MaxBatch, 1)
		synctest.Wait()
		close(slow)
		assert.Len(t, r.take(), 5*informer.MaxBatch)
		assert.Equal(t, src.Version(), in.Version())
	})
}

func TestWaitForVersion(t *testing.T) {
	t.Run("wakes only waiters whose version is reached", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			src := newSource()
			in := must(informer.New(src, nameOf, informer.Config{}))
			sitetest.Start(t, in)
			reached := make([]error, 6)
			for v := range reached {
				reached[v] = errors.New("waits")
				go func() { reached[v] = in.WaitForVersion(t.Context(), informer.Version(v)) }() // ends with the test's context
			}
			src.Put(site{Name: "a"})
			src.Bookmark()
			src.Delete("a")
			synctest.Wait()
			for v, err := range reached {
				assert.Equal(t, v <= 3, err == nil, "version %d: %v", v, err)
			}
			assert.Equal(t, 2, informer.Waiters(in))
		})
	})
	t.Run("ends with the cause of its context", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			in := must(informer.New(newSource(), nameOf, informer.Config{Name: "sites"}))
			sitetest.Start(t, in)
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("too slow"))
			defer cancel()
			assert.EqualError(t, in.WaitForVersion(ctx, 7), "informer: wait for version of sites: at version 0, not 7: too slow")
			assert.Zero(t, informer.Waiters(in))
		})
	})
	t.Run("returns nil if the version was reached", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			in := must(informer.New(newSource(), nameOf, informer.Config{}))
			for v := informer.Version(1); v < 200; v++ {
				ctx, cancel := context.WithCancel(t.Context())
				err := make(chan error, 1)
				go func() { err <- in.WaitForVersion(ctx, v) }() // ends with ctx
				synctest.Wait()
				cancel()
				informer.Reach(in, v) // most often before the waiting goroutine has noticed
				if err := <-err; err != nil {
					require.ErrorContains(t, err, fmt.Sprintf("at version %d, not %d: ", v-1, v))
				}
			}
		})
	})
	t.Run("ends with Run", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			in := must(informer.New(newSource(), nameOf, informer.Config{}))
			stop := sitetest.Start(t, in)
			time.AfterFunc(time.Second, stop)
			assert.ErrorIs(t, in.WaitForVersion(t.Context(), 7), informer.ErrEnded)
			assert.Zero(t, informer.Waiters(in))
		})
	})
}

func TestLastHeardIsTimeOfLastListEventOrBookmark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		src.Fail(errOutage)
		in := must(informer.New(src, nameOf, informer.Config{OnError: func(error) {}}))
		sitetest.Start(t, in)
		heardNow := func(want bool) {
			t.Helper()
			synctest.Wait()
			assert.Equal(t, want, in.LastHeard().Equal(time.Now()))
			time.Sleep(time.Hour)
		}
		heardNow(false)
		src.Fail(nil)
		time.Sleep(time.Hour)
		assert.False(t, in.LastHeard().IsZero())
		src.Put(site{Name: "a"})
		heardNow(true)
		src.Bookmark()
		heardNow(true)
		src.Fail(errOutage)
		heardNow(false)
	})
}

func TestStatsReportProgressOfCacheAndHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		src.Fail(errOutage)
		src.Put(site{Name: "a"})
		in := must(informer.New(src, nameOf, informer.Config{OnError: func(error) {}}))
		assert.Equal(t, informer.Stats{}, in.Stats())
		busy := make(chan struct{})
		for range 2 {
			must(in.AddHandler(informer.Handler[string, site]{OnAdd: func(site, bool) { <-busy }}))
		}
		sitetest.Start(t, in)
		synctest.Wait()
		failing := in.Stats()
		require.ErrorIs(t, failing.LastError, errOutage)
		failing.LastError = nil
		assert.Equal(t, informer.Stats{Errors: 1}, failing)
		src.Fail(nil)
		time.Sleep(time.Minute)
		src.Put(site{Name: "b"})
		src.Put(site{Name: "c"})
		src.Put(site{Name: "c", Rev: 1}) // merged
		synctest.Wait()
		s := in.Stats()
		assert.Positive(t, s.Errors)
		s.Errors = 0
		assert.Equal(t, informer.Stats{
			Objects: 3, Version: src.Version(), Heard: time.Now(), Watching: true, Handlers: 2, Backlog: 4, Lists: 1,
		}, s)
		in.Reset()
		synctest.Wait()
		assert.EqualValues(t, 2, in.Stats().Lists)
		close(busy)
		synctest.Wait()
		assert.Zero(t, in.Stats().Backlog)
	})
}

func TestLastErrorEndsWithAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		in := must(informer.New(src, nameOf, informer.Config{Backoff: wait.Backoff{Duration: time.Minute}, OnError: func(error) {}}))
		sitetest.Start(t, in)
		require.NoError(t, in.Stats().LastError)
		src.Break(errOutage)
		synctest.Wait()
		require.ErrorIs(t, in.Stats().LastError, errOutage)
		assert.False(t, in.Stats().Watching)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.ErrorIs(t, in.Stats().LastError, errOutage, "the next watch may break too")
		assert.True(t, in.Stats().Watching)
		time.Sleep(time.Second)
		require.NoError(t, in.Stats().LastError, "it is idle")
		src.Break(errOutage)
		time.Sleep(time.Minute)
		synctest.Wait()
		src.Bookmark()
		synctest.Wait()
		require.NoError(t, in.Stats().LastError, "it has answered")
	})
}

func TestStatsCountPendingForCache(t *testing.T) {
	src := newSource()
	src.Put(site{Name: "a"})
	in := must(informer.New(src, nameOf, informer.Config{}))
	steps := must(in.Steps(t.Context()))
	defer steps.Stop()
	steps.Read(t.Context())
	assert.Equal(t, 1, in.Stats().Pending)
	steps.Apply()
	assert.Zero(t, in.Stats().Pending)
}

func TestOnVersionReportsEveryReachedVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var list knob[informer.List[site]]
		list.set(informer.List[site]{Items: []site{{Name: "a", Rev: 1}}, Version: 7})
		events := make(chan informer.Event[site])
		var errs sitetest.Errors
		in := must(informer.New(scripted{
			list: func(context.Context) (informer.List[site], error) { return list.get(), nil },
			watch: func(ctx context.Context, _ informer.Version) iter.Seq2[informer.Event[site], error] {
				return func(yield func(informer.Event[site], error) bool) {
					for {
						select {
						case ev := <-events:
							if !yield(ev, nil) {
								return
							}
						case <-ctx.Done():
							return
						}
					}
				}
			},
		}, nameOf, informer.Config{Name: "sites", OnError: errs.Add}))
		cache.AddIndex(in.Indexer(), func(s site) []int { return []int{100 / s.Rev} })
		var told, late []informer.Version
		stop := in.OnVersion(func(v informer.Version) {
			told = append(told, v)
			assert.Equal(t, v, in.Version(), "it may be called")
			if v > 0 {
				assert.Equal(t, 1, in.Indexer().Len(), "version %d is in the cache", v)
			}
		})
		sitetest.Start(t, in)
		send := func(rev int, v informer.Version) {
			events <- informer.Event[site]{Type: informer.Modified, Object: site{Name: "a", Rev: rev}, Version: v}
			synctest.Wait()
		}
		send(2, 8)
		send(3, 8) // nothing that is new
		stopLate := in.OnVersion(func(v informer.Version) {
			late = append(late, v)
			if v == 10 {
				panic("oh dear")
			}
		})
		events <- informer.Event[site]{Type: informer.Bookmark, Version: 9}
		send(0, 10) // it cannot be indexed
		send(4, 11)
		stop()
		stop()
		list.set(informer.List[site]{Items: []site{{Name: "a", Rev: 1}}, Version: 3})
		in.Reset()
		synctest.Wait()
		send(5, 10)
		send(6, 11)
		stopLate()
		send(7, 12)
		assert.Equal(t, []informer.Version{7, 8, 9, 11}, told)
		assert.Equal(t, []informer.Version{9, 11, 0, 3, 10, 11}, late)
		got := errs.Take()
		require.Len(t, got, 2)
		assert.ErrorContains(t, got[0], "informer: apply a to the cache of sites: ")
		assert.EqualError(t, got[1], "informer: call OnVersion of sites: panic: oh dear")
		assert.Panics(t, func() { in.OnVersion(nil) })
	})
}

func TestResyncRedeliversEveryObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		src.Put(site{Name: "b", Rev: 1})
		src.Put(site{Name: "a", Rev: 2})
		in := must(informer.New(src, nameOf, informer.Config{ResyncPeriod: time.Hour}))
		r := newRecorder(t).add(in)
		sitetest.Start(t, in)
		assert.Equal(t, []string{"add b.1 initial=true", "add a.2 initial=true"}, r.take())
		v, heard := in.Version(), in.LastHeard()

		time.Sleep(time.Hour - 1)
		assert.Empty(t, r.take())
		time.Sleep(time.Nanosecond)
		assert.Equal(t, []string{"update b.1 1", "update a.2 2"}, r.take())
		time.Sleep(time.Hour)
		assert.Len(t, r.take(), 2)
		assert.Equal(t, v, in.Version())
		assert.Equal(t, heard, in.LastHeard())
	})
}

func TestResyncNeverDeliversOldStateAfterNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		src.Put(site{Name: "a", Rev: 1})
		in := must(informer.New(src, nameOf, informer.Config{ResyncPeriod: time.Hour}))
		r := newRecorder(t)
		r.gate = make(chan struct{})
		r.add(in)
		sitetest.Start(t, in) // the handler is in OnAdd
		src.Put(site{Name: "a", Rev: 2})
		time.Sleep(time.Hour)
		src.Put(site{Name: "b", Rev: 3})
		time.Sleep(time.Hour)
		src.Delete("a")
		time.Sleep(time.Hour)
		synctest.Wait()
		close(r.gate)
		assert.Equal(t, []string{"add a.1 initial=true", "delete a.2", "add b.3 initial=false"}, r.take())
	})
}

func TestUnindexableObjectHoldsBackVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var errs sitetest.Errors
		src := newSource()
		in := must(informer.New(src, nameOf, informer.Config{Name: "sites", OnError: errs.Add}))
		cache.AddIndex(in.Indexer(), func(s site) []int { return []int{100 / s.Rev} })
		r := newRecorder(t).add(in)
		sitetest.Start(t, in)
		good := src.Put(site{Name: "a", Rev: 1})
		src.Put(site{Name: "bad", Rev: 0})
		src.Put(site{Name: "b", Rev: 2})
		assert.Equal(t, []string{"add a.1 initial=false", "add b.2 initial=false"}, r.take())
		assert.Equal(t, good, in.Version())
		got := errs.Take()
		require.Len(t, got, 1)
		assert.ErrorContains(t, got[0], "informer: apply bad to the cache of sites: ")

		healed := src.Put(site{Name: "bad", Rev: 3})
		assert.Equal(t, []string{"add bad.3 initial=false"}, r.take())
		assert.Equal(t, healed, in.Version())
	})
}

func TestLastErrorDoesNotReturnAfterQuietWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		in := must(informer.New(src, nameOf, informer.Config{Backoff: wait.Backoff{Duration: time.Minute}, OnError: func(error) {}}))
		sitetest.Start(t, in)
		src.Break(errOutage)
		time.Sleep(time.Minute + time.Second)
		require.NoError(t, in.Stats().LastError, "a watch has been open for a second")
		src.Break(nil)
		synctest.Wait()
		assert.True(t, in.Stats().Watching, "the next watch is open")
		assert.NoError(t, in.Stats().LastError, "nothing has failed since")
	})
}

// goesOn is an error after which a watch continues.
type goesOn struct{ error }

func (goesOn) Continues() bool { return true }
func (e goesOn) Unwrap() error { return e.error }

func TestLastErrorStaysWhileWatchesCannotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := must(informer.New(scripted{list: empty, watch: func(ctx context.Context, _ informer.Version) iter.Seq2[informer.Event[site], error] {
			return func(yield func(informer.Event[site], error) bool) {
				_ = yield(informer.Event[site]{}, goesOn{errOutage}) && wait.Sleep(ctx, time.Minute) == nil
			}
		}}, nameOf, informer.Config{OnError: func(error) {}}))
		sitetest.Start(t, in)
		for range 3 {
			require.ErrorIs(t, in.Stats().LastError, errOutage)
			time.Sleep(time.Minute - 1)
			require.ErrorIs(t, in.Stats().LastError, errOutage)
			time.Sleep(time.Nanosecond)
		}
	})
}

func TestWatchGoesOnAfterErrorThatSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var errs sitetest.Errors
		works := make(chan struct{})
		src := &spy{ListWatcher: scripted{list: empty, watch: func(ctx context.Context, _ informer.Version) iter.Seq2[informer.Event[site], error] {
			return func(yield func(informer.Event[site], error) bool) {
				if !yield(informer.Event[site]{}, fmt.Errorf("poll: %w", goesOn{errOutage})) {
					return
				}
				<-works
				_ = yield(informer.Event[site]{Type: informer.Added, Object: site{Name: "a"}, Version: 2}, nil) && wait.Sleep(ctx, time.Hour) == nil
			}
		}}}
		in := must(informer.New(src, nameOf, informer.Config{Name: "sites", OnError: errs.Add}))
		sitetest.Start(t, in)
		time.Sleep(time.Minute)
		got := errs.Take()
		require.Len(t, got, 1)
		require.EqualError(t, got[0], "informer: watch sites: poll: no route to host")
		require.ErrorIs(t, in.Stats().LastError, errOutage)
		require.False(t, in.Stats().Watching, "it cannot read")
		close(works)
		require.Equal(t, 1, src.got().watches)
		assert.Equal(t, informer.Version(2), in.Version())
		assert.True(t, in.Stats().Watching)
		require.NoError(t, in.Stats().LastError)
	})
}

func TestReadReturnsAfterErrorOfWatchThatGoesOn(t *testing.T) {
	src := &spy{ListWatcher: scripted{list: empty, watch: func(context.Context, informer.Version) iter.Seq2[informer.Event[site], error] {
		return func(yield func(informer.Event[site], error) bool) {
			_ = yield(informer.Event[site]{}, goesOn{errOutage}) && yield(informer.Event[site]{Type: informer.Bookmark, Version: 2}, nil)
		}
	}}}
	in := must(informer.New(src, nameOf, informer.Config{OnError: func(error) {}}))
	steps := must(in.Steps(t.Context()))
	defer steps.Stop()
	require.True(t, steps.Read(t.Context()), "the list")
	require.False(t, steps.Read(t.Context()), "the error")
	require.True(t, steps.Read(t.Context()), "the bookmark")
	assert.Equal(t, 1, src.calls.get().watches)
}
