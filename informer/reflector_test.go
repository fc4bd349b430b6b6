package informer_test

import (
	"context"
	"fmt"
	"iter"
	"math"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/wait"
)

// exact is the default backoff without chance.
var exact = wait.Backoff{Duration: 800 * time.Millisecond, Factor: 2, Cap: 30 * time.Second}

func TestWatchResumesFromLastVersionWithoutList(t *testing.T) {
	for _, broken := range []error{nil, errOutage} {
		t.Run(fmt.Sprint(broken), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var errs errorLog
				src := newSource()
				s := &spy{ListWatcher: src}
				in := must(informer.New(s, nameOf, informer.Config{Name: "sites", OnError: errs.Add, Backoff: exact}))
				r := newRecorder(t).add(in)
				start(t, in)
				src.Put(site{Name: "a", Rev: 1})
				v := src.Bookmark()
				time.Sleep(time.Hour)
				src.Break(broken)
				src.Put(site{Name: "a", Rev: 2})
				synctest.Wait()
				if broken != nil {
					assert.Equal(t, 1, s.got().watches)
					time.Sleep(800*time.Millisecond - time.Nanosecond)
					assert.Equal(t, 1, s.got().watches)
					time.Sleep(time.Nanosecond)
					got := errs.Take()
					require.Len(t, got, 1)
					assert.EqualError(t, got[0], "informer: watch sites: no route to host")
				}
				assert.Equal(t, []string{"add a.1 initial=false", "update a.1 2"}, r.take())
				assert.Equal(t, []int{1, 2}, []int{s.got().lists, s.got().watches})
				assert.Equal(t, v, s.got().after)
			})
		})
	}
}

func TestWatchEndingWithoutEventBacksOff(t *testing.T) {
	for name, events := range map[string][]informer.Event[site]{
		"no event":     nil,
		"an old event": {{Type: informer.Added, Object: site{Name: "a"}, Version: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var errs errorLog
				s := &spy{ListWatcher: scripted{list: empty, watch: func(context.Context, informer.Version) iter.Seq2[informer.Event[site], error] {
					return func(yield func(informer.Event[site], error) bool) {
						for _, ev := range events {
							if !yield(ev, nil) {
								return
							}
						}
					}
				}}}
				in := must(informer.New(s, nameOf, informer.Config{Name: "sites", OnError: errs.Add, Backoff: exact}))
				start(t, in)
				time.Sleep(800 * time.Millisecond)
				synctest.Wait()
				assert.Equal(t, 2, s.got().watches)
				assert.EqualError(t, errs.Take()[0], "informer: watch sites: it ended at once and brought nothing new")
			})
		})
	}
}

func TestWatchEndingAfterEventResumesImmediately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &spy{ListWatcher: scripted{list: empty, watch: func(ctx context.Context, after informer.Version) iter.Seq2[informer.Event[site], error] {
			return func(yield func(informer.Event[site], error) bool) {
				if after == 100 {
					<-ctx.Done()
					return
				}
				yield(informer.Event[site]{Type: informer.Bookmark, Version: after + 1}, nil)
			}
		}}}
		in := must(informer.New(s, nameOf, informer.Config{OnError: func(err error) { t.Error(err) }}))
		start(t, in)
		assert.Equal(t, informer.Version(100), in.Version())
		assert.Equal(t, 100, s.got().watches)
	})
}

func TestQuietWatchEndingIsNoError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &spy{ListWatcher: scripted{list: empty, watch: func(context.Context, informer.Version) iter.Seq2[informer.Event[site], error] {
			return func(func(informer.Event[site], error) bool) { time.Sleep(time.Second) }
		}}}
		in := must(informer.New(s, nameOf, informer.Config{OnError: func(err error) { t.Error(err) }}))
		start(t, in)
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, 61, s.got().watches)
		assert.Equal(t, 1, s.got().lists)
	})
}

