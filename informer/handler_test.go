package informer_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/internal/sitetest"
	"github.com/setpoint-go/setpoint/wait"
)

func TestLateHandlerGetsCurrentObjectsThenChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		in := must(informer.New(src, nameOf, informer.Config{}))
		sitetest.Start(t, in)
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
		sitetest.Start(t, in)
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
		sitetest.Start(t, in)
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
		sitetest.Start(t, in) // a is with the handler
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
			sitetest.Start(t, in)
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
		sitetest.Start(t, in)
		assert.True(t, r.reg.HasSynced())
	})
}

func TestPanickingCallCountsAsDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var errs sitetest.Errors
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
		sitetest.Start(t, in)
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
		sitetest.Start(t, in)
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
		sitetest.Start(t, in)
		src.Put(site{Name: "first"})
		synctest.Wait()
		for rev := range 2000 {
			src.Put(site{Name: "a", Rev: rev})                // the same one, again and again
			src.Put(site{Name: fmt.Sprint(rev), Rev: rev})    // one that comes and goes
			src.Put(site{Name: "first", Life: rev, Rev: rev}) // one that the handler knows, and that comes and goes
			src.Delete("first")
			src.Delete(fmt.Sprint(rev))
			if rev%100 == 0 {
				synctest.Wait()
				assert.LessOrEqual(t, informer.Waiting(in)[0], 2)
			}
		}
		synctest.Wait()
		assert.Equal(t, []int{2}, informer.Waiting(in))
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
				sitetest.Start(t, in)
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
		sitetest.Start(t, in)
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
