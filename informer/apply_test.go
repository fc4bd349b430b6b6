package informer_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/wait"
)

func TestAnObjectThatCannotBeIndexedIsListedAgainUntilItCan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &spy{ListWatcher: newSource()}
		in := informer.New(src, nameOf, informer.Config{
			OnError: func(error) {}, Backoff: wait.Backoff{Duration: time.Second, Factor: 2, Cap: time.Minute},
		})
		var broken knob[bool]
		cache.AddIndex(in.Indexer(), func(s site) []int {
			if broken.get() && s.Name == "a" {
				panic("no such index")
			}
			return nil
		})
		r := newRecorder(t).add(in)
		start(t, in)
		real := src.ListWatcher.(interface {
			Put(site) informer.Version
		})
		broken.set(true)
		real.Put(site{Name: "a", Rev: 1})
		v := real.Put(site{Name: "b", Rev: 2})
		assert.Equal(t, []string{"add b.2 initial=false"}, r.take())
		assert.Equal(t, 1, src.got().lists)
		assert.Zero(t, in.Version())
		time.Sleep(time.Second)
		assert.Equal(t, 2, src.got().lists, "after the first delay")
		time.Sleep(2 * time.Second)
		assert.Equal(t, 3, src.got().lists, "after the second, which is longer")
		broken.set(false)
		time.Sleep(4 * time.Second)
		assert.Equal(t, 4, src.got().lists)
		assert.Contains(t, r.take(), "add a.1 initial=false")
		assert.Equal(t, v, in.Version())
		time.Sleep(time.Hour)
		assert.Equal(t, 4, src.got().lists, "it is healed")
	})
}

func TestResetTakesAListThatIsOlder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var list knob[informer.List[site]]
		list.set(informer.List[site]{Items: []site{{Name: "a", Rev: 1}}, Version: 9})
		in := informer.New(scripted{list: func(context.Context) (informer.List[site], error) { return list.get(), nil }},
			nameOf, informer.Config{})
		r := newRecorder(t)
		r.gaps = true
		r.add(in)
		start(t, in)
		require.Equal(t, informer.Version(9), in.Version())
		list.set(informer.List[site]{Items: []site{{Name: "b", Rev: 1}}, Version: 3})
		in.Reset()
		assert.Equal(t, []string{"add a.1 initial=true", "add b.1 initial=false", "delete a.1 unknown"}, r.take())
		assert.Equal(t, informer.Version(3), in.Version())
	})
}

func TestStaleIsLongerUnheardThanThat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := informer.New(newSource(), nameOf, informer.Config{})
		assert.True(t, in.Stale(time.Hour), "it was never heard")
		start(t, in)
		time.Sleep(time.Minute)
		assert.False(t, in.Stale(time.Minute))
		time.Sleep(1)
		assert.True(t, in.Stale(time.Minute))
	})
}

func TestAHandlerOfEveryEventIsToldOfEachChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		in := informer.New(src, nameOf, informer.Config{})
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

func TestEachHandlerHasItsOwnResync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		src.Put(site{Name: "a"})
		in := informer.New(src, nameOf, informer.Config{ResyncPeriod: time.Minute})
		resyncs := make([]int, 3)
		for i, period := range []time.Duration{0, 20 * time.Second, -1} {
			_, err := in.AddHandler(informer.Handler[string, site]{
				ResyncPeriod: period, OnUpdate: func(_, _ site) { resyncs[i]++ },
			})
			require.NoError(t, err)
		}
		start(t, in)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		assert.Equal(t, []int{2, 6, 0}, resyncs)
	})
}

// TestAHandlerThatJoinsInPiecesMissesNothing changes objects that are told, objects that are still to come, and objects
// that were not there, after each piece.
func TestAHandlerThatJoinsInPiecesMissesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 5*informer.ScanChunk + 1
		src := newSource()
		many(src, n, 1)
		in := informer.New(src, nameOf, informer.Config{})
		newRecorder(t).add(in)
		start(t, in)
		rev := 1
		truth := contents(in)
		put := func(name string, life int) {
			rev++
			truth[name] = site{Name: name, Life: life, Rev: rev}
			src.Put(truth[name])
		}
		del := func(name string) { delete(truth, name); src.Delete(name) }
		cache.AddIndex(in.Indexer(), func(site) []int { time.Sleep(time.Millisecond); return nil }) // pieces and changes take turns
		late := newRecorder(t).add(in)
		for _, name := range []string{"1", "2000", "5000"} {
			put(name, 0)
			del(name)
			put(name, 1)
			put(name+"x", 0)
			put(name+"x", 0)
			del(name + "x")
			put(name+"x", 1)
			put(name+"y", 0)
			del(name + "y")
			time.Sleep(2 * time.Millisecond)
		}
		time.Sleep(time.Second)
		assert.Equal(t, truth, late.state())
		assert.Equal(t, truth, contents(in))
		assert.True(t, late.reg.HasSynced())
		require.NoError(t, informer.CheckInvariants(in))
	})
}
