package informer_test

import (
	"context"
	"iter"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/internal/sitetest"
	"github.com/setpoint-go/setpoint/wait"
)

func TestInvalidEventIsReportedAndRequestedAgain(t *testing.T) {
	cases := []struct {
		name string
		bad  informer.Event[site]
		want string
	}{
		{"no type", informer.Event[site]{Object: site{Name: "b"}, Version: 3}, "the event of version 3 has no type that is known: 0"},
		{"a version from the past", informer.Event[site]{Type: informer.Added, Object: site{Name: "b"}, Version: 1}, "the event is of version 1, but version 2 was seen"},
		{"an object without a key", informer.Event[site]{Type: informer.Added, Version: 3}, "panic: a site must have a name"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var errs sitetest.Errors
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
				stop := sitetest.Start(t, in)
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
		var errs sitetest.Errors
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
		sitetest.Start(t, in)
		got := errs.Take()
		require.Len(t, got, 1)
		assert.EqualError(t, got[0], "informer: list sites: panic: list")
		var crashed *wait.PanicError
		require.ErrorAs(t, got[0], &crashed)
		assert.Contains(t, string(crashed.Stack), "badsource_test.go")

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
		var errs sitetest.Errors
		s := &spy{ListWatcher: scripted{list: empty, watch: func(context.Context, informer.Version) iter.Seq2[informer.Event[site], error] {
			return func(yield func(informer.Event[site], error) bool) { panic("watch") }
		}}}
		in := must(informer.New(s, nameOf, informer.Config{Name: "sites", Backoff: exact, OnError: errs.Add}))
		sitetest.Start(t, in)
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
			var errs sitetest.Errors
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
			stop := sitetest.Start(t, in)
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
		sitetest.Start(t, in)()
	})
}