func TestBackoffGrowsDuringOutageAndResetsAfterwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		src.Fail(errOutage)
		times := make(chan time.Time, 100)
		in := must(informer.New(src, nameOf, informer.Config{Backoff: exact, OnError: func(error) { times <- time.Now() }}))
		last := time.Now()
		pauses := func() (pauses []time.Duration) {
			synctest.Wait()
			for len(times) > 0 {
				at := <-times
				pauses = append(pauses, at.Sub(last))
				last = at
			}
			return pauses
		}
		start(t, in)
		time.Sleep(10 * time.Minute)
		s := time.Second
		want := []time.Duration{0, s * 8 / 10, s * 16 / 10, s * 32 / 10, s * 64 / 10, s * 128 / 10, s * 256 / 10, 30 * s, 30 * s}
		got := pauses()
		require.Greater(t, len(got), 20)
		assert.Equal(t, want, got[:9])
		assert.Equal(t, 30*s, got[len(got)-1])

		for range 2 { // first after a list, then after an event
			src.Fail(nil)
			time.Sleep(30 * time.Second)
			src.Put(site{Name: "a"})
			pauses()
			src.Fail(errOutage)
			time.Sleep(10 * time.Minute)
			assert.Equal(t, want[1:5], pauses()[1:5])
		}
	})
}

func TestSuccessfulListResetsBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		src.Fail(errOutage)
		s := &spy{ListWatcher: src}
		in := must(informer.New(s, nameOf, informer.Config{Backoff: exact, OnError: func(error) {}}))
		start(t, in)
		time.Sleep(10 * time.Minute)
		src.Fail(nil)
		time.Sleep(30 * time.Second)
		require.True(t, in.HasSynced())
		src.Break(errOutage)
		time.Sleep(800 * time.Millisecond)
		synctest.Wait()
		assert.Equal(t, 2, s.got().watches)
	})
}

func TestRunEndsDuringBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		src.Fail(errOutage)
		in := must(informer.New(src, nameOf, informer.Config{OnError: func(error) {}}))
		stop := start(t, in)
		time.Sleep(10 * time.Minute)
		began := time.Now()
		stop()
		assert.Zero(t, time.Since(began))
	})
}

func TestExpiredVersionRelistsImmediately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		s := &spy{ListWatcher: src}
		src.Put(site{Name: "a", Rev: 1})
		src.Put(site{Name: "b", Rev: 2})
		in := must(informer.New(s, nameOf, informer.Config{Backoff: exact, OnError: func(error) {}}))
		r := newRecorder(t).add(in)
		r.gaps = true
		start(t, in)
		assert.Len(t, r.take(), 2)

		for range 3 { // each time, because something new came in between
			src.Break(errOutage)
			synctest.Wait()
			src.Delete("b")
			src.Put(site{Name: "b", Rev: 3}) // in another life
			src.Delete("a")
			src.Put(site{Name: "c", Rev: 4})
			src.Compact()
			time.Sleep(800 * time.Millisecond)
			assert.ElementsMatch(t, []string{"delete a.1 unknown", "update b.2 3", "add c.4 initial=false"}, r.take())
			src.Delete("c")
			src.Put(site{Name: "a", Rev: 1})
			src.Delete("b")
			src.Put(site{Name: "b", Rev: 2})
			assert.Len(t, r.take(), 4)
		}
		assert.Equal(t, 4, s.got().lists)
	})
}

func TestRepeatedlyExpiredVersionBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var errs errorLog
		s := &spy{ListWatcher: scripted{list: empty, watch: func(context.Context, informer.Version) iter.Seq2[informer.Event[site], error] {
			return func(yield func(informer.Event[site], error) bool) {
				yield(informer.Event[site]{}, fmt.Errorf("revision 1: %w", informer.ErrExpired))
			}
		}}}
		in := must(informer.New(s, nameOf, informer.Config{Name: "sites", Backoff: exact, OnError: errs.Add}))
		start(t, in)
		assert.Equal(t, 2, s.got().lists, "the first time immediately")
		time.Sleep(800*time.Millisecond - time.Nanosecond)
		assert.Equal(t, 2, s.got().lists)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		assert.Equal(t, 3, s.got().lists)
		time.Sleep(1600 * time.Millisecond)
		synctest.Wait()
		assert.Equal(t, 4, s.got().lists)
		got := errs.Take()
		require.Len(t, got, 3)
		assert.ErrorIs(t, got[0], informer.ErrExpired)
	})
}

