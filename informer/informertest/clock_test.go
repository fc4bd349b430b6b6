package informertest_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/informertest"
)

// A source keeps its contract while another source on the same clock changes before and after each of its changes.
func TestSourceOnSharedClockKeepsTheContract(t *testing.T) {
	informertest.Run(t, func(*testing.T) informertest.Subject[pair] {
		var clock informertest.Clock
		noise := informertest.NewSourceOn(&clock, func(n int) int { return n % 3 })
		src := informertest.NewSourceOn(&clock, func(p pair) string { return p.name })
		s := subject(src, src)
		put, remove := s.Put, s.Delete
		s.Put = func(name string, rev int) error {
			defer noise.Delete(rev % 3)
			noise.Put(rev)
			return put(name, rev)
		}
		s.Delete = func(name string) error {
			defer noise.Bookmark()
			noise.Put(1)
			return remove(name)
		}
		return s
	})
}

func TestInformerReachesVersionOfOtherSourceOnSharedClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var clock informertest.Clock
		sites := informertest.NewSourceOn(&clock, func(p pair) string { return p.name })
		numbers := informertest.NewSourceOn(&clock, func(n int) int { return n / 10 })
		ctx, cancel := context.WithCancel(t.Context())
		seenSites, seenNumbers := must(informer.New(sites, sites.Key, informer.Config{})), must(informer.New(numbers, numbers.Key, informer.Config{}))
		ended := make(chan error, 2)
		go func() { ended <- seenSites.Run(ctx) }()   // ends with cancel; waited for below
		go func() { ended <- seenNumbers.Run(ctx) }() // likewise
		synctest.Wait()

		r, last := rand.New(rand.NewPCG(5, 6)), informer.Version(0)
		for n := range 200 {
			var v informer.Version
			switch r.IntN(4) {
			case 0, 1:
				v = sites.Put(pair{fmt.Sprint("s", r.IntN(4)), strconv.Itoa(n)})
			case 2:
				v = numbers.Put(n)
			default:
				v = numbers.Bookmark()
			}
			require.Equal(t, last+1, v, "one sequence, without gaps")
			last = v
			require.Equal(t, []informer.Version{v, v, v}, []informer.Version{clock.Version(), sites.Version(), numbers.Version()})
			l, err := sites.List(ctx)
			require.NoError(t, err)
			require.Equal(t, v, l.Version, "a list is current at the version of the clock")
		}
		synctest.Wait()
		assert.Equal(t, last, seenSites.Version())
		assert.Equal(t, last, seenNumbers.Version())
		assert.Equal(t, last, numbers.Delete(77), "deleting a missing object is not a change")

		sites.Hold()
		last = numbers.Put(1)
		synctest.Wait()
		assert.Equal(t, last-1, seenSites.Version(), "a lagging source does not pass the changes of others either")
		assert.Equal(t, last, seenNumbers.Version())
		sites.Release()
		synctest.Wait()
		assert.Equal(t, last, seenSites.Version())
		cancel()
		<-ended
		<-ended
	})
}

func TestSourceMayJoinRunningClock(t *testing.T) {
	var clock informertest.Clock
	old := informertest.NewSourceOn(&clock, func(n int) int { return n })
	old.Put(1)
	src := informertest.NewSourceOn(&clock, func(n int) int { return n })
	assert.EqualValues(t, 1, src.Version())
	assert.EqualValues(t, 2, src.Put(7))
	for _, after := range []informer.Version{0, 1} {
		for e, err := range src.Watch(t.Context(), after) {
			require.NoError(t, err)
			assert.Equal(t, informer.Event[int]{Type: informer.Added, Object: 7, Version: 2}, e)
			break
		}
	}
	const misuse = "informertest: NewSourceOn needs a clock and a key function"
	assert.PanicsWithValue(t, misuse, func() { informertest.NewSourceOn[int, int](nil, func(n int) int { return n }) })
	assert.PanicsWithValue(t, misuse, func() { informertest.NewSourceOn[int, int](&clock, nil) })
}
