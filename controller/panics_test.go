package controller_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/wait"
)

// brokenBook is an expectation that panics in the nth call of Expires, and in the calls after it, until it is mended.
type brokenBook struct {
	n      int
	calls  int
	mended atomic.Bool
}

func (b *brokenBook) Expires(string) (time.Time, bool) {
	if b.calls++; b.calls >= b.n && !b.mended.Load() {
		panic("no page")
	}
	return time.Time{}, !b.mended.Load()
}

func (*brokenBook) Notify(func(string)) (stop func()) { return func() {} }

func TestPanicOfUserCodeBeforeReconcileIsReconcilePanic(t *testing.T) {
	var book *brokenBook
	for name, cfg := range map[string]func() controller.Config[string]{
		"Expires": func() controller.Config[string] {
			book = &brokenBook{n: 1}
			return controller.Config[string]{Expectations: []controller.Expectations[string]{book}}
		},
		"second Expires": func() controller.Config[string] {
			book = &brokenBook{n: 2}
			return controller.Config[string]{Expectations: []controller.Expectations[string]{book}}
		},
		"Trace": func() (cfg controller.Config[string]) {
			book = &brokenBook{}
			cfg.Hooks.Trace = func(ctx context.Context, _ string, causes []string) (context.Context, func(controller.Report[string])) {
				assert.Equal(t, []string{"cause"}, causes, "also after the panic")
				if !book.mended.Load() {
					panic("no page")
				}
				return ctx, nil
			}
			return cfg
		},
	} {
		bubble(t, name, func(t *testing.T) {
			reconciles := 0
			c, reports := newController(t, cfg(), func(context.Context, string) (controller.Result, error) {
				reconciles++
				return controller.Result{}, nil
			})
			looptest.Start(t, c.Run)
			c.AddWith("a", controller.AddOptions{Trace: "cause"})
			synctest.Wait()
			all := reports.Take()
			require.Len(t, all, 1)
			assert.Equal(t, controller.Panicked, all[0].Outcome)
			var p *wait.PanicError
			require.ErrorAs(t, all[0].Err, &p)
			assert.Equal(t, "no page", p.Value)
			assert.Contains(t, string(p.Stack), "panics_test.go")
			assert.EqualValues(t, 1, c.Stats().Panics)
			assert.Zero(t, reconciles)
			book.mended.Store(true)
			time.Sleep(time.Minute)
			all = reports.Take()
			require.Len(t, all, 1)
			assert.Equal(t, controller.Succeeded, all[0].Outcome)
			assert.Equal(t, 2, all[0].Attempt)
			assert.Zero(t, c.Stats().Held)
			c.CheckInvariants(t)
		})
	}
}

// A replica does not retry a key of another one, whatever its own expectations do.
func TestPanicOfExpectationsLeavesKeyToItsOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, reports := newController(t, controller.Config[string]{Expectations: []controller.Expectations[string]{&brokenBook{n: 1}}}, noop)
		c.Share(noSlots{})
		looptest.Start(t, c.Run)
		c.Add("a")
		time.Sleep(time.Hour)
		assert.Empty(t, reports.Take())
		assert.Zero(t, c.Stats().Queue.Delayed)
	})
}

func TestPanicOfHookAfterReconcileIsLogged(t *testing.T) {
	for _, hook := range []string{"Hooks.Reconciled", "the function that Hooks.Trace returned"} {
		bubble(t, hook, func(t *testing.T) {
			var out looptest.Text
			cfg := controller.Config[string]{Logger: looptest.Logger(&out)}
			told := 0
			panics := func(r controller.Report[string]) {
				told++
				panic(errors.New("no dashboard"))
			}
			if hook == "Hooks.Reconciled" {
				cfg.Hooks.Reconciled = panics
			} else {
				cfg.Hooks.Trace = func(ctx context.Context, _ string, _ []string) (context.Context, func(controller.Report[string])) {
					return ctx, panics
				}
			}
			c, err := controller.New("test", noop, cfg)
			require.NoError(t, err)
			looptest.Start(t, c.Run)
			require.NoError(t, c.WaitReconciled(t.Context(), "a"), "it has succeeded")
			require.NoError(t, c.WaitReconciled(t.Context(), "a"), "and the worker still works")
			assert.Equal(t, 2, told)
			assert.Contains(t, out.String(), `msg="a hook panicked"`)
			assert.Contains(t, out.String(), hook)
			assert.Contains(t, out.String(), "panics_test.go", "the stack")
			assert.EqualValues(t, 2, c.Stats().Outcomes[controller.Succeeded])
			assert.Zero(t, c.Stats().Panics)
			c.CheckInvariants(t)
		})
	}
}

// brokenNotify is an expectation that panics in Notify.
type brokenNotify struct{}

func (brokenNotify) Expires(string) (at time.Time, waiting bool) { return at, false }
func (brokenNotify) Notify(func(key string)) (stop func())       { panic(errBoom) }

// A manager recovers the panic, and may call Run again.
func TestPanicOfRunLeavesNothingBehind(t *testing.T) {
	for name, broken := range map[string]func(inf *informer.Informer[string, object]) *controller.Controller[string]{
		"Notify": func(inf *informer.Informer[string, object]) *controller.Controller[string] {
			return must(controller.New("test", noop, controller.Config[string]{
				Logger: quiet, Expectations: []controller.Expectations[string]{brokenNotify{}},
			}, controller.For(inf)))
		},
		"a handler": func(inf *informer.Informer[string, object]) *controller.Controller[string] {
			return must(controller.New("test", noop, controller.Config[string]{Logger: quiet}, controller.For(inf),
				controller.Handles(inf, func(func(string)) informer.Handler[string, object] { panic(errBoom) })))
		},
	} {
		bubble(t, name, func(t *testing.T) {
			inf := newInformer("things", newSource(object{Key: "a"}))
			looptest.Start(t, inf.Run)
			c := broken(inf)
			for range 2 {
				assert.PanicsWithValue(t, errBoom, func() { _ = c.Run(t.Context()) })
				synctest.Wait()
				assert.Zero(t, inf.Stats().Handlers)
				assert.False(t, c.Stats().Running)
			}
		})
	}
}