// The source drops its history faster than an informer can read it: each watch yields one event and expires.
func TestVersionExpiringAfterEachEventBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lists knob[int]
		var errs errorLog
		version := func() informer.Version { return informer.Version(10 * lists.get()) }
		in := must(informer.New(scripted{
			list: func(ctx context.Context) (informer.List[site], error) {
				if lists.set(lists.get() + 1); lists.get() > 1000 {
					<-ctx.Done() // otherwise no time would pass
				}
				return informer.List[site]{Version: version()}, nil
			},
			watch: func(context.Context, informer.Version) iter.Seq2[informer.Event[site], error] {
				return func(yield func(informer.Event[site], error) bool) {
					if yield(informer.Event[site]{Type: informer.Added, Object: site{Name: "a"}, Version: version() + 1}, nil) {
						yield(informer.Event[site]{}, informer.ErrExpired)
					}
				}
			},
		}, nameOf, informer.Config{Name: "sites", Backoff: exact, OnError: errs.Add}))
		start(t, in)
		assert.Equal(t, 2, lists.get(), "the first time immediately")
		time.Sleep(8 * time.Second)
		synctest.Wait()
		assert.Equal(t, 12, lists.get(), "each 800 ms")
		assert.Equal(t, informer.Version(121), in.Version())
		got := errs.Take()
		require.Len(t, got, 11)
		assert.EqualError(t, got[0], "informer: watch sites: soon after a list: "+informer.ErrExpired.Error())
	})
}

func TestOccasionallyExpiredVersionRelistsImmediately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &spy{ListWatcher: scripted{list: empty, watch: func(context.Context, informer.Version) iter.Seq2[informer.Event[site], error] {
			return func(yield func(informer.Event[site], error) bool) {
				time.Sleep(time.Hour)
				yield(informer.Event[site]{}, informer.ErrExpired)
			}
		}}}
		in := must(informer.New(s, nameOf, informer.Config{OnError: func(err error) { t.Error(err) }}))
		start(t, in)
		time.Sleep(10*time.Hour + time.Minute)
		assert.Equal(t, 11, s.got().watches)
		assert.Equal(t, 11, s.got().lists)
	})
}

func TestOlderListIsRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var errs errorLog
		var list knob[informer.List[site]]
		list.set(informer.List[site]{Items: []site{{Name: "a", Rev: 5}}, Version: 5})
		expire := make(chan struct{})
		in := must(informer.New(scripted{
			list: func(context.Context) (informer.List[site], error) { return list.get(), nil },
			watch: func(ctx context.Context, after informer.Version) iter.Seq2[informer.Event[site], error] {
				return func(yield func(informer.Event[site], error) bool) {
					select {
					case <-expire:
						yield(informer.Event[site]{}, informer.ErrExpired)
					case <-ctx.Done():
					}
				}
			},
		}, nameOf, informer.Config{Name: "sites", Backoff: exact, OnError: errs.Add}))
		r := newRecorder(t).add(in)
		r.gaps = true
		start(t, in)
		assert.Len(t, r.take(), 1)

		list.set(informer.List[site]{Version: 4}) // a replica that lags
		expire <- struct{}{}
		assert.Empty(t, r.take())
		assert.Equal(t, informer.Version(5), in.Version())
		got := errs.Take()
		require.Len(t, got, 1)
		assert.EqualError(t, got[0], "informer: list sites: the list is of version 4, but version 5 was seen")

		time.Sleep(800*time.Millisecond - time.Nanosecond)
		list.set(informer.List[site]{Version: 5}) // the same version is fine
		time.Sleep(time.Nanosecond)
		assert.Equal(t, []string{"delete a.5 unknown"}, r.take())
		assert.Empty(t, errs.Take())
	})
}

