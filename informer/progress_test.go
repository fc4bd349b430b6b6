package informer_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/informertest"
	"github.com/setpoint-go/setpoint/wait"
)

// minutely is a source that promises a bookmark a minute.
type minutely struct{ informer.ListWatcher[site] }

func TestStaleMeansNotHeardForLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := must(informer.New(minutely{newSource()}, nameOf, informer.Config{}))
		assert.True(t, in.Stale(time.Hour), "it has never yielded anything")
		assert.True(t, in.Stale(math.MaxInt64), "however long that is")
		start(t, in)
		time.Sleep(2 * time.Minute)
		assert.False(t, in.Stale(time.Minute), "it promises a bookmark a minute, and gets twice the time")
		time.Sleep(time.Nanosecond)
		assert.True(t, in.Stale(2*time.Minute))
		assert.False(t, in.Stale(3*time.Minute))
	})
}

func TestVersionIsLastChangeInCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		src.Put(site{Name: "a"})
		in := must(informer.New(src, nameOf, informer.Config{}))
		start(t, in)
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

func TestWaitForVersion(t *testing.T) {
	t.Run("wakes only waiters whose version is reached", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			src := newSource()
			in := must(informer.New(src, nameOf, informer.Config{}))
			start(t, in)
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
			start(t, in)
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
			stop := start(t, in)
			time.AfterFunc(time.Second, stop)
			assert.ErrorIs(t, in.WaitForVersion(t.Context(), 7), informer.ErrEnded)
			assert.Zero(t, informer.Waiters(in))
		})
	})
}

func TestLastReceivedIsTimeOfLastListEventOrBookmark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		src.Fail(errOutage)
		in := must(informer.New(src, nameOf, informer.Config{OnError: func(error) {}}))
		start(t, in)
		heardNow := func(want bool) {
			t.Helper()
			synctest.Wait()
			assert.Equal(t, want, in.LastReceived().Equal(time.Now()))
			time.Sleep(time.Hour)
		}
		heardNow(false)
		src.Fail(nil)
		time.Sleep(time.Hour)
		assert.False(t, in.LastReceived().IsZero())
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
		start(t, in)
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
			Objects: 3, Version: src.Version(), LastReceived: time.Now(), Watching: true, Handlers: 2, Backlog: 4, Lists: 1,
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
		start(t, in)
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
		var errs errorLog
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
		var reported, late []informer.Version
		stop := in.OnVersion(func(v informer.Version) {
			reported = append(reported, v)
			assert.Equal(t, v, in.Version(), "it may be called")
			if v > 0 {
				assert.Equal(t, 1, in.Indexer().Len(), "version %d is in the cache", v)
			}
		})
		start(t, in)
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
		assert.Equal(t, []informer.Version{7, 8, 9, 11}, reported)
		assert.Equal(t, []informer.Version{9, 11, 0, 3, 10, 11}, late)
		got := errs.Take()
		require.Len(t, got, 2)
		assert.ErrorContains(t, got[0], "informer: apply a to the cache of sites: ")
		assert.EqualError(t, got[1], "informer: call OnVersion of sites: panic: oh dear")
		assert.Panics(t, func() { in.OnVersion(nil) })
	})
}

func TestLastErrorDoesNotReturnAfterQuietWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		in := must(informer.New(src, nameOf, informer.Config{Backoff: wait.Backoff{Duration: time.Minute}, OnError: func(error) {}}))
		start(t, in)
		src.Break(errOutage)
		time.Sleep(time.Minute + time.Second)
		require.NoError(t, in.Stats().LastError, "a watch has been open for a second")
		src.Break(nil)
		synctest.Wait()
		assert.True(t, in.Stats().Watching, "the next watch is open")
		assert.NoError(t, in.Stats().LastError, "nothing has failed since")
	})
}

func TestLastErrorStaysWhileWatchesCannotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := must(informer.New(scripted{list: empty, watch: func(ctx context.Context, _ informer.Version) iter.Seq2[informer.Event[site], error] {
			return func(yield func(informer.Event[site], error) bool) {
				_ = yield(informer.Event[site]{}, goesOn{errOutage}) && wait.Sleep(ctx, time.Minute) == nil
			}
		}}, nameOf, informer.Config{OnError: func(error) {}}))
		start(t, in)
		for range 3 {
			require.ErrorIs(t, in.Stats().LastError, errOutage)
			time.Sleep(time.Minute - 1)
			require.ErrorIs(t, in.Stats().LastError, errOutage)
			time.Sleep(time.Nanosecond)
		}
	})
}

func TestLastErrorStaysAfterWatchThatCouldNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		watches := 0
		in := must(informer.New(scripted{list: empty, watch: func(ctx context.Context, _ informer.Version) iter.Seq2[informer.Event[site], error] {
			watches++
			first := watches == 1
			return func(yield func(informer.Event[site], error) bool) {
				if first {
					_ = yield(informer.Event[site]{}, goesOn{errOutage}) && wait.Sleep(ctx, time.Minute) == nil
					return
				}
				<-ctx.Done()
			}
		}}, nameOf, informer.Config{OnError: func(error) {}}))
		start(t, in)
		time.Sleep(time.Minute + time.Second - 1)
		require.ErrorIs(t, in.Stats().LastError, errOutage, "the first watch has read nothing, and the second one is younger than a second")
		time.Sleep(time.Nanosecond)
		require.NoError(t, in.Stats().LastError)
	})
}

