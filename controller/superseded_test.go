package controller_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOnlyNewEventsCancelReconcile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(object{Key: "a"}, object{Key: "b"})
		inf := must(informer.New(s, keyOf, informer.Config{ResyncPeriod: time.Hour}))
		looptest.Start(t, inf.Run)
		n := 0
		var ended []time.Duration
		began := time.Now()
		c, _ := newController(t, controller.Config[string]{CancelSuperseded: true}, func(ctx context.Context, key string) (controller.Result, error) {
			if key == "a" {
				if n++; n == 1 {
					<-ctx.Done()
					ended = append(ended, time.Since(began))
				}
			}
			return controller.Result{}, ctx.Err()
		}, controller.For(inf))
		looptest.Start(t, c.Run)
		time.Sleep(90 * time.Minute)
		assert.Empty(t, ended, "a resync does not cancel it")
		s.set(object{Key: "b", Value: 1})
		synctest.Wait()
		assert.Empty(t, ended, "another key does not")
		s.set(object{Key: "a", Value: 1})
		synctest.Wait()
		assert.Equal(t, []time.Duration{90 * time.Minute}, ended)
		assert.Equal(t, 2, n)
	})
}

func TestAddDoesNotCancelReconcileByDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, reports := newController(t, controller.Config[string]{}, slow)
		looptest.Start(t, c.Run)
		c.Add("a")
		synctest.Wait()
		c.Add("a")
		time.Sleep(time.Minute)
		for _, r := range reports.Take() {
			assert.Equal(t, controller.Succeeded, r.Outcome)
			assert.Equal(t, time.Second, r.Duration)
		}
	})
}

func TestBusyKeyIsEventuallyReconciled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, reports := newController(t, controller.Config[string]{CancelSuperseded: true}, slow)
		looptest.Start(t, c.Run)
		for range 30 {
			c.Add("a")
			time.Sleep(300 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		superseded := []int{0}
		for _, r := range reports.Take() {
			if r.Outcome == controller.Succeeded {
				superseded = append(superseded, 0)
			} else {
				require.Equal(t, controller.Superseded, r.Outcome)
				superseded[len(superseded)-1]++
			}
		}
		assert.Equal(t, []int{8, 8, 7, 0}, superseded, "30 events, the last of which is final")
		c.CheckInvariants(t)
	})
}

func TestAddDuringDrainSupersedesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, reports := newController(t, controller.Config[string]{CancelSuperseded: true}, slow)
		r := looptest.Start(t, c.Run)
		c.Add("a")
		synctest.Wait()
		r.Cancel()
		synctest.Wait()
		c.Add("a")
		require.NoError(t, r.Stop())
		assert.Equal(t, controller.Succeeded, reports.Take()[0].Outcome, "work in flight is finished")
		assert.Equal(t, 1, c.Stats().Queue.Ready, "added keys are left to the next run")
		c.CheckInvariants(t)
	})
}

// An Add that is held up until its key was handed out must not cancel the reconcile that it has caused. Nothing else would repeat it.
func TestLateAddDoesNotCancelItsOwnReconcile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := controller.Config[string]{CancelSuperseded: true}
		cfg.Queue.Hooks.Added = func(string) { time.Sleep(time.Millisecond) } // the worker is faster
		c, reports := newController(t, cfg, slow)
		looptest.Start(t, c.Run)
		c.Add("a")
		assert.Equal(t, 1, c.Stats().Queue.InProcess)
		time.Sleep(time.Minute)
		all := reports.Take()
		require.Len(t, all, 1)
		assert.Equal(t, controller.Succeeded, all[0].Outcome)
	})
}
