package informer_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/cache/cachetest"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/informertest"
	"github.com/setpoint-go/setpoint/wait"
)

func TestLateHandlerGetsCurrentObjectsThenChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		in := must(informer.New(src, nameOf, informer.Config{}))
		start(t, in)
		src.Put(site{Name: "b", Rev: 1})
		src.Put(site{Name: "a", Rev: 2})
		src.Put(site{Name: "b", Rev: 3})
		synctest.Wait()
		r := newRecorder(t).add(in)
		src.Put(site{Name: "c", Rev: 4})
		synctest.Wait()
		src.Delete("a")
		calls := r.take()
		assert.Equal(t, []string{"add b.3 initial=true", "add a.2 initial=true"}, calls[:2])
		assert.Contains(t, calls[2], "add c.4") // it came before or after the handler joined
		assert.Equal(t, "delete a.2", calls[3])
		assert.Len(t, calls, 4)
		assert.True(t, r.reg.HasSynced())
	})
}

func TestHandlerAddedTwiceIsTwoHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		src.Put(site{Name: "a"})
		in := must(informer.New(src, nameOf, informer.Config{Name: "sites"}))
		calls := make(chan string, 10)
		h := informer.Handler[string, site]{OnAdd: func(s site, _ bool) { calls <- s.Name }}
		one, err := in.AddHandler(h)
		require.NoError(t, err)
		two, err := in.AddHandler(h)
		require.NoError(t, err)
		assert.Equal(t, "sites handler 1", one.Name())
		assert.Equal(t, "sites handler 2", two.Name())
		start(t, in)
		assert.Len(t, calls, 2)
		one.Remove()
		src.Put(site{Name: "b"})
		synctest.Wait()
		assert.Len(t, calls, 3)
	})
}

func TestHandlerSyncsAfterLastInitialObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		src.Fail(errOutage)
		for _, name := range []string{"a", "b", "c"} {
			src.Put(site{Name: name})
		}
		in := must(informer.New(src, nameOf, informer.Config{OnError: func(error) {}}))
		r := newRecorder(t)
		r.gate = make(chan struct{})
		r.add(in)
		start(t, in)
		assert.False(t, r.reg.HasSynced(), "nothing is pending, but the list has not arrived")
		src.Fail(nil)
		time.Sleep(time.Minute)
		assert.True(t, in.HasSynced())
		assert.Len(t, r.take(), 1)

		r.gate <- struct{}{}
		r.gate <- struct{}{}
		assert.Len(t, r.take(), 2)
		assert.False(t, r.reg.HasSynced(), "the last call has not returned")
		r.gate <- struct{}{}
		synctest.Wait()
		assert.True(t, r.reg.HasSynced())
	})
}

func TestHandlerSyncsWhenInitialObjectsAreDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		for _, name := range []string{"a", "b", "c"} {
			src.Put(site{Name: name})
		}
		in := must(informer.New(src, nameOf, informer.Config{}))
		r := newRecorder(t)
		r.gate = make(chan struct{})
		r.add(in)
		start(t, in) // a is with the handler
		src.Delete("b")
		src.Delete("c")
		src.Put(site{Name: "c", Life: 1, Rev: 1})
		synctest.Wait()
		assert.False(t, r.reg.HasSynced())
		r.gate <- struct{}{}
		assert.Equal(t, []string{"add a.0 initial=true", "add c.1 initial=false"}, r.take())
		assert.True(t, r.reg.HasSynced())
		close(r.gate)
	})
}

func TestInitialObjectIsDeliveredInCurrentState(t *testing.T) {
	for _, c := range []struct {
		every bool
		want  []string
	}{
		{false, []string{"add b.5 initial=true", "add e.4 initial=true", "add d.8 initial=false"}},
		{true, []string{
			"add b.2 initial=true", "add c.3 initial=true", "add e.4 initial=true", "add d.1 initial=true",
			"update b.2 5", "delete c.3", "delete d.1", "add d.8 initial=false",
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			src := newSource()
			for i, name := range []string{"a", "b", "c", "e", "d"} {
				src.Put(site{Name: name, Rev: []int{1, 2, 3, 4, 1}[i]})
			}
			in := must(informer.New(src, nameOf, informer.Config{}))
			r := newRecorder(t)
			r.gate = make(chan struct{})
			h := r.handler()
			h.EveryEvent = c.every
			reg, err := in.AddHandler(h)
			require.NoError(t, err)
			start(t, in)
			assert.Equal(t, []string{"add a.1 initial=true"}, r.take())
			src.Put(site{Name: "b", Rev: 5})
			src.Delete("c")
			src.Delete("d")
			src.Put(site{Name: "d", Life: 1, Rev: 8})
			synctest.Wait()
			assert.False(t, reg.HasSynced())
			require.NoError(t, informer.CheckInvariants(in))
			close(r.gate)
			assert.Equal(t, c.want, r.take())
			assert.True(t, reg.HasSynced())
		})
	}
}

