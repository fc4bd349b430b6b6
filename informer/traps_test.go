package informer_test

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/cache/cachetest"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/informertest"
	"github.com/setpoint-go/setpoint/informer/internal/sitetest"
)

// witness is a test whose failures are what is tested.
type witness struct {
	testing.TB
	errors []string
}

func (w *witness) Helper()           {}
func (w *witness) Cleanup(func())    {}
func (w *witness) Error(args ...any) { w.errors = append(w.errors, fmt.Sprint(args...)) }

func TestMutationByHandlerIsDetected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := informertest.NewSource(func(s *site) string { return s.Name })
		src.Put(&site{Name: "a", Rev: 1})
		src.Put(&site{Name: "b", Rev: 1})
		in := must(informer.New(src, src.Key, informer.Config{}))
		w := &witness{TB: t}
		detector := cachetest.DetectMutations(w, in.Indexer(), src.Key)
		_, err := in.AddHandler(informer.Handler[string, *site]{OnAdd: func(s *site, _ bool) {
			if s.Name == "a" {
				s.Rev = 7
			}
		}})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- in.Run(ctx) }() // ends with ctx; waited for below
		synctest.Wait()
		detector.Check()
		cancel()
		require.NoError(t, <-ended)
		require.Len(t, w.errors, 1)
		assert.Contains(t, w.errors[0], "object a was changed after it was cached")
		assert.Contains(t, w.errors[0], ".Rev is 7, was 1")
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
		stop := sitetest.Start(t, in)
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

func TestHangingListIsStaleAndEndsWithResetOrRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hanging, ended knob[int]
		in := must(informer.New(scripted{list: func(ctx context.Context) (informer.List[site], error) {
			hanging.set(hanging.get() + 1)
			<-ctx.Done()
			ended.set(ended.get() + 1)
			return informer.List[site]{}, context.Cause(ctx)
		}}, nameOf, informer.Config{OnError: func(err error) { t.Error(err) }}))
		stop := sitetest.Start(t, in)
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
		sitetest.Start(t, in)
		assert.Len(t, contents(in), 1)
		assert.Equal(t, informer.Version(1), in.Version())
		close(gate)
		require.NoError(t, in.WaitForVersion(t.Context(), 2))
		assert.Len(t, contents(in), 2)
	})
}

// This is a stress test for the race detector. Whatever a handler is doing when Run ends, nothing hangs, and no
// callback runs afterward.
func TestHandlersAreAddedAndRemovedWhileRunEnds(t *testing.T) {
	for round := range 30 {
		synctest.Test(t, func(t *testing.T) {
			src := newSource()
			in := must(informer.New(src, nameOf, informer.Config{OnError: func(error) {}}))
			stop := sitetest.Start(t, in)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			var wg sync.WaitGroup
			for range 100 {
				wg.Go(func() {
					for {
						reg, err := in.AddHandler(informer.Handler[string, site]{
							OnAdd:    func(site, bool) { assertOpen(t, ended) },
							OnUpdate: func(site, site) { assertOpen(t, ended) },
						})
						if err != nil {
							assert.ErrorIs(t, err, informer.ErrEnded)
							return
						}
						_ = informer.WaitForSync(ctx, reg)
						<-reg.Remove()
					}
				})
			}
			for rev := range round * 10 {
				src.Put(site{Name: fmt.Sprint(rev % 13), Rev: rev})
			}
			stop()
			close(ended)
			cancel()
			wg.Wait()
		})
	}
}

// The handler is removed during the call for the first object, while others are pending.
func TestHandlerRemovedWhileJoiningReleasesMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newChronicle(numbers(2*informer.PieceSize), informer.Config{})
		other := newRecorder(t).add(s.in)
		sitetest.Start(t, s.in)
		captured := new([100]int) // what the handler refers to
		gone := weak.Make(captured)
		late := newRecorder(t)
		late.gate = make(chan struct{})
		inner := late.handler()
		reg, err := s.in.AddHandler(informer.Handler[string, site]{OnAdd: func(s site, initial bool) {
			captured[0]++
			inner.OnAdd(s, initial)
		}})
		require.NoError(t, err)
		synctest.Wait()
		s.put("0")
		s.put("1")
		s.put("new")
		synctest.Wait()
		assert.Equal(t, []int{0, 3}, informer.Waiting(s.in))
		done := reg.Remove()
		assert.Equal(t, []int{0}, informer.Waiting(s.in))
		s.put("2")
		close(late.gate)
		<-done
		s.put("1")
		assert.Len(t, late.take(), 1)
		assert.False(t, reg.HasSynced())
		assert.Equal(t, s.truth, other.state())
		reg = nil
		runtime.GC()
		assert.Nil(t, gone.Value())
	})
}

func TestHandlerCallingGoexitIsReportedAndRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var errs sitetest.Errors
		src := newSource()
		in := must(informer.New(src, nameOf, informer.Config{Name: "sites", OnError: errs.Add}))
		other := newRecorder(t).add(in)
		reg, err := in.AddHandler(informer.Handler[string, site]{
			OnAdd: func(site, bool) { runtime.Goexit() }, EveryEvent: true,
		})
		require.NoError(t, err)
		_, err = in.AddHandler(informer.Handler[string, site]{Filter: func(s site) bool {
			if s.Rev > 0 {
				runtime.Goexit()
			}
			return true
		}})
		require.NoError(t, err)
		sitetest.Start(t, in)
		for rev := range 10 {
			src.Put(site{Name: "a", Rev: rev})
			synctest.Wait()
		}
		got := errs.Take()
		require.Len(t, got, 2)
		assert.EqualError(t, got[0], "informer: call OnAdd of sites handler 2: it has called runtime.Goexit, and is called no more")
		assert.EqualError(t, got[1], "informer: call Filter of sites handler 3: it has called runtime.Goexit, and is called no more")
		assert.Equal(t, []int{0, 0, 0}, informer.Waiting(in))
		assert.Equal(t, contents(in), other.state())
		<-reg.Remove()
	})
}
