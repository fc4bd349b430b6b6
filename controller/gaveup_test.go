package controller_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/retry"
	"github.com/stretchr/testify/assert"
)

func TestParkedKeyIsListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fixed bool
		c, reports := newController(t, controller.Config[string]{}, func(context.Context, string) (controller.Result, error) {
			if fixed {
				return controller.Result{}, nil
			}
			return controller.Result{}, retry.Permanent(errBoom)
		})
		r := looptest.Start(t, c.Run)
		for _, key := range []string{"b", "a", "c", "d"} {
			c.Add(key)
			synctest.Wait()
		}
		assert.Equal(t, []string{"b", "a", "c", "d"}, c.Parked(), "the earliest parked first")
		c.Add("b")
		synctest.Wait()
		assert.Equal(t, []string{"a", "c", "d", "b"}, c.Parked(), "given up again")
		_ = r.Stop()
		reports.Take()
		fixed = true
		looptest.Start(t, c.Run)
		synctest.Wait()
		assert.Empty(t, reports.Take(), "a run does not revive them")
		c.Add("a")
		assert.True(t, c.Drop("c"))
		assert.False(t, c.Drop("c"))
		c.Add("d")
		synctest.Wait()
		assert.Equal(t, []string{"a", "d"}, keysOf(reports.Take()))
		assert.Equal(t, []string{"b"}, c.Parked())
	})
}
