package controller_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/expectations"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/workqueue"
)

// spanKey is the key of the span in a context.
type spanKey struct{}

// tracer notes the spans of reconciles: "a 1: x y, Succeeded" is the first attempt of a, with the causes x and y.
type tracer struct{ looptest.Log[string] }

func (tr *tracer) hook(ctx context.Context, key string, causes []string) (context.Context, func(controller.Report[string])) {
	info, ok := controller.FromContext(ctx)
	if !ok || info.Key != key {
		panic("the context of the hook is not that of a reconcile")
	}
	span := fmt.Sprintf("%s %d: %s", key, info.Attempt, strings.Join(causes, " "))
	return context.WithValue(ctx, spanKey{}, span), func(r controller.Report[string]) { tr.Add(fmt.Sprint(span, ", ", r.Outcome)) }
}

// traced returns a Config with the hook.
func traced() (*tracer, controller.Config[string]) {
	tr := &tracer{}
	return tr, controller.Config[string]{Hooks: controller.Hooks[string]{Trace: tr.hook}}
}

func by(trace string) controller.AddOptions { return controller.AddOptions{Trace: trace} }

func TestReconcileHasTraceContextsOfMergedAdds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, cfg := traced()
		var during func()
		c, _ := newController(t, cfg, func(ctx context.Context, key string) (controller.Result, error) {
			assert.NotNil(t, ctx.Value(spanKey{}))
			if during != nil {
				during()
			}
			return controller.Result{RequeueAfter: time.Minute}, nil
		})
		c.AddWith("a", by("x"))
		c.AddWith("a", by("y"))
		c.AddWith("a", by("x"))
		c.Add("a")
		c.Add("b")
		looptest.Start(t, c.Run)
		synctest.Wait()
		assert.ElementsMatch(t, []string{"a 1: x y, Succeeded", "b 1: , Succeeded"}, tr.Take())
		during = func() {
			during = nil
			c.AddWith("a", by("w"))
		}
		c.AddWith("a", by("z"))
		synctest.Wait()
		assert.Equal(t, []string{"a 1: z, Succeeded", "a 1: w, Succeeded"}, tr.Take(), "a success clears the causes")
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.ElementsMatch(t, []string{"a 1: , Succeeded", "b 1: , Succeeded"}, tr.Take(), "RequeueAfter has no cause")
		assert.Zero(t, c.Causes())
	})
}

func TestFailedReconcilePassesItsCausesOn(t *testing.T) {
	for name, err := range map[string]error{
		"Failed": errBoom, "Unfinished": retry.NotYet(errBoom, time.Second), "Panicked": nil, "TimedOut": nil, "Superseded": nil,
	} {
		bubble(t, name, func(t *testing.T) {
			tr, cfg := traced()
			cfg.Timeout, cfg.CancelSuperseded = time.Hour, true
			calls := 0
			c, _ := newController(t, cfg, func(ctx context.Context, _ string) (controller.Result, error) {
				if calls++; calls > 1 {
					return controller.Result{}, nil
				}
				switch name {
				case "Panicked":
					panic("boom")
				case "TimedOut", "Superseded":
					<-ctx.Done()
					return controller.Result{}, ctx.Err()
				}
				return controller.Result{}, err
			})
			looptest.Start(t, c.Run)
			c.AddWith("a", by("x"))
			synctest.Wait()
			if name == "Superseded" {
				c.AddWith("a", by("y"))
			}
			time.Sleep(2 * time.Hour)
			synctest.Wait()
			want := map[string]string{
				"Failed": "a 2: x", "Unfinished": "a 1: x", "Panicked": "a 2: x", "TimedOut": "a 2: x", "Superseded": "a 1: x y",
			}[name]
			assert.Equal(t, []string{"a 1: x, " + name, want + ", Succeeded"}, tr.Take())
			assert.Zero(t, c.Causes())
		})
	}
}

