package expectations_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/setpoint-go/setpoint/expectations"
	"github.com/stretchr/testify/require"
)

func TestNotifyReportsOnlyKeysThatWereAskedAbout(t *testing.T) {
	tr := expectations.NewTracked[string, int](expectations.Config[string]{})
	var satisfied []string
	tr.Notify(func(key string) { satisfied = append(satisfied, key) })
	for range 2 { // as in a reconcile that has nothing to do: it must not be the reason of the next one
		require.True(t, tr.SatisfiedExpectations("a"))
		tr.Begin("a")
		tr.End("a")
	}
	tr.ExpectCreations("a", 1)
	tr.CreationObserved("a", 1)
	require.Empty(t, satisfied)
	tr.ExpectCreations("a", 1)
	require.False(t, tr.SatisfiedExpectations("a"))
	tr.CreationObserved("a", 1)
	tr.ExpectCreations("a", 1)
	tr.CreationObserved("a", 1)
	require.Equal(t, []string{"a"}, satisfied, "once for each wait")
}

func TestListenersAreCalledInOrderUntilTheyStop(t *testing.T) {
	v := expectations.NewVersions(expectations.Config[string]{})
	var called []string
	stops := make([]func(), 3)
	for i := range stops {
		stops[i] = v.Notify(func(key string) { called = append(called, fmt.Sprint(key, i)) })
	}
	version := uint64(0)
	round := func() []string {
		called = nil
		version += 3
		for i, key := range []string{"c", "b", "a"} {
			v.ExpectVersion(key, version-uint64(i))
			v.Expires(key)
		}
		v.VersionObserved(version)
		return called
	}
	require.Equal(t, []string{"a0", "a1", "a2", "b0", "b1", "b2", "c0", "c1", "c2"}, round(), "in order of version")
	stops[1]()
	stops[1]()
	require.Equal(t, []string{"a0", "a2", "b0", "b2", "c0", "c2"}, round())
	stops[0]()
	stops[2]()
	require.Empty(t, round())
	require.PanicsWithValue(t, "expectations: Notify needs a function", func() { v.Notify(nil) })
}

func TestListenerStoppingDuringCallDoesNotAffectOthers(t *testing.T) {
	c := expectations.NewCounted(expectations.Config[string]{})
	var called []string
	var stop func()
	stop = c.Notify(func(string) { called = append(called, "first"); stop() })
	c.Notify(func(string) { called = append(called, "second") })
	c.Notify(func(string) { called = append(called, "third") })
	for range 2 {
		c.ExpectCreations("a", 1)
		c.Expires("a")
		c.CreationObserved("a")
	}
	require.Equal(t, []string{"first", "second", "third", "second", "third"}, called)
}

func TestListenerMayCallEveryMethod(t *testing.T) {
	c := expectations.NewCounted(expectations.Config[string]{})
	var called []string
	var stop func()
	stop = c.Notify(func(key string) {
		called = append(called, key)
		_, waiting := c.Expires(key)
		require.False(t, waiting)
		c.ExpectCreations(key, 1)
		require.False(t, c.SatisfiedExpectations(key))
		if len(called) == 3 {
			stop()
		}
		c.CreationObserved(key)
	})
	c.ExpectCreations("a", 1)
	require.False(t, c.SatisfiedExpectations("a"))
	c.CreationObserved("a")
	require.Equal(t, []string{"a", "a", "a"}, called)
}

// A caller that checks a key, finds it unsatisfied, and then waits for Notify is always woken.
func TestNotifyMissesNoConcurrentEvent(t *testing.T) {
	const keys, rounds = 3, 300
	type waiter interface {
		SatisfiedExpectations(key int) bool
		Notify(f func(key int)) (stop func())
		CheckInvariants() error
	}
	versions := expectations.NewVersions(expectations.Config[int]{TTL: -1})
	values := expectations.NewValues(expectations.Config[int]{TTL: -1})
	var shown [keys]atomic.Int64
	for name, c := range map[string]struct {
		waiter
		expect  func(key, i int)
		observe func(key, i int)
	}{
		"Versions": {versions, func(key, i int) { versions.ExpectVersion(key, uint64(i*keys+key+1)) },
			func(key, i int) { versions.VersionObserved(uint64(i*keys + key + 1)) }},
		"Values": {values, func(key, i int) { values.ExpectValue(key, func() bool { return shown[key].Load() > int64(i) }) },
			func(key, _ int) { shown[key].Add(1); values.ValuesObserved() }},
	} {
		var wake [keys]chan struct{}
		for key := range wake {
			wake[key] = make(chan struct{}, 1)
		}
		c.Notify(func(key int) {
			select {
			case wake[key] <- struct{}{}:
			default:
			}
		})
		writes := make(chan [2]int, keys)
		var holders, cache sync.WaitGroup
		// Shows every write, ends when writes is closed; the test waits for it.
		cache.Go(func() {
			for w := range writes {
				c.observe(w[0], w[1])
			}
		})
		for key := range keys {
			// Holds its key, ends by itself; the test waits for it.
			holders.Go(func() {
				for i := range rounds {
					if i%2 == 0 {
						writes <- [2]int{key, i}
					}
					c.expect(key, i)
					if i%2 == 1 {
						writes <- [2]int{key, i}
					}
					for !c.SatisfiedExpectations(key) {
						<-wake[key]
					}
				}
			})
		}
		holders.Wait()
		close(writes)
		cache.Wait()
		require.NoError(t, c.CheckInvariants(), name)
	}
	require.Zero(t, values.Len())
}
