package expectations_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/setpoint-go/setpoint/expectations"
	"github.com/stretchr/testify/require"
)

func TestExpectationsExpireExactlyAtTTL(t *testing.T) {
	for what, test := range map[string]struct{ cfg, want time.Duration }{
		"the default": {0, 5 * time.Minute},
		"one minute":  {time.Minute, time.Minute},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var expired []string
				c := expectations.NewCounted(expectations.Config[string]{
					TTL:       test.cfg,
					OnExpired: func(key string) { expired = append(expired, key) },
				})
				c.ExpectCreations("a", 1)
				at, waits := c.Expires("a")
				require.True(t, waits)
				require.Equal(t, time.Now().Add(test.want), at)
				time.Sleep(test.want - 1)
				require.False(t, c.SatisfiedExpectations("a"))
				require.Empty(t, expired)
				time.Sleep(time.Nanosecond)
				require.True(t, c.SatisfiedExpectations("a"))
				require.True(t, c.SatisfiedExpectations("a"))
				require.Equal(t, []string{"a"}, expired, "once")
			})
		})
	}
}

func TestNegativeTTLDisablesExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := expectations.NewVersions(expectations.Config[string]{TTL: -1})
		v.ExpectVersion("a", 5)
		time.Sleep(1000 * time.Hour)
		v.VersionObserved(4)
		require.False(t, v.SatisfiedExpectations("a"))
		at, waits := v.Expires("a")
		require.True(t, waits)
		require.Zero(t, at)
		require.NoError(t, v.CheckInvariants())
	})
}

func TestAnyCallReportsExpiredKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var expired []string
		cfg := expectations.Config[string]{OnExpired: func(key string) { expired = append(expired, key) }}
		c := expectations.NewCounted(cfg)
		calls := map[string]func(){
			"SatisfiedExpectations": func() { c.SatisfiedExpectations("other") },
			"Expires":               func() { c.Expires("other") },
			"ExpectCreations":       func() { c.ExpectCreations("other", 1) },
			"SetExpectations":       func() { c.SetExpectations("other", 0, 0) },
			"LowerExpectations":     func() { c.LowerExpectations("other", 1, 1) },
			"DeleteExpectations":    func() { c.DeleteExpectations("other") },
			"the same key again":    func() { c.ExpectCreations("b", 1) },
		}
		for what, call := range calls {
			c.DeleteExpectations("other")
			c.DeleteExpectations("b")
			expired = nil
			c.ExpectCreations("b", 1)
			c.ExpectCreations("a", 1)
			time.Sleep(time.Hour)
			call()
			require.Equal(t, []string{"b", "a"}, expired, "%s: in the order in which they were set", what)
		}
	})
}

func TestOnExpiredMayCallEveryMethod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tr *expectations.Tracked[string, int]
		tr = expectations.NewTracked[string, int](expectations.Config[string]{
			OnExpired: func(key string) { tr.ExpectDeletions(key, 7) },
		})
		tr.ExpectCreations("a", 1)
		time.Sleep(time.Hour)
		require.True(t, tr.SatisfiedExpectations("a"))
		require.False(t, tr.SatisfiedExpectations("a"))
	})
}

func TestExpiryWithoutOnExpiredIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		v := expectations.NewVersions(expectations.Config[string]{
			Name:   "sites",
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		v.ExpectVersion("a", 5)
		v.ExpectVersion("b", 6)
		time.Sleep(time.Hour)
		v.VersionObserved(5)
		require.Contains(t, log.String(), `level=WARN msg="expectations expired" name=sites key=b`)
		require.NotContains(t, log.String(), "key=a", "it was met, but late")
	})
}

func TestHugeCountsDoNotOverflow(t *testing.T) {
	c := expectations.NewCounted(expectations.Config[string]{})
	c.SetExpectations("a", math.MaxInt, 1)
	c.ExpectCreations("a", math.MaxInt)
	c.RaiseExpectations("a", 1, math.MaxInt)
	c.CreationObserved("a")
	c.DeletionObserved("a")
	require.False(t, c.SatisfiedExpectations("a"))
	c.LowerExpectations("a", math.MaxInt, math.MaxInt)
	require.True(t, c.SatisfiedExpectations("a"))
}

func TestDeadKeysTakeNoMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := expectations.Config[int]{OnExpired: func(int) {}}
		c, tr, v := expectations.NewCounted(cfg), expectations.NewTracked[int, int](cfg), expectations.NewVersions(cfg)
		for key := range 1000 {
			c.ExpectDeletions(key, 1)
			tr.ExpectCreations(key, 1)
			v.ExpectVersion(key, 5)
		}
		require.Equal(t, []int{1000, 1000, 1000}, []int{c.Len(), tr.Len(), v.Len()})
		time.Sleep(time.Hour)
		c.SatisfiedExpectations(-1)
		tr.SatisfiedExpectations(-1)
		v.SatisfiedExpectations(-1)
		require.Equal(t, []int{0, 0, 0, 0, 0}, []int{c.Len(), c.Room(), tr.Len(), v.Len(), v.Room()})

		for key := range 10 {
			c.ExpectDeletions(key, 1)
			c.DeletionObserved(key)
			tr.ExpectCreations(key, 1)
			tr.CreationObserved(key, 1)
			v.ExpectVersion(key, 5)
			v.DeleteExpectations(key)
		}
		require.Equal(t, []int{0, 0, 0}, []int{c.Len(), tr.Len(), v.Len()})
	})
}