func TestParkedKeyHasNoCausesUntilRevived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, cfg := traced()
		var said []any
		cfg.GaveUp = func(ctx context.Context, _ string, err error) error {
			said = append(said, ctx.Value(spanKey{}))
			info, ok := controller.FromContext(ctx)
			assert.True(t, ok)
			assert.Equal(t, "a", info.Key)
			_, limited := ctx.Deadline()
			assert.True(t, limited)
			assert.NoError(t, context.Cause(ctx), "the context of the reconcile has ended, but not this one")
			return nil
		}
		cfg.Timeout = time.Second
		c, _ := newController(t, cfg, func(ctx context.Context, _ string) (controller.Result, error) {
			<-ctx.Done()
			return controller.Result{}, retry.Permanent(errBoom)
		})
		looptest.Start(t, c.Run)
		c.AddWith("a", by("x"))
		time.Sleep(time.Minute)
		assert.Zero(t, c.Causes())
		c.AddWith("a", by("y"))
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"a 1: x, Parked", "a 1: y, Parked"}, tr.Take())
		assert.Equal(t, []any{"a 1: x", "a 1: y"}, said)
		assert.Equal(t, []string{"a"}, c.Parked())
	})
}

func TestGaveUpContextEndsWithCauseOfStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, cfg := traced()
		cfg.CancelSuperseded = true // so the context of the reconcile has ended, with another cause, when GaveUp begins
		var cause error
		cfg.GaveUp = func(ctx context.Context, _ string, _ error) error {
			assert.NoError(t, ctx.Err())
			<-ctx.Done()
			cause = context.Cause(ctx)
			return cause
		}
		c, _ := newController(t, cfg, func(context.Context, string) (controller.Result, error) {
			return controller.Result{}, retry.Permanent(errBoom)
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = c.Run(ctx) // whether a key is left is not the subject
		}()
		c.Add("a")
		synctest.Wait()
		cancel()
		<-ended
		assert.ErrorIs(t, cause, controller.ErrDrainTimeout)
	})
}

func TestGoexitEndsSpan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, cfg := traced()
		calls := 0
		c, _ := newController(t, cfg, func(context.Context, string) (controller.Result, error) {
			if calls++; calls == 1 {
				runtime.Goexit()
			}
			return controller.Result{}, nil
		})
		looptest.Start(t, c.Run)
		c.AddWith("a", by("x"))
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"a 1: x, Panicked", "a 2: x, Succeeded"}, tr.Take())
	})
}

func TestHeldKeyKeepsItsCauses(t *testing.T) {
	bubble(t, "paused", func(t *testing.T) {
		tr, cfg := traced()
		c, _ := newController(t, cfg, noop)
		looptest.Start(t, c.Run)
		c.PauseKey("a")
		c.AddWith("a", by("x"))
		time.Sleep(time.Minute)
		c.AddWith("a", by("y"))
		synctest.Wait()
		assert.Empty(t, tr.Take())
		c.ResumeKey("a")
		synctest.Wait()
		assert.Equal(t, []string{"a 1: x y, Succeeded"}, tr.Take())
	})
	bubble(t, "expecting", func(t *testing.T) {
		tr, cfg := traced()
		expected := expectations.NewCounted(expectations.Config[string]{})
		cfg.Expectations = []controller.Expectations[string]{expected}
		c, _ := newController(t, cfg, noop)
		looptest.Start(t, c.Run)
		synctest.Wait()
		expected.ExpectCreations("a", 1)
		c.AddWith("a", by("x"))
		synctest.Wait()
		assert.Empty(t, tr.Take())
		expected.CreationObserved("a")
		synctest.Wait()
		assert.Equal(t, []string{"a 1: x, Succeeded"}, tr.Take())
	})
	bubble(t, "left to the next Run", func(t *testing.T) {
		tr, cfg := traced()
		hang := make(chan struct{})
		c, _ := newController(t, cfg, func(_ context.Context, key string) (controller.Result, error) {
			if key == "slow" {
				<-hang
			}
			return controller.Result{}, nil
		})
		r := looptest.Start(t, c.Run)
		c.Add("slow")
		synctest.Wait()
		r.Cancel()
		synctest.Wait()
		c.AddWith("a", by("x"))
		close(hang)
		require.NoError(t, r.Stop())
		tr.Take()
		looptest.Start(t, c.Run)
		synctest.Wait()
		assert.Equal(t, []string{"a 1: x, Succeeded"}, tr.Take())
	})
}

