package informer_test

import (
	"math"
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

func TestUnindexableObjectIsRelistedUntilIndexed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &spy{ListWatcher: newSource()}
		in := must(informer.New(src, nameOf, informer.Config{
			OnError: func(error) {}, Backoff: wait.Backoff{Duration: time.Second, Factor: 2, Cap: time.Minute},
		}))
		var broken knob[bool]
		cache.AddIndex(in.Indexer(), func(s site) []int {
			if broken.get() && s.Name == "a" {
				panic("no such index")
			}
			return nil
		})
		r := newRecorder(t).add(in)
		sitetest.Start(t, in)
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

func TestUnindexableObjectHoldsBackVersionAcrossRelists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		in := must(informer.New(src, nameOf, informer.Config{OnError: func(error) {}, Backoff: wait.Backoff{Duration: time.Second}}))
		cache.AddIndex(in.Indexer(), func(s site) []int { return []int{100 / s.Rev} })
		sitetest.Start(t, in)
		good := src.Put(site{Name: "a", Rev: 1})
		src.Put(site{Name: "bad", Rev: 0})
		for rev := range 5 {
			src.Put(site{Name: "a", Rev: rev + 2})
			time.Sleep(time.Second)
			synctest.Wait()
			assert.Equal(t, good, in.Version())
		}
		src.Delete("bad")
		synctest.Wait()
		assert.Equal(t, src.Version(), in.Version())
	})
}

// minutely is a source that promises a bookmark a minute.
type minutely struct{ informer.ListWatcher[site] }

func (minutely) BookmarkPeriod() time.Duration { return time.Minute }

func TestStaleMeansNotHeardForLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := must(informer.New(minutely{newSource()}, nameOf, informer.Config{}))
		assert.True(t, in.Stale(time.Hour), "it was never heard from")
		assert.True(t, in.Stale(math.MaxInt64), "however long that is")
		sitetest.Start(t, in)
		time.Sleep(2 * time.Minute)
		assert.False(t, in.Stale(time.Minute), "it promises a bookmark a minute, and gets twice the time")
		time.Sleep(time.Nanosecond)
		assert.True(t, in.Stale(2*time.Minute))
		assert.False(t, in.Stale(3*time.Minute))
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
		sitetest.Start(t, in)
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

func TestEachHandlerHasItsOwnResyncPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		src.Put(site{Name: "a"})
		in := must(informer.New(src, nameOf, informer.Config{ResyncPeriod: time.Minute}))
		resyncs := make([]int, 3)
		for i, period := range []time.Duration{0, 20 * time.Second, -1} {
			_, err := in.AddHandler(informer.Handler[string, site]{
				ResyncPeriod: period, OnUpdate: func(_, _ site) { resyncs[i]++ },
			})
			require.NoError(t, err)
		}
		sitetest.Start(t, in)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		assert.Equal(t, []int{2, 6, 0}, resyncs)
	})
}