func TestSourceWithoutBookmarksIsStaleOnlyWithoutWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		in := must(informer.New(src, nameOf, informer.Config{OnError: func(error) {}}))
		start(t, in)
		time.Sleep(24 * time.Hour)
		assert.False(t, in.Stale(0), "the watch is open")
		assert.Equal(t, 24*time.Hour, time.Since(in.LastReceived()))

		src.Fail(errOutage)
		synctest.Wait()
		time.Sleep(time.Minute)
		assert.False(t, in.Stale(time.Minute), "silence counts from the end of the watch")
		time.Sleep(time.Nanosecond)
		assert.True(t, in.Stale(time.Minute))
		assert.False(t, in.Stale(time.Hour))

		src.Fail(nil)
		time.Sleep(time.Minute) // until after the backoff
		assert.False(t, in.Stale(0), "a watch is open again, and has had nothing to report")
	})
}

func TestShortWatchesDoNotEndSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := must(informer.New(scripted{list: empty, watch: func(context.Context, informer.Version) iter.Seq2[informer.Event[site], error] {
			return func(yield func(informer.Event[site], error) bool) {
				time.Sleep(time.Second - 1)
				yield(informer.Event[site]{}, errOutage)
			}
		}}, nameOf, informer.Config{Backoff: exact, OnError: func(error) {}}))
		start(t, in)
		time.Sleep(100*time.Second + time.Second/2)
		for range 200 { // whether a watch is open or not
			if time.Sleep(100 * time.Millisecond); in.Stats().Watching {
				continue
			}
			assert.True(t, in.Stale(100*time.Second))
		}
	})
}

func TestWaitForSyncOfNilPanics(t *testing.T) {
	in := must(informer.New(newSource(), nameOf, informer.Config{}))
	var none *informer.Informer[string, site]
	for _, bad := range []informer.Syncer{nil, none} {
		assert.PanicsWithValue(t, "informer: WaitForSync called with nil as argument 3", func() {
			_ = informer.WaitForSync(t.Context(), in, bad)
		})
	}
}

func TestHangingListIsStaleAndEndsWithResetOrRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hanging, ended knob[int]
		in := must(informer.New(scripted{list: func(ctx context.Context) (informer.List[site], error) {
			hanging.set(hanging.get() + 1)
			<-ctx.Done()
			ended.set(ended.get() + 1)
			return informer.List[site]{}, context.Cause(ctx)
		}}, nameOf, informer.Config{OnError: func(err error) { t.Error(err) }}))
		stop := start(t, in)
		time.Sleep(time.Hour)
		assert.True(t, in.Stale(time.Minute))
		in.Reset()
		synctest.Wait()
		assert.Equal(t, []int{2, 1}, []int{hanging.get(), ended.get()})
		stop()
		assert.Equal(t, []int{2, 2}, []int{hanging.get(), ended.get()})
	})
}

// A change of two objects is one version of the source. Only the last of its events has that version, so a watch that breaks
// in between does not skip the other one.
func TestVersionSharedByEventsIsReachedWithLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		in := must(informer.New(scripted{list: empty, watch: func(ctx context.Context, after informer.Version) iter.Seq2[informer.Event[site], error] {
			return func(yield func(informer.Event[site], error) bool) {
				if after < 2 {
					if !yield(informer.Event[site]{Type: informer.Added, Object: site{Name: "a"}, Version: 1}, nil) {
						return
					}
					<-gate
					yield(informer.Event[site]{Type: informer.Added, Object: site{Name: "b"}, Version: 2}, nil)
					return
				}
				<-ctx.Done()
			}
		}}, nameOf, informer.Config{}))
		start(t, in)
		assert.Len(t, contents(in), 1)
		assert.Equal(t, informer.Version(1), in.Version())
		close(gate)
		require.NoError(t, in.WaitForVersion(t.Context(), 2))
		assert.Len(t, contents(in), 2)
	})
}

func TestVersionNeverDecreases(t *testing.T) {
	in := must(informer.New(newSource(), nameOf, informer.Config{}))
	for _, v := range []informer.Version{5, 3, 5, 0} {
		informer.Reach(in, v)
		assert.Equal(t, informer.Version(5), in.Version())
	}
}

// past is a source that remembers every state of each key, and an informer of it in which some keys cannot be applied.
type past struct {
	rnd    *rand.Rand
	src    *informertest.Source[string, site]
	in     *informer.Informer[string, site]
	broken knob[string]        // the names that have no index
	states map[string][]moment // from the last one that the cache had to hold, when it was checked
	life   int
	seen   informer.Version
}