func TestForeignKeyDropsItsCauses(t *testing.T) {
	tr, cfg := traced()
	c, _ := newController(t, cfg, noop)
	c.Share(noSlots{})
	c.AddWith("a", by("x"))
	_, ok := c.Step(t.Context(), "a")
	assert.False(t, ok)
	assert.Empty(t, tr.Take())
	assert.Zero(t, c.Causes())
}

// noSlots are the slots of a replica that owns none.
type noSlots struct{}

func (noSlots) Slot(string) int { return 0 }
func (noSlots) Begin(context.Context, string) (context.Context, func(), bool) {
	return nil, nil, false
}

func TestTraceContextsAreIgnoredWithoutHook(t *testing.T) {
	c, _ := newController(t, controller.Config[string]{}, noop)
	c.AddWith("a", by("x"))
	assert.Zero(t, c.Causes())
	assert.Equal(t, []string{"a"}, c.Ready())
}

func TestAddWithTraceContextActsLikeAdd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, cfg := traced()
		cfg.Queue = workqueue.Config[string]{Debounce: time.Second}
		c, _ := newController(t, cfg, noop)
		looptest.Start(t, c.Run)
		synctest.Wait()
		c.AddWith("a", by("x"))
		time.Sleep(time.Second - time.Nanosecond)
		synctest.Wait()
		c.AddWith("a", by("y"))
		time.Sleep(time.Second - time.Nanosecond)
		synctest.Wait()
		assert.Empty(t, tr.Take())
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		assert.Equal(t, []string{"a 1: x y, Succeeded"}, tr.Take())
	})
}

func TestTraceHookMayReturnNilEnd(t *testing.T) {
	cfg := controller.Config[string]{}
	cfg.Hooks.Trace = func(ctx context.Context, _ string, _ []string) (context.Context, func(controller.Report[string])) {
		return ctx, nil
	}
	c, reports := newController(t, cfg, func(ctx context.Context, _ string) (controller.Result, error) {
		_, ok := controller.FromContext(ctx)
		assert.True(t, ok)
		return controller.Result{}, nil
	})
	c.Add("a")
	c.Step(t.Context(), "a")
	assert.Len(t, reports.Take(), 1)
}

func TestReconcileHasTraceContextOfItsWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, cfg := traced()
		db := store.NewMemory(store.MemoryConfig{})
		sites, err := store.Open(db, "site", store.Config[int]{Trace: func(ctx context.Context) string {
			trace, _ := ctx.Value(spanKey{}).(string)
			return trace
		}})
		require.NoError(t, err)
		servers, err := store.Open(db, "server", store.Config[int]{})
		require.NoError(t, err)
		seenSites, err := informer.New(sites, store.Key, informer.Config{Name: "sites"})
		require.NoError(t, err)
		seenServers, err := informer.New(servers, store.Key, informer.Config{Name: "servers"})
		require.NoError(t, err)
		under := func(trace string) context.Context { return context.WithValue(t.Context(), spanKey{}, trace) }
		_, err = sites.Create(under("old"), store.Object[int]{Key: "berlin"})
		require.NoError(t, err)
		c, _ := newController(t, cfg, noop, controller.For(seenSites), controller.Owns(seenServers, "site"),
			controller.Watches(seenSites, func(_ context.Context, o store.Object[int]) ([]string, error) {
				return []string{"all"}, nil
			}))
		looptest.Start(t, seenSites.Run)
		looptest.Start(t, seenServers.Run)
		looptest.Start(t, c.Run)
		synctest.Wait()
		assert.ElementsMatch(t, []string{"berlin 1: , Succeeded", "all 1: , Succeeded"}, tr.Take(), "an initial list has no cause")
		_, err = sites.Create(under("x"), store.Object[int]{Key: "oslo"})
		require.NoError(t, err)
		synctest.Wait()
		assert.ElementsMatch(t, []string{"oslo 1: x, Succeeded", "all 1: x, Succeeded"}, tr.Take())
		_, err = sites.Delete(under("y"), "oslo")
		require.NoError(t, err)
		synctest.Wait()
		assert.ElementsMatch(t, []string{"oslo 1: y, Succeeded", "all 1: y, Succeeded"}, tr.Take())
	})
}
