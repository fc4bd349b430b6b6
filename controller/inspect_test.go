package controller_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/expectations"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/workqueue"
)

// described returns what an Inspector says, by the text of the key. It checks that Key says the same.
func described(t *testing.T, in controller.Inspector) map[string]controller.KeyInfo {
	all := make(map[string]controller.KeyInfo)
	for k := range in.Keys() {
		assert.NotContains(t, all, k.Key, "each key comes once")
		all[k.Key] = k
		one, ok := in.Key(k.Key)
		assert.True(t, ok)
		assert.Equal(t, k, one)
	}
	return all
}

func TestInspectorReportsWhatHoldsEachKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := expectations.NewCounted(expectations.Config[string]{Name: "pods", TTL: time.Minute})
		release := make(chan struct{})
		c, err := controller.New("test", func(ctx context.Context, key string) (controller.Result, error) {
			switch key {
			case "busy":
				<-release
			case "parked":
				return controller.Result{}, retry.Permanent(errors.New("no"))
			case "failed":
				return controller.Result{}, errors.New("not now")
			case "later":
				return controller.Result{RequeueAfter: time.Hour}, nil
			case "fenced":
				return controller.Result{}, fenced(true)
			}
			return controller.Result{}, nil
		}, controller.Config[string]{Workers: 2, Logger: quiet, Expectations: []controller.Expectations[string]{seen}})
		require.NoError(t, err)
		in := c.Inspect()
		require.Empty(t, described(t, in))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- c.Run(ctx) }()
		c.PauseKey("paused")
		c.PauseKey("due")
		seen.ExpectCreations("waits", 1)
		for _, key := range []string{"parked", "failed", "later", "due", "waits", "done", "fenced"} {
			c.Add(key)
		}
		synctest.Wait()
		c.Add("busy")
		synctest.Wait()
		c.Add("busy")

		all := described(t, in)
		assert.Equal(t, []string{"busy", "due", "failed", "fenced", "later", "parked", "paused", "waits"}, slices.Sorted(maps.Keys(all)))
		for key, want := range map[string]struct {
			state  workqueue.State
			heldBy string
		}{
			"busy": {workqueue.InProcess, ""}, "parked": {workqueue.Parked, ""}, "failed": {workqueue.Delayed, ""},
			"later": {workqueue.Delayed, ""}, "due": {0, "pause"}, "paused": {0, ""}, "waits": {0, "expectations pods"},
			"fenced": {workqueue.Delayed, "next run"},
		} {
			assert.Equal(t, want.state, all[key].State, key)
			assert.Equal(t, want.heldBy, all[key].HeldBy, key)
			assert.Equal(t, key == "paused" || key == "due", all[key].Paused, key)
		}
		assert.True(t, all["busy"].Dirty)
		assert.Equal(t, 1, all["busy"].Attempt)
		assert.Equal(t, 1, all["failed"].Failures)
		assert.Equal(t, "not now", all["failed"].Reasons[0].Text)
		assert.Equal(t, time.Now().Add(time.Hour), all["later"].Next)
		assert.Equal(t, time.Now().Add(time.Minute), all["waits"].HeldUntil)
		assert.Zero(t, all["fenced"].Next)
		idle, ok := in.Key("done")
		assert.True(t, ok)
		assert.Equal(t, controller.KeyInfo{KeyInfo: workqueue.KeyInfo[string]{Key: "done"}}, idle)

		assert.Contains(t, string(in.Stack("busy")), "TestInspectorReportsWhatHoldsEachKey")
		assert.Nil(t, in.Stack("later"))

		close(release)
		cancel()
		require.NoError(t, <-ended)
		assert.Empty(t, in.Stack("busy"))
		assert.Zero(t, in.Resync(), "between Runs")
	})
}

func TestInspectorReportsSinceWhenKeyIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := expectations.NewCounted(expectations.Config[string]{Name: "pods", TTL: time.Hour})
		never := expectations.NewCounted(expectations.Config[string]{Name: "disks", TTL: -1})
		c, err := controller.New("test", func(_ context.Context, key string) (controller.Result, error) {
			switch key {
			case "later":
				return controller.Result{RequeueAfter: time.Hour}, nil
			case "fenced":
				return controller.Result{}, fenced(true)
			case "busy":
				time.Sleep(time.Hour)
			}
			return controller.Result{}, nil
		}, controller.Config[string]{Workers: 2, Logger: quiet, Expectations: []controller.Expectations[string]{seen, never}})
		require.NoError(t, err)
		in := c.Inspect()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- c.Run(ctx) }()
		began := time.Now()
		check := func(key, heldBy string, since, paused time.Duration) {
			t.Helper()
			k := described(t, in)[key]
			assert.Equal(t, heldBy, k.HeldBy, key)
			assert.Equal(t, since, k.Since.Sub(began), key)
			assert.Equal(t, paused < 0, k.PausedSince.IsZero(), key)
			if paused >= 0 {
				assert.Equal(t, paused, k.PausedSince.Sub(began), key)
			}
		}
		add := func(keys ...string) {
			for _, key := range keys {
				c.Add(key)
			}
			synctest.Wait()
		}

		seen.ExpectCreations("waits", 1)
		never.ExpectCreations("stays", 1)
		c.PauseKey("paused")
		c.PauseKey("due")
		add("waits", "stays", "later", "fenced", "busy")
		time.Sleep(time.Minute)
		add("waits", "stays", "due")
		c.PauseKey("later")
		c.PauseKey("busy")
		c.PauseKey("due") // again
		time.Sleep(time.Minute)
		add("due", "waits")
		check("waits", "expectations pods", 0, -1)
		check("stays", "expectations disks", 0, -1)
		check("fenced", "next run", 0, -1)
		check("paused", "", 0, 0)
		check("due", "pause", time.Minute, 0)
		check("later", "", 0, time.Minute)
		check("busy", "", 0, time.Minute)
		held := c.Stats().OldestHeld
		assert.Equal(t, map[string]time.Duration{
			"pause": time.Minute, "drain": 0, "expectations pods": 2 * time.Minute, "expectations disks": 2 * time.Minute,
		}, held)

		never.ExpectCreations("waits", 1) // now it waits for both, and the last one counts
		add("waits")
		check("waits", "expectations disks", 2*time.Minute, -1)
		seen.CreationObserved("waits")
		never.CreationObserved("waits")
		never.CreationObserved("stays")
		c.ResumeKey("due")
		c.ResumeKey("paused")
		synctest.Wait()
		all := described(t, in)
		for _, key := range []string{"waits", "stays", "due", "paused"} {
			assert.NotContains(t, all, key)
		}
		seen.ExpectCreations("stays", 1) // a new hold
		time.Sleep(time.Minute)
		add("stays")
		check("stays", "expectations pods", 3*time.Minute, -1)
		time.Sleep(time.Second)
		assert.Equal(t, map[string]time.Duration{
			"pause": 0, "drain": 0, "expectations pods": time.Second, "expectations disks": 0,
		}, c.Stats().OldestHeld)

		c.Pause()
		add("stays")
		check("stays", "expectations pods", 3*time.Minute+time.Second, -1) // ready since then
		c.Resume()
		synctest.Wait()
		check("stays", "expectations pods", 3*time.Minute, -1) // and held again

		cancel() // and busy keeps it from ending
		time.Sleep(time.Second)
		add("drained")
		time.Sleep(time.Second)
		add("drained")
		check("drained", "drain", 3*time.Minute+2*time.Second, -1)
		assert.Equal(t, 2*time.Second, c.Stats().OldestHeld["drain"], "those that were scheduled")
		require.NoError(t, <-ended)
		assert.Zero(t, c.Stats().OldestHeld["drain"])
	})
}

func TestInspectorForgetsFailuresAndKeepsRequeues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := controller.Config[string]{Queue: workqueue.Config[string]{RateLimiter: &limiter{delay: time.Minute}}}
		c, reports := newController(t, cfg, func(_ context.Context, key string) (controller.Result, error) {
			switch key {
			case "parked":
				return controller.Result{}, retry.Permanent(errBoom)
			case "failed":
				return controller.Result{}, errBoom
			}
			return controller.Result{RequeueAfter: time.Minute}, nil
		})
		looptest.Start(t, c.Run)
		c.PauseKey("held")
		for _, key := range []string{"parked", "failed", "later", "held"} {
			c.Add(key)
		}
		synctest.Wait()
		require.Len(t, reports.Take(), 3)
		in := c.Inspect()
		for _, key := range []string{"parked", "failed", "later"} {
			assert.True(t, in.Forget(key))
		}
		assert.Empty(t, c.Parked())
		for _, k := range c.Snapshot() {
			assert.Equal(t, "later", k.Key, "a held key is not in the queue")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, []string{"later"}, keysOf(reports.Take()))
		assert.True(t, in.Retry("failed"))
		synctest.Wait()
		assert.Equal(t, 1, reports.Take()[0].Attempt)
	})
}

func TestInspectorFindsKeysOfAnyTypeByText(t *testing.T) {
	type name string
	type pair struct{ A, B int }
	check := func(in controller.Inspector, known bool, texts ...string) {
		for _, text := range texts {
			_, ok := in.Key(text)
			assert.Equal(t, known, ok, text)
			assert.Equal(t, known, in.PauseKey(text), text)
			assert.Equal(t, known, in.ResumeKey(text), text)
			assert.Equal(t, known, in.Forget(text), text)
		}
	}
	check(inspect[string](t), true, "a", "", "\xff")
	check(inspect[name](t), true, "a", "")
	check(inspect[int8](t), true, "-128", "0", "127")
	check(inspect[int8](t), false, "128", "a", "", "+1", "01")
	check(inspect[uint16](t), true, "0", "65535")
	check(inspect[uint16](t), false, "65536", "-1")
	check(inspect(t, pair{1, 2}), true, "{1 2}")
	check(inspect(t, pair{1, 2}), false, "{2 1}", "1 2")
	check(inspect[pair](t), false, "{0 0}")
	check(inspect(t, 1.5), true, "1.5")
	check(inspect(t, 1.5), false, "0")
	check(inspect[*pair](t), false, "<nil>")
	check(inspect[shouted](t, "a"), true, "A!")
	check(inspect[shouted](t, "a"), false, "a", "A")
}

// shouted is a string with another text.
type shouted string

func (s shouted) String() string { return "A!" }

func inspect[K comparable](t *testing.T, keys ...K) controller.Inspector {
	c, err := controller.New("test", func(context.Context, K) (controller.Result, error) {
		return controller.Result{}, nil
	}, controller.Config[K]{Logger: quiet})
	require.NoError(t, err)
	for _, key := range keys {
		c.Add(key)
	}
	return c.Inspect()
}
