package informer_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/looptest"
)

func isEven(s site) bool { return s.Rev%2 == 0 }

func TestUpdateLeavingSourceFilterIsDeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		src.Put(site{Name: "a", Rev: 0})
		src.Put(site{Name: "b", Rev: 1})
		even := informer.Filter(src, isEven)
		list, err := even.List(t.Context())
		require.NoError(t, err)
		assert.Equal(t, informer.List[site]{Items: []site{{Name: "a"}}, Version: 2}, list)

		events := watch(t, t.Context(), even, list.Version)
		synctest.Wait() // it is open
		for _, s := range []site{{Name: "a", Rev: 2}, {Name: "a", Rev: 3}, {Name: "b", Rev: 4}, {Name: "c", Rev: 5}} {
			src.Put(s)
		}
		src.Delete("b")
		src.Delete("a") // it has left; its deletion may come again, for it may differ
		src.Bookmark()
		synctest.Wait() // all has been reported
		src.Break(errOutage)
		for ev, err := range informer.Filter(src, func(s site) bool { return s.Name != "" }).Watch(t.Context(), 8) {
			require.NoError(t, err)
			assert.Equal(t, informer.Bookmark, ev.Type, "keep is not called for a bookmark, which has no object")
			break
		}
		assert.Equal(t, []string{
			"3 Modified a.2", "4 Deleted a.3", "5 Modified b.4", "6 Bookmark .0", "7 Deleted b.4", "8 Deleted a.3", "9 Bookmark .0",
			errOutage.Error(),
		}, looptest.TakeAll(events))
		src.Fail(errOutage)
		_, err = even.List(t.Context())
		assert.Equal(t, errOutage, err)
	})
}

func TestDerivedWatchMayBreak(t *testing.T) {
	src := newSource()
	src.Put(site{Name: "a"})
	src.Put(site{Name: "b"})
	for _, derived := range []informer.ListWatcher[site]{
		informer.Filter(src, isEven), informer.Map(src, func(s site) site { return s }),
	} {
		for ev, err := range derived.Watch(t.Context(), 0) {
			require.NoError(t, err)
			assert.Equal(t, "a", ev.Object.Name)
			break
		}
	}
}

// The informer compensates for a filter without memory: its handlers receive the events that a handler with the same
// filter receives.
func TestFilteredInformerIsExact(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 0))
			src := newSource()
			in := must(informer.New(informer.Filter(src, isEven), nameOf, informer.Config{OnError: func(error) {}}))
			r := newRecorder(t).add(in)
			r.gaps = true
			start(t, in)
			truth := map[string]site{}
			for rev := range 200 {
				s := site{Name: fmt.Sprint(rnd.IntN(4)), Rev: 10*rev + rnd.IntN(2)}
				delete(truth, s.Name)
				switch rnd.IntN(5) {
				case 0:
					src.Delete(s.Name)
				case 1:
					src.Break(errOutage)
					fallthrough
				default:
					src.Put(s)
					if isEven(s) {
						truth[s.Name] = s
					}
				}
				if rnd.IntN(4) == 0 {
					time.Sleep(2 * time.Second)
					require.NoError(t, in.WaitForVersion(t.Context(), src.Version()))
					assert.Equal(t, truth, contents(in))
					assert.Equal(t, truth, r.state())
				}
			}
		})
	}
}

func TestMapConvertsObjectsAndKeepsKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		src.Put(site{Name: "a", Life: 1})
		src.Put(site{Name: "b", Life: 2})
		m := informer.Map(src, func(s site) site {
			if s.Name == "" {
				panic("a bookmark and an error have no object")
			}
			return site{Name: s.Name, Rev: s.Life}
		})
		list, err := m.List(t.Context())
		require.NoError(t, err)
		assert.Equal(t, informer.List[site]{Items: []site{{Name: "a", Rev: 1}, {Name: "b", Rev: 2}}, Version: 2}, list)
		events := watch(t, t.Context(), m, 1)
		synctest.Wait() // it is open
		src.Bookmark()
		src.Delete("a")
		synctest.Wait() // all has been reported
		src.Break(errOutage)
		assert.Equal(t, []string{"2 Added b.2", "3 Bookmark .0", "4 Deleted a.1", errOutage.Error()}, looptest.TakeAll(events))
		src.Fail(errOutage)
		_, err = m.List(t.Context())
		assert.Equal(t, errOutage, err)
	})
}

func TestFilterAndMapWithoutAFunctionPanic(t *testing.T) {
	assert.Panics(t, func() { informer.Filter[site](newSource(), nil) })
	assert.Panics(t, func() { informer.Filter(nil, isEven) })
	assert.Panics(t, func() { informer.Map[site, site](newSource(), nil) })
	assert.Panics(t, func() { informer.Map[site](nil, isEven) })
}
