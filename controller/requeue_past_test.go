package controller_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/expectations"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/retry"
)

// This is the usual way to use package expectations. The key's expiry has passed when the reconcile returns.
func TestKeyComesBackIfExpectationsExpireDuringReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exp := must(expectations.NewCounted(expectations.Config[string]{TTL: time.Minute, OnExpired: func(string) {}}))
		c, reports := newController(t, controller.Config[string]{}, func(_ context.Context, key string) (controller.Result, error) {
			if at, waiting := exp.Expires(key); waiting {
				time.Sleep(time.Until(at) + time.Millisecond)
				return controller.Result{}, retry.NotYet(errBoom, time.Until(at))
			}
			return controller.Result{}, nil
		})
		looptest.Start(t, c.Run)
		exp.ExpectCreations("a", 1)
		c.Add("a")
		time.Sleep(time.Hour)
		assert.Len(t, reports.Take(), 2, "the awaited event was lost, so nothing else adds the key")
	})
}

// The requested time has passed when the reconcile returns.
func TestKeyRequeuedForPastTimeComesBackImmediately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := time.Now().Add(time.Second)
		c, reports := newController(t, controller.Config[string]{}, func(context.Context, string) (controller.Result, error) {
			if time.Now().After(at) {
				return controller.Result{}, nil
			}
			time.Sleep(time.Until(at) + time.Millisecond)
			return controller.Result{RequeueAfter: time.Until(at)}, nil
		})
		looptest.Start(t, c.Run)
		c.Add("a")
		time.Sleep(2 * time.Second)
		assert.Len(t, reports.Take(), 2)
	})
}