func TestSlowCacheEventuallyAppliesPendingEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		in := must(informer.New(src, nameOf, informer.Config{}))
		slow := make(chan struct{})
		cache.AddIndex(in.Indexer(), func(s site) []int { <-slow; return nil })
		r := newRecorder(t).add(in)
		start(t, in)
		many(src, 5*informer.MaxBatch, 1)
		synctest.Wait()
		close(slow)
		assert.Len(t, r.take(), 5*informer.MaxBatch)
		assert.Equal(t, src.Version(), in.Version())
	})
}

// goesOn is an error after which a watch continues.
type goesOn struct{ error }

func (goesOn) Continues() bool { return true }
func (e goesOn) Unwrap() error { return e.error }

func TestWatchGoesOnAfterErrorThatSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var errs errorLog
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
		start(t, in)
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

func TestRunEndsWhileSourceWaitsForCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		endless := func(_ context.Context, after informer.Version) iter.Seq2[informer.Event[site], error] {
			return func(yield func(informer.Event[site], error) bool) {
				for v := after + 1; yield(informer.Event[site]{Type: informer.Added, Object: site{Name: "a"}, Version: v}, nil); v++ {
				}
			}
		}
		in := must(informer.New(scripted{list: empty, watch: endless}, nameOf, informer.Config{OnError: func(err error) { t.Error(err) }}))
		held := make(chan struct{})
		in.OnVersion(func(informer.Version) { <-held })
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- in.Run(ctx) }() // ends with cancel; waited for below
		synctest.Wait()
		assert.Equal(t, informer.MaxBatch, in.Stats().Pending)
		cancel()
		close(held)
		require.NoError(t, <-ended)
	})
}

func TestKeyUnequalToItselfFailsList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var errs errorLog
		src := newSource()
		src.Put(site{Name: "a"})
		in := must(informer.New(src, func(site) float64 { return math.NaN() }, informer.Config{Name: "sites", OnError: errs.Add}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		require.NoError(t, in.Run(ctx))
		got := errs.Take()
		require.Len(t, got, 1)
		assert.ErrorContains(t, got[0], "informer: list sites: panic: ")
		assert.ErrorContains(t, got[0], "a key is not equal to itself")
		assert.False(t, in.HasSynced())
	})
}

func TestEveryWatchIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		s := &spy{ListWatcher: src}
		in := must(informer.New(s, func(s site) string {
			if s.Name == "" {
				panic("a site must have a name")
			}
			return s.Name
		}, informer.Config{Backoff: exact, OnError: func(error) {}}))
		stop := start(t, in)
		for _, end := range []func(){
			func() { src.Break(nil) },
			func() { src.Break(errOutage) },
			func() { src.Fail(errOutage); time.Sleep(time.Hour); src.Fail(nil) },
			func() { src.Fail(errOutage); src.Compact(); src.Fail(nil) },
			func() { src.Send(informer.Event[site]{}) },
			func() { src.Send(informer.Event[site]{Type: informer.Added, Version: 1000}) },
			in.Reset,
		} {
			src.Put(site{Name: "a", Rev: int(src.Version()) + 1})
			assert.Equal(t, 1, s.got().open)
			watches := s.got().watches
			end()
			src.Bookmark() // a bad event is behind a watch that is taken up again
			time.Sleep(time.Minute)
			assert.Equal(t, 1, s.got().open)
			assert.Greater(t, s.got().watches, watches)
			assert.Equal(t, src.Version(), in.Version())
		}
		stop()
		assert.Zero(t, s.got().open)
	})
}