// moment says that an object had a state from then on; the revision is 0 if it was not there.
type moment struct {
	at  informer.Version
	rev int
}

func newPast(seed uint64) *past {
	p := &past{rnd: rand.New(rand.NewPCG(seed, 1)), src: newSource(), states: make(map[string][]moment)}
	p.in = must(informer.New(p.src, nameOf, informer.Config{OnError: func(error) {}, Backoff: wait.Backoff{Duration: time.Second}}))
	cache.AddIndex(p.in.Indexer(), func(s site) []int {
		if strings.Contains(p.broken.get(), s.Name) {
			panic("no such index")
		}
		return nil
	})
	return p
}

func (p *past) change() {
	name := string("abc"[p.rnd.IntN(3)])
	if p.states[name] == nil {
		p.states[name] = []moment{{}}
	}
	if p.rnd.IntN(3) > 0 {
		rev := int(p.src.Version()) + 1
		p.states[name] = append(p.states[name], moment{p.src.Put(site{Name: name, Life: p.life, Rev: rev}), rev})
	} else if before := p.src.Version(); p.src.Delete(name) > before {
		p.states[name] = append(p.states[name], moment{p.src.Version(), 0})
		p.life++
	}
}

func (p *past) act() {
	switch p.rnd.IntN(10) {
	case 0:
		p.broken.set([]string{"", "a", "ab", "c"}[p.rnd.IntN(4)])
	case 1: // only a list shows the changes in the meantime
		p.src.Fail(errOutage)
		p.change()
		p.change()
		p.src.Compact()
		p.src.Fail(nil)
	case 2:
		p.src.Break(nil)
	case 3, 4:
		time.Sleep(time.Duration(p.rnd.IntN(3000)) * time.Millisecond)
	default:
		p.change()
	}
}

// check returns what is wrong: for each key the cache must hold the last state up to the version, or a later one.
func (p *past) check() string {
	synctest.Wait()
	v := p.in.Version()
	if v < p.seen {
		return fmt.Sprintf("the version is %d after %d", v, p.seen)
	}
	p.seen = v
	for name, states := range p.states {
		for len(states) > 1 && states[1].at <= v {
			states = states[1:]
		}
		p.states[name] = states
		s, _ := p.in.Get(name)
		if !slices.ContainsFunc(states, func(m moment) bool { return m.rev == s.Rev }) {
			return fmt.Sprintf("at version %d the cache holds %v, and of %s there were %v", v, s, name, states)
		}
	}
	return ""
}

func TestVersionIsCorrectDespiteFailedApplies(t *testing.T) {
	for seed := range uint64(100) {
		synctest.Test(t, func(t *testing.T) {
			p := newPast(seed)
			r := newRecorder(t)
			r.gaps = true
			r.add(p.in)
			start(t, p.in)
			for range 100 {
				p.act()
				require.Empty(t, p.check(), "seed %d", seed)
			}
			p.broken.set("")
			time.Sleep(time.Hour)
			require.Empty(t, p.check(), "seed %d", seed)
			assert.Equal(t, p.src.Version(), p.in.Version())
			assert.Equal(t, contents(p.in), r.state())
			for name, states := range p.states {
				s, _ := p.in.Get(name)
				assert.Equal(t, states[len(states)-1].rev, s.Rev, "%s, seed %d", name, seed)
			}
		})
	}
}

func TestWaitForSync(t *testing.T) {
	t.Run("waits for all", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			src := newSource()
			src.Put(site{Name: "a"})
			in := must(informer.New(src, nameOf, informer.Config{}))
			r := newRecorder(t)
			r.gate = make(chan struct{})
			r.add(in)
			start(t, in)
			time.AfterFunc(time.Hour, func() { close(r.gate) })
			began := time.Now()
			require.NoError(t, informer.WaitForSync(t.Context(), in, r.reg))
			assert.Equal(t, time.Hour, time.Since(began))
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			for range 20 { // select takes either if both are ready
				assert.NoError(t, informer.WaitForSync(ctx, in, r.reg))
			}
		})
	})
	t.Run("names the unsynced handlers", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			silent := func(name string) *informer.Informer[string, site] {
				return must(informer.New(newSource(), nameOf, informer.Config{Name: name}))
			}
			ready := silent("ready")
			start(t, ready)
			one, two := silent("one"), silent("two")
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err := informer.WaitForSync(ctx, one, ready, two)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			assert.EqualError(t, err, "informer: wait for sync of one, two: context deadline exceeded")
		})
	})
}

func assertOpen(t *testing.T, ch <-chan struct{}) {
	select {
	case <-ch:
		t.Error("a callback runs after Remove has returned")
	default:
	}
}

func TestWaitForSyncDoesNotNoticeEndOfRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		src.Fail(errOutage)
		in := must(informer.New(src, nameOf, informer.Config{Name: "sites", OnError: func(error) {}}))
		start(t, in)()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		require.ErrorIs(t, informer.WaitForSync(ctx, in), context.DeadlineExceeded)
		assert.Equal(t, time.Minute, time.Since(began))
	})
}
