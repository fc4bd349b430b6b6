package informer_test

import (
	"context"
	"fmt"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/internal/sitetest"
	"github.com/setpoint-go/setpoint/wait"
)

// exact is the default backoff without chance.
var exact = wait.Backoff{Duration: 800 * time.Millisecond, Factor: 2, Cap: 30 * time.Second}

func TestWatchResumesFromLastVersionWithoutList(t *testing.T) {
	for _, broken := range []error{nil, errOutage} {
		t.Run(fmt.Sprint(broken), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var errs sitetest.Errors
				src := newSource()
				s := &spy{ListWatcher: src}
				in := must(informer.New(s, nameOf, informer.Config{Name: "sites", OnError: errs.Add, Backoff: exact}))
				r := newRecorder(t).add(in)
				sitetest.Start(t, in)
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
				var errs sitetest.Errors
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
				sitetest.Start(t, in)
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
		sitetest.Start(t, in)
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
		sitetest.Start(t, in)
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
		sitetest.Start(t, in)
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
		sitetest.Start(t, in)
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
		stop := sitetest.Start(t, in)
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
		sitetest.Start(t, in)
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
		var errs sitetest.Errors
		s := &spy{ListWatcher: scripted{list: empty, watch: func(context.Context, informer.Version) iter.Seq2[informer.Event[site], error] {
			return func(yield func(informer.Event[site], error) bool) {
				yield(informer.Event[site]{}, fmt.Errorf("revision 1: %w", informer.ErrExpired))
			}
		}}}
		in := must(informer.New(s, nameOf, informer.Config{Name: "sites", Backoff: exact, OnError: errs.Add}))
		sitetest.Start(t, in)
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
		var errs sitetest.Errors
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
		sitetest.Start(t, in)
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
		sitetest.Start(t, in)
		time.Sleep(10*time.Hour + time.Minute)
		assert.Equal(t, 11, s.got().watches)
		assert.Equal(t, 11, s.got().lists)
	})
}

func TestOlderListIsRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var errs sitetest.Errors
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
		sitetest.Start(t, in)
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