func TestHandlerOfEmptySourceSyncs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := must(informer.New(newSource(), nameOf, informer.Config{}))
		r := newRecorder(t).add(in)
		assert.False(t, r.reg.HasSynced())
		start(t, in)
		assert.True(t, r.reg.HasSynced())
	})
}

func TestPanickingCallCountsAsDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var errs errorLog
		src := newSource()
		src.Put(site{Name: "a", Rev: 1})
		src.Put(site{Name: "b", Rev: 1})
		in := must(informer.New(src, nameOf, informer.Config{Name: "sites", OnError: errs.Add}))
		gate := make(chan struct{}, 10)
		var calls []string
		crash := func(format string, args ...any) {
			<-gate
			calls = append(calls, fmt.Sprintf(format, args...))
			panic(errOutage)
		}
		reg, err := in.AddHandler(informer.Handler[string, site]{
			OnAdd:    func(s site, _ bool) { crash("add %s.%d", s.Name, s.Rev) },
			OnUpdate: func(old, s site) { crash("update %s.%d %d", s.Name, old.Rev, s.Rev) },
			OnDelete: func(d cache.Tombstone[string, site]) { crash("delete %s.%d", d.Key, d.Object.Rev) },
		})
		require.NoError(t, err)
		start(t, in)
		gate <- struct{}{}
		synctest.Wait()
		assert.Equal(t, []string{"add a.1"}, calls)
		got := errs.Take()
		require.Len(t, got, 1)
		assert.EqualError(t, got[0], "informer: call OnAdd of sites handler 1: panic: no route to host")
		assert.ErrorIs(t, got[0], errOutage)
		var crashed *wait.PanicError
		require.ErrorAs(t, got[0], &crashed)
		assert.Contains(t, string(crashed.Stack), "handler_test.go")
		assert.False(t, reg.HasSynced())

		src.Put(site{Name: "a", Rev: 2})
		gate <- struct{}{}
		gate <- struct{}{}
		synctest.Wait()
		assert.True(t, reg.HasSynced())
		src.Delete("a")
		src.Put(site{Name: "a", Rev: 3})
		synctest.Wait()
		close(gate)
		synctest.Wait()
		assert.Equal(t, []string{"add a.1", "add b.1", "update a.1 2", "delete a.2", "add a.3"}, calls)
		assert.Len(t, errs.Take(), 4)
	})
}

func TestBlockedHandlerDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		in := must(informer.New(src, nameOf, informer.Config{}))
		blocked := newRecorder(t)
		blocked.gate = make(chan struct{})
		blocked.add(in)
		other := newRecorder(t).add(in)
		start(t, in)
		for rev := range 100 {
			v := src.Put(site{Name: "a", Rev: rev})
			require.NoError(t, in.WaitForVersion(t.Context(), v))
			assert.Len(t, other.take(), 1)
		}
		late := newRecorder(t).add(in)
		assert.Equal(t, []string{"add a.99 initial=true"}, late.take())
		close(blocked.gate)
		assert.Equal(t, []string{"add a.0 initial=false", "update a.0 99"}, blocked.take())
	})
}

func TestPendingEventsAreBoundedByObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		in := must(informer.New(src, nameOf, informer.Config{}))
		r := newRecorder(t)
		r.gate = make(chan struct{})
		r.add(in)
		start(t, in)
		src.Put(site{Name: "first"})
		synctest.Wait()
		for rev := range 2000 {
			src.Put(site{Name: "a", Rev: rev})                // the same one, again and again
			src.Put(site{Name: fmt.Sprint(rev), Rev: rev})    // one that comes and goes
			src.Put(site{Name: "first", Life: rev, Rev: rev}) // one that was reported, and that comes and goes
			src.Delete("first")
			src.Delete(fmt.Sprint(rev))
			if rev%100 == 0 {
				synctest.Wait()
				assert.LessOrEqual(t, informer.Pending(in)[0], 2)
			}
		}
		synctest.Wait()
		assert.Equal(t, []int{2}, informer.Pending(in))
		close(r.gate)
		assert.ElementsMatch(t, []string{"add first.0 initial=false", "delete first.0", "add a.1999 initial=false"}, r.take())
	})
}

func TestPendingEventsAreMergedPerKey(t *testing.T) {
	cases := []struct {
		name string
		do   func(put func(), del func())
		want []string
	}{
		{"updates are one", func(put, del func()) { put(); put() }, []string{"update a.1 3"}},
		{"an update and a deletion are a deletion of the last state", func(put, del func()) { put(); del() }, []string{"delete a.2"}},
		{"a deletion and a creation are both delivered", func(put, del func()) { del(); put() }, []string{"delete a.1", "add a.2 initial=false"}},
		{"a following creation is delivered in its last state", func(put, del func()) { del(); put(); put() }, []string{"delete a.1", "add a.3 initial=false"}},
		{"an intermediate incarnation is not delivered", func(put, del func()) { put(); del(); put(); del() }, []string{"delete a.2"}},
		{"nor are two", func(put, del func()) {
			del()
			put()
			del()
			put()
			put()
			del()
			put()
		}, []string{"delete a.1", "add a.5 initial=false"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := newSource()
				in := must(informer.New(src, nameOf, informer.Config{}))
				r := newRecorder(t)
				r.gate = make(chan struct{})
				r.add(in)
				start(t, in)
				life, rev := 0, 0
				put := func() { rev++; src.Put(site{Name: "a", Life: life, Rev: rev}); synctest.Wait() }
				del := func() { life++; src.Delete("a"); synctest.Wait() }
				put() // the handler is in OnAdd
				c.do(put, del)
				close(r.gate)
				assert.Equal(t, append([]string{"add a.1 initial=false"}, c.want...), r.take())
			})
		})
	}
}

func TestDeletionHasFinalStateFromSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		src.Put(site{Name: "a", Rev: 1})
		in := must(informer.New(src, nameOf, informer.Config{OnError: func(error) {}}))
		r := newRecorder(t).add(in)
		start(t, in)
		src.Fail(errOutage)
		src.Put(site{Name: "a", Rev: 2})
		src.Delete("a")
		src.Fail(nil)
		time.Sleep(time.Minute)
		calls := r.take()
		merged := []string{"add a.1 initial=true", "delete a.2"}
		apart := []string{"add a.1 initial=true", "update a.1 2", "delete a.2"} // the handler was called between the two events
		assert.Contains(t, [][]string{merged, apart}, calls)
	})
}

func TestEveryEventHandlerSeesEachChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		in := must(informer.New(src, nameOf, informer.Config{}))
		r := newRecorder(t)
		r.gate = make(chan struct{})
		h := r.handler()
		h.EveryEvent = true
		_, err := in.AddHandler(h)
		require.NoError(t, err)
		start(t, in)
		for rev := range 3 {
			src.Put(site{Name: "a", Rev: rev})
		}
		src.Delete("a")
		src.Put(site{Name: "a", Life: 1, Rev: 3})
		synctest.Wait()
		require.NoError(t, informer.CheckInvariants(in))
		close(r.gate)
		assert.Equal(t, []string{
			"add a.0 initial=false", "update a.0 1", "update a.1 2", "delete a.2", "add a.3 initial=false",
		}, r.take())
	})
}

