package controller_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/retry"
)

func TestHistoryHasLatestReconcilesOfKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		broken := strings.Repeat("x", 600)
		results := []error{retry.After(errors.New("status 503"), time.Minute), retry.Permanent(errors.New(broken)), nil}
		c, err := controller.New("test", func(_ context.Context, key string) (controller.Result, error) {
			if key != "berlin" {
				return controller.Result{}, nil
			}
			time.Sleep(time.Second)
			err := results[0]
			results = results[1:]
			return controller.Result{}, err
		}, controller.Config[string]{Workers: 1, Logger: quiet})
		require.NoError(t, err)
		in := c.Inspect()
		assert.Empty(t, in.History("berlin"))
		r := looptest.Start(t, c.Run)
		c.Add("berlin")
		time.Sleep(time.Hour)
		c.Add("berlin")
		time.Sleep(time.Minute)
		const s = time.Second
		want := []controller.Ended{
			{At: began.Add(time.Hour + s), Duration: s, Outcome: controller.Succeeded, Attempt: 1},
			{At: began.Add(62 * s), Duration: s, Outcome: controller.Parked, Attempt: 2, Error: broken[:500]},
			{At: began.Add(s), Duration: s, Outcome: controller.Failed, Attempt: 1, Error: "status 503"},
		}
		assert.Equal(t, want, in.History("berlin"))
		assert.Empty(t, in.History("oslo"))
		add := func(n int) {
			for i := range n {
				c.Add(fmt.Sprint(i))
			}
			synctest.Wait()
		}
		add(2045)
		assert.Equal(t, want, in.History("berlin"), "2,048 are remembered, of all keys together")
		add(1)
		assert.Equal(t, want[:2], in.History("berlin"))
		add(2)
		assert.Empty(t, in.History("berlin"))
		assert.Len(t, in.History("0"), 3)
		require.NoError(t, r.Stop())
	})
}