func TestInvalidEventIsReportedAndRequestedAgain(t *testing.T) {
	cases := []struct {
		name string
		bad  informer.Event[site]
		want string
	}{
		{"no type", informer.Event[site]{Object: site{Name: "b"}, Version: 3}, "the event of version 3 has an unknown type: 0"},
		{"a version from the past", informer.Event[site]{Type: informer.Added, Object: site{Name: "b"}, Version: 1}, "the event is of version 1, but version 2 was seen"},
		{"an object without a key", informer.Event[site]{Type: informer.Added, Version: 3}, "panic: a site must have a name"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var errs errorLog
				var bad knob[bool]
				bad.set(true)
				s := &spy{ListWatcher: scripted{list: empty, watch: func(ctx context.Context, after informer.Version) iter.Seq2[informer.Event[site], error] {
					return func(yield func(informer.Event[site], error) bool) {
						if after < 2 && !yield(informer.Event[site]{Type: informer.Added, Object: site{Name: "a"}, Version: 2}, nil) {
							return
						}
						if bad.get() {
							assert.False(t, yield(c.bad, nil), "it must end the loop")
							return
						}
						if yield(informer.Event[site]{Type: informer.Added, Object: site{Name: "b"}, Version: 3}, nil) {
							<-ctx.Done()
						}
					}
				}}}
				key := func(s site) string {
					if s.Name == "" {
						panic("a site must have a name")
					}
					return s.Name
				}
				in := must(informer.New(s, key, informer.Config{Name: "sites", Backoff: exact, OnError: errs.Add}))
				stop := start(t, in)
				got := errs.Take()
				require.Len(t, got, 1)
				assert.EqualError(t, got[0], "informer: watch sites: "+c.want)
				assert.Equal(t, informer.Version(2), in.Version(), "it does not count as seen")
				assert.Zero(t, s.got().open)

				bad.set(false)
				time.Sleep(800 * time.Millisecond)
				synctest.Wait()
				assert.Equal(t, informer.Version(3), in.Version())
				assert.Equal(t, informer.Version(2), s.got().after)
				assert.Equal(t, []int{1, 2}, []int{s.got().lists, s.got().watches})
				assert.Equal(t, 1, s.got().open)
				stop()
				assert.Zero(t, s.got().open)
			})
		})
	}
}

func TestPanickingSourceIsReportedAndRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var errs errorLog
		var crash knob[bool]
		crash.set(true)
		in := must(informer.New(scripted{
			list: func(context.Context) (informer.List[site], error) {
				if crash.get() {
					panic("list")
				}
				return informer.List[site]{Version: 1}, nil
			},
			watch: func(ctx context.Context, after informer.Version) iter.Seq2[informer.Event[site], error] {
				if crash.get() {
					panic("watch")
				}
				return func(yield func(informer.Event[site], error) bool) {
					if yield(informer.Event[site]{Type: informer.Bookmark, Version: 2}, nil) {
						<-ctx.Done()
						panic("end") // is not reported: the context has ended
					}
				}
			},
		}, nameOf, informer.Config{Name: "sites", Backoff: exact, OnError: errs.Add}))
		start(t, in)
		got := errs.Take()
		require.Len(t, got, 1)
		assert.EqualError(t, got[0], "informer: list sites: panic: list")
		var crashed *wait.PanicError
		require.ErrorAs(t, got[0], &crashed)
		assert.Contains(t, string(crashed.Stack), "reflector_test.go")

		crash.set(false)
		time.Sleep(800*time.Millisecond - time.Nanosecond)
		synctest.Wait()
		assert.False(t, in.HasSynced())
		time.Sleep(time.Nanosecond)
		require.NoError(t, in.WaitForVersion(t.Context(), 2))
		assert.Empty(t, errs.Take())
		t.Cleanup(func() { assert.Empty(t, errs.Take()) })
	})
}

func TestPanickingWatchIsRestarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var errs errorLog
		s := &spy{ListWatcher: scripted{list: empty, watch: func(context.Context, informer.Version) iter.Seq2[informer.Event[site], error] {
			return func(yield func(informer.Event[site], error) bool) { panic("watch") }
		}}}
		in := must(informer.New(s, nameOf, informer.Config{Name: "sites", Backoff: exact, OnError: errs.Add}))
		start(t, in)
		time.Sleep(800 * time.Millisecond)
		synctest.Wait()
		assert.Equal(t, []int{1, 2}, []int{s.got().lists, s.got().watches})
		assert.EqualError(t, errs.Take()[1], "informer: watch sites: panic: watch")
	})
}

// A test's source, or its OnError, may call t.FailNow.
func TestSourceCallingGoexitIsReportedAndRetried(t *testing.T) {
	for _, reportsExit := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var errs errorLog
			var mode knob[string]
			mode.set("list")
			in := must(informer.New(scripted{
				list: func(context.Context) (informer.List[site], error) {
					if mode.get() == "list" {
						runtime.Goexit()
					}
					return informer.List[site]{Version: 1}, nil
				},
				watch: func(ctx context.Context, after informer.Version) iter.Seq2[informer.Event[site], error] {
					return func(yield func(informer.Event[site], error) bool) {
						if mode.get() == "watch" {
							runtime.Goexit()
						}
						if yield(informer.Event[site]{Type: informer.Added, Object: site{Name: "a"}, Version: 2}, nil) {
							<-ctx.Done()
							runtime.Goexit() // is not reported
						}
					}
				},
			}, nameOf, informer.Config{Name: "sites", Backoff: exact, OnError: func(err error) {
				errs.Add(err)
				if reportsExit {
					runtime.Goexit()
				}
			}}))
			stop := start(t, in)
			assert.Empty(t, errs.Take())
			time.Sleep(800 * time.Millisecond)
			got := errs.Take()
			require.Len(t, got, 1)
			assert.EqualError(t, got[0], "informer: read sites: it has called runtime.Goexit")
			mode.set("watch")
			time.Sleep(time.Minute)
			if !reportsExit {
				assert.True(t, in.HasSynced())
			}
			assert.Less(t, len(errs.Take()), 10)
			mode.set("")
			time.Sleep(time.Minute)
			synctest.Wait()
			assert.Equal(t, informer.Version(2), in.Version())
			errs.Take()
			stop()
			assert.Empty(t, errs.Take())
		})
	}
}

func TestErrorsAfterContextEndsAreNotReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := must(informer.New(scripted{list: func(ctx context.Context) (informer.List[site], error) {
			<-ctx.Done()
			return informer.List[site]{}, ctx.Err()
		}}, nameOf, informer.Config{OnError: func(err error) { t.Error(err) }}))
		start(t, in)()
	})
}

func TestSourceWaitsForSlowCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const events = 4 * informer.MaxBatch
		var calls atomic.Int32
		in := must(informer.New(scripted{list: empty, watch: func(ctx context.Context, after informer.Version) iter.Seq2[informer.Event[site], error] {
			return func(yield func(informer.Event[site], error) bool) {
				for rev := int(after); rev <= events; rev++ {
					calls.Add(1)
					if !yield(informer.Event[site]{Type: informer.Modified, Object: site{Name: "a", Rev: rev}, Version: informer.Version(rev + 1)}, nil) {
						return
					}
				}
				<-ctx.Done()
			}
		}}, nameOf, informer.Config{}))
		held := make(chan struct{})
		in.OnVersion(func(informer.Version) { <-held })
		start(t, in)
		// The inputs that Run has taken with the list, those that fit in the feed, and one that waits for room.
		assert.LessOrEqual(t, calls.Load(), int32(2*informer.MaxBatch))
		close(held)
		require.NoError(t, in.WaitForVersion(t.Context(), events+1))
		assert.EqualValues(t, events, calls.Load())
		a, _ := in.Get("a")
		assert.Equal(t, events, a.Rev)
	})
}