func TestEveryEventHandlerSeesEachChangePassingFilter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		in := must(informer.New(src, nameOf, informer.Config{}))
		r := newRecorder(t)
		r.gate = make(chan struct{})
		h := r.handler()
		h.EveryEvent, h.Filter = true, isEven
		_, err := in.AddHandler(h)
		require.NoError(t, err)
		start(t, in)
		for _, rev := range []int{1, 2, 4, 5, 7, 8} { // it enters with 2 and with 8, and leaves with 5
			src.Put(site{Name: "a", Rev: rev})
		}
		src.Delete("a")
		src.Put(site{Name: "a", Life: 1, Rev: 9})
		src.Delete("a")
		src.Put(site{Name: "a", Life: 2, Rev: 10})
		synctest.Wait()
		require.NoError(t, informer.CheckInvariants(in))
		close(r.gate)
		assert.Equal(t, []string{
			"add a.2 initial=false", "update a.2 4", "delete a.4", "add a.8 initial=false", "delete a.8", "add a.10 initial=false",
		}, r.take())
	})
}

func TestLateEveryEventHandlerSeesEachChangeSinceJoining(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		in := must(informer.New(src, nameOf, informer.Config{}))
		newRecorder(t).add(in)
		start(t, in)
		for rev := range 3 {
			src.Put(site{Name: "a", Rev: rev})
		}
		src.Put(site{Name: "b", Rev: 3})
		synctest.Wait()
		late := newRecorder(t)
		late.gate = make(chan struct{})
		h := late.handler()
		h.EveryEvent = true
		reg, err := in.AddHandler(h)
		require.NoError(t, err)
		synctest.Wait() // a is with the handler, b waits
		src.Put(site{Name: "b", Rev: 4})
		src.Delete("b")
		src.Put(site{Name: "b", Life: 1, Rev: 5})
		synctest.Wait()
		require.NoError(t, informer.CheckInvariants(in))
		late.gate <- struct{}{}
		synctest.Wait()
		assert.False(t, reg.HasSynced(), "b was there")
		late.gate <- struct{}{}
		synctest.Wait()
		assert.True(t, reg.HasSynced(), "later changes are not waited for")
		close(late.gate)
		assert.Equal(t, []string{
			"add a.2 initial=true", "add b.3 initial=true", "update b.3 4", "delete b.4", "add b.5 initial=false",
		}, late.take())
	})
}

// unwatched makes changes that no watch reports.
func unwatched(src *informertest.Source[string, site], changes func()) {
	src.FailWatches(errOutage)
	changes()
	src.Compact()
	src.FailWatches(nil)
	time.Sleep(time.Hour) // a list brings them to light
	synctest.Wait()
}

// The handler is busy or idle while the object changes and is deleted. If it is busy, the two events are merged.
func TestDeletionHasLastStatePassingFilter(t *testing.T) {
	for _, c := range []struct {
		name    string
		changes func(src *informertest.Source[string, site])
		merged  string
		every   string // the last call of a handler of every event
	}{
		{"the last state passes", func(src *informertest.Source[string, site]) {
			src.Put(site{Name: "a", Rev: 4})
			src.Delete("a")
		}, "delete a.4", "delete a.4"},
		{"it had left the filter", func(src *informertest.Source[string, site]) {
			src.Put(site{Name: "a", Rev: 5})
			src.Delete("a")
		}, "delete a.2", "delete a.2"},
		{"it had left the filter, and its deletion was missed", func(src *informertest.Source[string, site]) {
			src.Put(site{Name: "a", Rev: 5})
			synctest.Wait()
			unwatched(src, func() { src.Delete("a") })
		}, "delete a.2", "delete a.2"},
		{"it was recreated during a watch gap, outside the filter", func(src *informertest.Source[string, site]) {
			unwatched(src, func() {
				src.Delete("a")
				src.Put(site{Name: "a", Life: 1, Rev: 7})
			})
			src.Delete("a")
		}, "delete a.2", "delete a.2"},
		{"it was recreated during a watch gap, inside the filter", func(src *informertest.Source[string, site]) {
			unwatched(src, func() {
				src.Delete("a")
				src.Put(site{Name: "a", Life: 1, Rev: 8})
			})
			src.Delete("a")
		}, "delete a.8", "delete a.8"},
	} {
		for _, every := range []bool{false, true} {
			t.Run(c.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					src := newSource()
					in := must(informer.New(src, nameOf, informer.Config{OnError: func(error) {}}))
					r := newRecorder(t)
					r.gaps, r.gate = true, make(chan struct{})
					h := r.handler()
					h.Filter, h.EveryEvent = isEven, every
					_, err := in.AddHandler(h)
					require.NoError(t, err)
					src.Put(site{Name: "a", Rev: 2})
					start(t, in)
					c.changes(src)
					synctest.Wait()
					close(r.gate)
					calls := r.take()
					if every {
						assert.Equal(t, c.every, calls[len(calls)-1])
					} else {
						assert.Equal(t, []string{"add a.2 initial=true", c.merged}, calls)
					}
					assert.Empty(t, r.state())
				})
			})
		}
	}
}

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

func TestHandlerCallingGoexitIsReportedAndRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var errs errorLog
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
		start(t, in)
		for rev := range 10 {
			src.Put(site{Name: "a", Rev: rev})
			synctest.Wait()
		}
		got := errs.Take()
		require.Len(t, got, 2)
		assert.EqualError(t, got[0], "informer: call OnAdd of sites handler 2: it has called runtime.Goexit, and is called no more")
		assert.EqualError(t, got[1], "informer: call Filter of sites handler 3: it has called runtime.Goexit, and is called no more")
		assert.Equal(t, []int{0, 0, 0}, informer.Pending(in))
		assert.Equal(t, contents(in), other.state())
		<-reg.Remove()
	})
}

func TestUpdateCrossingHandlerFilterIsAddOrDelete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		src.Put(site{Name: "a", Rev: 1})
		src.Put(site{Name: "b", Rev: 2})
		in := must(informer.New(src, nameOf, informer.Config{}))
		r := newRecorder(t)
		h := r.handler()
		h.Filter = func(s site) bool { return s.Rev%2 == 0 }
		reg, err := in.AddHandler(h)
		require.NoError(t, err)
		start(t, in)
		assert.True(t, reg.HasSynced(), "filtered events count")
		assert.Equal(t, []string{"add b.2 initial=true"}, r.take())
		for _, c := range []struct {
			rev  int
			want []string
		}{
			{3, []string{"delete b.2"}}, {5, nil}, {6, []string{"add b.6 initial=false"}}, {8, []string{"update b.6 8"}},
		} {
			src.Put(site{Name: "b", Rev: c.rev})
			assert.Equal(t, c.want, r.take())
		}
		src.Delete("b")
		assert.Equal(t, []string{"delete b.8"}, r.take())
		src.Delete("a")
		assert.Empty(t, r.take(), "it was never delivered")
	})
}

func TestFilterComparesWithLastDeliveredState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		in := must(informer.New(src, nameOf, informer.Config{}))
		r := newRecorder(t)
		r.gate = make(chan struct{})
		h := r.handler()
		h.Filter = func(s site) bool { return s.Rev%2 == 0 }
		_, err := in.AddHandler(h)
		require.NoError(t, err)
		start(t, in)
		src.Put(site{Name: "a", Rev: 2})
		synctest.Wait() // the handler is in OnAdd
		src.Put(site{Name: "a", Rev: 3})
		src.Delete("a")
		src.Put(site{Name: "b", Rev: 4})
		src.Put(site{Name: "b", Rev: 5})
		synctest.Wait()
		close(r.gate)
		assert.Equal(t, []string{"add a.2 initial=false", "delete a.2"}, r.take())
	})
}

func TestPanickingFilterRejectsObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var errs errorLog
		src := newSource()
		in := must(informer.New(src, nameOf, informer.Config{Name: "sites", OnError: errs.Add}))
		r := newRecorder(t)
		h := r.handler()
		h.Filter = func(s site) bool { return 10/s.Rev > 0 }
		_, err := in.AddHandler(h)
		require.NoError(t, err)
		start(t, in)
		src.Put(site{Name: "a", Rev: 0})
		assert.Empty(t, r.take())
		assert.ErrorContains(t, errs.Take()[0], "informer: call Filter of sites handler 1: ")
		src.Put(site{Name: "a", Rev: 1})
		assert.Equal(t, []string{"add a.1 initial=false"}, r.take())
	})
}

func TestHandlerNeedsNoFunctions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		in := must(informer.New(src, nameOf, informer.Config{OnError: func(err error) { t.Error(err) }}))
		_, err := in.AddHandler(informer.Handler[string, site]{})
		require.NoError(t, err)
		start(t, in)
		src.Put(site{Name: "a"})
		synctest.Wait()
		src.Put(site{Name: "a"})
		synctest.Wait()
		src.Delete("a")
		synctest.Wait()
	})
}