func TestInvalidCountsAndKeysPanic(t *testing.T) {
	c := expectations.NewCounted(expectations.Config[float64]{})
	const negative = "expectations: a number of expected events is negative"
	for what, call := range map[string]func(){
		"ExpectCreations":   func() { c.ExpectCreations(1, -1) },
		"ExpectDeletions":   func() { c.ExpectDeletions(1, -1) },
		"SetExpectations":   func() { c.SetExpectations(1, 0, -1) },
		"RaiseExpectations": func() { c.RaiseExpectations(1, 2, -1) },
		"LowerExpectations": func() { c.LowerExpectations(1, -2, 1) },
	} {
		require.PanicsWithValue(t, negative, call, what)
	}
	v := expectations.NewValues(expectations.Config[string]{})
	require.PanicsWithValue(t, "expectations: ExpectValue needs a function", func() { v.ExpectValue("a", nil) })
	require.PanicsWithValue(t, "expectations: Notify needs a function", func() { v.Notify(nil) })
	require.PanicsWithValue(t, "expectations: a key is not equal to itself", func() { c.ExpectCreations(math.NaN(), 1) })
	require.True(t, c.SatisfiedExpectations(1), "no lock is still held")
}

func TestConcurrentUse(t *testing.T) {
	cfg := expectations.Config[string]{OnExpired: func(string) {}, TTL: time.Microsecond}
	c, tr, v := expectations.NewCounted(cfg), expectations.NewTracked[string, int](cfg), expectations.NewVersions(cfg)
	var wg sync.WaitGroup
	for g := range 4 {
		// Uses everything, ends by itself; the test waits for it.
		wg.Go(func() {
			for i := range 500 {
				key := fmt.Sprint((g + i) % 5)
				c.ExpectCreations(key, 1)
				tr.ExpectDeletions(key, i)
				v.ExpectVersion(key, uint64(i))
				c.SatisfiedExpectations(key)
				tr.SatisfiedExpectations(key)
				v.SatisfiedExpectations(key)
				v.VersionObserved(uint64(i / 2))
				c.CreationObserved(key)
				tr.DeletionObserved(key, i)
				c.Expires(key)
				c.DeleteExpectations(key)
				tr.DeleteExpectations(key)
				v.DeleteExpectations(key)
			}
		})
	}
	wg.Wait()
	require.NoError(t, c.CheckInvariants())
	require.NoError(t, tr.CheckInvariants())
	require.NoError(t, v.CheckInvariants())
}

// Observations between Begin and End count until the next call of either.
func TestBeginAndEndDiscardObservations(t *testing.T) {
	tr := expectations.NewTracked[string, int](expectations.Config[string]{})
	tr.Begin("a")
	tr.CreationObserved("a", 1)
	tr.Begin("a")
	tr.ExpectCreations("a", 1)
	tr.CreationObserved("a", 2)
	tr.End("a")
	require.False(t, tr.SatisfiedExpectations("a"))
	tr.ExpectCreations("a", 2) // another object under the same name
	tr.CreationObserved("a", 1)
	require.False(t, tr.SatisfiedExpectations("a"), "the first object is mistaken for the second")
}

func TestSettledKeyIsNotKeptAlive(t *testing.T) {
	v := expectations.NewVersions(expectations.Config[*[64]byte]{})
	waits, deleted := new([64]byte), new([64]byte)
	v.ExpectVersion(waits, 1)
	v.ExpectVersion(deleted, 2)
	v.DeleteExpectations(deleted)
	collected := weak.Make(deleted)
	deleted = nil
	runtime.GC()
	require.Nil(t, collected.Value())
	require.False(t, v.SatisfiedExpectations(waits))
}

func TestNameAndNotifyDoNotReportExpiredKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var expired []string
		c := expectations.NewCounted(expectations.Config[string]{Name: "pods", OnExpired: func(key string) { expired = append(expired, key) }})
		c.ExpectCreations("a", 1)
		time.Sleep(time.Hour)
		require.Equal(t, "pods", c.Name())
		require.Equal(t, "a", expectations.NewTracked[string, int](expectations.Config[string]{Name: "a"}).Name())
		require.Equal(t, "b", expectations.NewVersions(expectations.Config[string]{Name: "b"}).Name())
		c.Notify(func(string) {})()
		require.Empty(t, expired, "they are about no key")
		c.DeleteExpectations("b")
		require.Equal(t, []string{"a"}, expired)
		require.Panics(t, func() { c.Notify(nil) })
	})
}
