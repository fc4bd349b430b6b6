package workqueue_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/workqueue"
)

func TestConfigErrorsNameTheField(t *testing.T) {
	type config = workqueue.Config[string]
	for want, cfg := range map[string]config{
		"Config.MaxAttempts is -1, must not be negative":                                                {MaxAttempts: -1},
		"Config.MaxElapsed is -1ns, must not be negative":                                               {MaxElapsed: -1},
		"Config.GroupLimit is -1, must not be negative":                                                 {GroupLimit: -1, Group: byLetter},
		"Config.GroupLimit is set without Config.Group":                                                 {GroupLimit: 1},
		"Config.Debounce is -1s, must not be negative":                                                  {Debounce: -time.Second},
		"Config.DebounceLimit is -1ns, must not be negative":                                            {DebounceLimit: -1, Debounce: 1},
		"Config.DebounceLimit is set without Config.Debounce":                                           {DebounceLimit: 1},
		"Config.DebounceLimit is 1s, less than Config.Debounce, which is 2s":                            {DebounceLimit: time.Second, Debounce: 2 * time.Second},
		"Config.MaxAttempts is -3, must not be negative; Config.GroupLimit is set without Config.Group": {MaxAttempts: -3, GroupLimit: 1},
	} {
		q, err := workqueue.New(cfg)
		require.EqualError(t, err, "workqueue: new queue: "+want)
		require.Nil(t, q, want)
	}
}

func TestConfigAtItsBoundsIsAccepted(t *testing.T) {
	for what, cfg := range map[string]workqueue.Config[string]{
		"zero":                     {},
		"no aging":                 {Aging: -1},
		"a limit for groups":       {Group: byLetter, GroupLimit: 1},
		"groups without a limit":   {Group: byLetter},
		"debounce without a limit": {Debounce: 1},
		"debounce and limit equal": {Debounce: 2, DebounceLimit: 2},
		"the longest debounce":     {Debounce: 1<<63 - 1},
		"one attempt, one instant": {MaxAttempts: 1, MaxElapsed: 1},
	} {
		_, err := workqueue.New(cfg)
		require.NoError(t, err, what)
	}
}

func TestLimiterConstructorsPanicOnInvalidArguments(t *testing.T) {
	limiter := workqueue.DefaultControllerRateLimiter[string]()
	for want, call := range map[string]func(){
		"NewItemExponentialFailureRateLimiter: the delay -1ns is negative": func() {
			workqueue.NewItemExponentialFailureRateLimiter[string](-1, -5)
		},
		"NewItemExponentialFailureRateLimiter: the delay -5ns is negative": func() {
			workqueue.NewItemExponentialFailureRateLimiter[string](1, -5)
		},
		"NewItemJitteredRateLimiter: the delay -1ns is negative": func() {
			workqueue.NewItemJitteredRateLimiter[string](-1, 5, nil)
		},
		"NewItemJitteredRateLimiter: the delay -5ns is negative": func() {
			workqueue.NewItemJitteredRateLimiter[string](1, -5, nil)
		},
		"NewItemFastSlowRateLimiter: the delay -1ns is negative": func() {
			workqueue.NewItemFastSlowRateLimiter[string](-1, 5, 1)
		},
		"NewItemFastSlowRateLimiter: the delay -5ns is negative": func() {
			workqueue.NewItemFastSlowRateLimiter[string](1, -5, 1)
		},
		"NewItemFastSlowRateLimiter: maxAttempts is -2, must not be negative": func() {
			workqueue.NewItemFastSlowRateLimiter[string](1, 5, -2)
		},
		"NewWithMaxWaitRateLimiter: the delay -1s is negative": func() {
			workqueue.NewWithMaxWaitRateLimiter(limiter, -time.Second)
		},
		"NewWithMaxWaitRateLimiter: the limiter is nil": func() {
			workqueue.NewWithMaxWaitRateLimiter[string](nil, 1)
		},
		"NewMaxOfRateLimiter: there is no limiter, or one is nil": func() {
			workqueue.NewMaxOfRateLimiter(limiter, nil)
		},
	} {
		require.PanicsWithValue(t, "workqueue: "+want, call)
	}
	require.Panics(t, func() { workqueue.NewMaxOfRateLimiter[string]() })
}
