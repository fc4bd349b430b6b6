package controller_test

import (
	"context"
	"testing"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/stretchr/testify/assert"
)

func TestReconcileAllocatesLittle(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	done := make(chan struct{})
	c, err := controller.New("test", func(ctx context.Context, key string) (controller.Result, error) {
		if info, ok := controller.FromContext(ctx); !ok || info.Key != key {
			t.Error("the context has another key")
		}
		done <- struct{}{}
		return controller.Result{}, nil
	}, controller.Config[string]{Logger: quiet})
	assert.NoError(t, err)
	r := looptest.Start(t, c.Run)
	add := func() {
		c.Add("a")
		<-done
	}
	assert.Zero(t, testing.AllocsPerRun(1000, add), "rounded down: some reconciles share an allocation")
	assert.NoError(t, r.Stop())
}

func TestEachReconcileHasItsOwnContext(t *testing.T) {
	var contexts []context.Context
	c, _ := newController(t, controller.Config[string]{}, func(ctx context.Context, _ string) (controller.Result, error) {
		contexts = append(contexts, ctx)
		return controller.Result{}, nil
	})
	r := looptest.Start(t, c.Run)
	for range 100 {
		assert.NoError(t, c.WaitReconciled(t.Context(), "a"))
	}
	assert.NoError(t, r.Stop())
	for i, ctx := range contexts {
		info, _ := controller.FromContext(ctx)
		assert.EqualValues(t, i+1, info.Reconcile)
	}
}
