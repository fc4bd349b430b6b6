package expectations_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/expectations"
	"github.com/stretchr/testify/require"
)

// listen returns the keys that f was called for so far.
func listen(notify func(f func(key string)) (stop func())) (told *[]string, stop func()) {
	told = new([]string)
	return told, notify(func(key string) { *told = append(*told, key) })
}

func TestListenerIsCalledOnceExpectationsAreMet(t *testing.T) {
	c := must(expectations.NewCounted(expectations.Config[string]{}))
	tr := must(expectations.NewTracked[string, int](expectations.Config[string]{}))
	v := must(expectations.NewVersions(expectations.Config[string]{}))
	for what, test := range map[string]struct {
		of              asker
		expect, on, met func()
	}{
		"CreationObserved": {c, func() { c.ExpectCreations("a", 2) },
			func() { c.CreationObserved("a") }, func() { c.CreationObserved("a") }},
		"LowerExpectations": {c, func() { c.SetExpectations("a", 2, 1) },
			func() { c.LowerExpectations("a", 2, 0) }, func() { c.LowerExpectations("a", 0, 1) }},
		"SetExpectations": {c, func() { c.ExpectDeletions("a", 2) },
			func() { c.SetExpectations("a", 0, 1) }, func() { c.SetExpectations("a", 0, 0) }},
		"DeleteExpectations": {c, func() { c.ExpectDeletions("a", 2) },
			func() { c.DeleteExpectations("b") }, func() { c.DeleteExpectations("a") }},
		"DeletionObserved": {tr, func() { tr.ExpectDeletions("a", 1, 2) },
			func() { tr.DeletionObserved("a", 2) }, func() { tr.DeletionObserved("a", 1) }},
		"End": {tr, func() { tr.Begin("a"); tr.CreationObserved("a", 1) },
			func() { tr.ExpectCreations("a", 1) }, func() { tr.End("a") }},
		"Delete": {tr, func() { tr.ExpectDeletions("a", 1) },
			func() { tr.DeleteExpectations("b") }, func() { tr.DeleteExpectations("a") }},
		"VersionObserved": {v, func() { v.ExpectVersion("a", 10) },
			func() { v.VersionObserved(9) }, func() { v.VersionObserved(10) }},
		"Delete of Versions": {v, func() { v.ExpectVersion("a", 20) },
			func() { v.DeleteExpectations("b") }, func() { v.DeleteExpectations("a") }},
		"Reset": {v, func() { v.ExpectVersion("a", 20) },
			func() { v.VersionObserved(11) }, func() { v.Reset() }},
	} {
		told, stop := listen(test.of.Notify)
		test.expect()
		_, waiting := test.of.Expires("a")
		require.True(t, waiting, what)
		test.on()
		require.Empty(t, *told, what)
		test.met()
		require.Equal(t, []string{"a"}, *told, what)
		_, waiting = test.of.Expires("a")
		require.False(t, waiting, what)
		stop()
	}
}

func TestListenersHearOnlyOfRequestedKeys(t *testing.T) {
	tr := must(expectations.NewTracked[string, int](expectations.Config[string]{}))
	told, _ := listen(tr.Notify)
	for range 2 { // as in a reconcile that has nothing to do: it must not be the reason of the next one
		require.True(t, tr.SatisfiedExpectations("a"))
		tr.Begin("a")
		tr.End("a")
	}
	tr.ExpectCreations("a", 1)
	tr.CreationObserved("a", 1)
	require.Empty(t, *told)
	tr.ExpectCreations("a", 1)
	require.False(t, tr.SatisfiedExpectations("a"))
	tr.CreationObserved("a", 1)
	tr.ExpectCreations("a", 1)
	tr.CreationObserved("a", 1)
	require.Equal(t, []string{"a"}, *told, "once for each wait")
}

func TestExpiryIsReportedOnlyToOnExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var expired []string
		c := must(expectations.NewCounted(expectations.Config[string]{
			OnExpired: func(key string) { expired = append(expired, key) },
		}))
		told, _ := listen(c.Notify)
		c.ExpectCreations("a", 1)
		at, waiting := c.Expires("a")
		require.True(t, waiting)
		time.Sleep(time.Until(at))
		_, waiting = c.Expires("a")
		require.False(t, waiting)
		c.CreationObserved("a")
		require.Equal(t, []string{"a"}, expired)
		require.Empty(t, *told)
	})
}

func TestListenersAreCalledInOrderUntilTheyStop(t *testing.T) {
	v := must(expectations.NewVersions(expectations.Config[string]{}))
	var told []string
	stops := make([]func(), 3)
	for i := range stops {
		stops[i] = v.Notify(func(key string) { told = append(told, fmt.Sprint(key, i)) })
	}
	version := uint64(0)
	round := func() []string {
		told = nil
		version += 3
		for i, key := range []string{"c", "b", "a"} {
			v.ExpectVersion(key, version-uint64(i))
			v.Expires(key)
		}
		v.VersionObserved(version)
		return told
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
	c := must(expectations.NewCounted(expectations.Config[string]{}))
	var told []string
	var stop func()
	stop = c.Notify(func(string) { told = append(told, "first"); stop() })
	c.Notify(func(string) { told = append(told, "second") })
	c.Notify(func(string) { told = append(told, "third") })
	for range 2 {
		c.ExpectCreations("a", 1)
		c.Expires("a")
		c.CreationObserved("a")
	}
	require.Equal(t, []string{"first", "second", "third", "second", "third"}, told)
}

func TestListenerMayCallEveryMethod(t *testing.T) {
	c := must(expectations.NewCounted(expectations.Config[string]{}))
	var told []string
	var stop func()
	stop = c.Notify(func(key string) {
		told = append(told, key)
		_, waiting := c.Expires(key)
		require.False(t, waiting)
		c.ExpectCreations(key, 1)
		require.False(t, c.SatisfiedExpectations(key))
		if len(told) == 3 {
			stop()
		}
		c.CreationObserved(key)
	})
	c.ExpectCreations("a", 1)
	require.False(t, c.SatisfiedExpectations("a"))
	c.CreationObserved("a")
	require.Equal(t, []string{"a", "a", "a"}, told)
}

// A caller that checks a key, finds it unsatisfied, and then waits for Notify is always woken.
func TestListenerMissesNoConcurrentEvent(t *testing.T) {
	v := must(expectations.NewVersions(expectations.Config[int]{TTL: -1}))
	const keys, rounds = 3, 300
	var wake [keys]chan struct{}
	for key := range wake {
		wake[key] = make(chan struct{}, 1)
	}
	v.Notify(func(key int) {
		select {
		case wake[key] <- struct{}{}:
		default:
		}
	})
	writes := make(chan uint64, keys)
	var holders, cache sync.WaitGroup
	// Sees every write, ends when writes is closed; the test waits for it.
	cache.Go(func() {
		for version := range writes {
			v.VersionObserved(version)
		}
	})
	for key := range keys {
		// Holds its key, ends by itself; the test waits for it.
		holders.Go(func() {
			for i := range rounds {
				version := uint64(i*keys + key + 1)
				v.ExpectVersion(key, version)
				writes <- version
				for !v.SatisfiedExpectations(key) {
					<-wake[key]
				}
			}
		})
	}
	holders.Wait()
	close(writes)
	cache.Wait()
	require.NoError(t, v.CheckInvariants())
}
