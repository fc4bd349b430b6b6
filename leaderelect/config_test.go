package leaderelect_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
)

func valid() leaderelect.Config {
	return leaderelect.Config{
		Store:            memlease.New(),
		Key:              key,
		OnStartedLeading: func(context.Context, *leaderelect.Leadership) error { return nil },
	}
}

func TestConfigErrorsNameTheField(t *testing.T) {
	for want, change := range map[string]func(*leaderelect.Config){
		"Store is required":            func(c *leaderelect.Config) { c.Store = nil },
		"Key is required":              func(c *leaderelect.Config) { c.Key = "" },
		"OnStartedLeading is required": func(c *leaderelect.Config) { c.OnStartedLeading = nil },

		"LeaseDuration is 99ms, must be at least 100ms": func(c *leaderelect.Config) { c.LeaseDuration = 99 * time.Millisecond },
		"RenewDeadline is 15s, must be less than 12.5s, so that LeaseDuration, which is 15s, leaves time for MaxClockRateSkew, which defaults to 0.2, and StepDownTimeout": func(c *leaderelect.Config) {
			c.LeaseDuration, c.RenewDeadline, c.StepDownTimeout = lease, lease, time.Second
		},
		"RenewDeadline is 20s, must be less than 12.5s, so that LeaseDuration, which defaults to 15s, leaves": func(c *leaderelect.Config) { c.RenewDeadline = 20 * time.Second },
		"RenewDeadline is 9.5s, must be less than 8.333333333s, so that LeaseDuration, which is 10s, leaves": func(c *leaderelect.Config) {
			c.LeaseDuration, c.RenewDeadline = 10*time.Second, 9500*time.Millisecond
		},
		"RenewDeadline is 40ms, must be at least 50ms, because RetryPeriod defaults to a fifth of it and must be at least 10ms": func(c *leaderelect.Config) {
			c.RenewDeadline = 40 * time.Millisecond
		},
		"RenewDeadline is 16s, must be less than 15s, so that LeaseDuration, which defaults to 15s, leaves time for MaxClockRateSkew, which is 0, and": func(c *leaderelect.Config) {
			c.MaxClockRateSkew, c.RenewDeadline = -1, 16*time.Second
		},
		"RetryPeriod is 6s, must be at most half of RenewDeadline, which defaults to 10s": func(c *leaderelect.Config) { c.RetryPeriod = 6 * time.Second },
		"RequestTimeout is 12s, must be less than RenewDeadline, which defaults to 10s":   func(c *leaderelect.Config) { c.RequestTimeout = 12 * time.Second },
		"MaxClockRateSkew is 0.6, must be less than 0.5, so that LeaseDuration, which defaults to 15s, leaves time for StepDownTimeout after RenewDeadline, which defaults to 10s": func(c *leaderelect.Config) {
			c.MaxClockRateSkew = 0.6
		},
		"RenewDeadline is -1s, must be positive":                                       func(c *leaderelect.Config) { c.RenewDeadline = -time.Second },
		"RetryPeriod is -1s, must be at least 10ms":                                    func(c *leaderelect.Config) { c.RetryPeriod = -time.Second },
		"RetryPeriod is 1ns, must be at least 10ms":                                    func(c *leaderelect.Config) { c.RetryPeriod = 1 },
		"LeaseDuration is 876000h0m0s, must be at most 24h":                            func(c *leaderelect.Config) { c.LeaseDuration = 876_000 * time.Hour },
		"RetryPeriod is 2s, must be at most half of RenewDeadline, which is 3":         func(c *leaderelect.Config) { c.RenewDeadline, c.RetryPeriod = 3*time.Second, 2*time.Second },
		"RequestTimeout is -1s, must be at least 1ms":                                  func(c *leaderelect.Config) { c.RequestTimeout = -time.Second },
		"RequestTimeout is 1ns, must be at least 1ms":                                  func(c *leaderelect.Config) { c.RequestTimeout = 1 },
		"RequestTimeout is 10s, must be less than RenewDeadline, which defaults to 10": func(c *leaderelect.Config) { c.RequestTimeout = 10 * time.Second },
		"StepDownTimeout is -1s, must be positive":                                     func(c *leaderelect.Config) { c.StepDownTimeout = -time.Second },
		"StepDownTimeout is 2.6s, must fit in the 2.5s that LeaseDuration leaves after RenewDeadline, with MaxClockRateSkew to spare": func(c *leaderelect.Config) {
			c.StepDownTimeout = 2600 * time.Millisecond
		},
		"RenewDeadline is 12.6s, must be less than 12.5s, so that LeaseDuration": func(c *leaderelect.Config) {
			c.RenewDeadline = 12600 * time.Millisecond // less than the lease, but not by the skew
		},
		"Sessions are required with Fenced":            func(c *leaderelect.Config) { c.Fenced = true },
		"MaxClockRateSkew is 1, must be less than 1":   func(c *leaderelect.Config) { c.MaxClockRateSkew = 1 },
		"MaxClockRateSkew is NaN, must be less than 1": func(c *leaderelect.Config) { c.MaxClockRateSkew = math.NaN() },
	} {
		t.Run(want, func(t *testing.T) {
			cfg := valid()
			change(&cfg)
			e, err := leaderelect.New(cfg)
			require.ErrorContains(t, err, "leaderelect: new elector: Config."+want)
			require.Nil(t, e)
		})
	}
}

func TestEveryInvalidFieldIsNamed(t *testing.T) {
	_, err := leaderelect.New(leaderelect.Config{RequestTimeout: -1})
	for _, field := range []string{"Store", "Key", "OnStartedLeading", "RequestTimeout"} {
		require.ErrorContains(t, err, "Config."+field+" ")
	}
	assert.Equal(t, 4, strings.Count(err.Error(), "Config."))
}

// A default that is computed from a bad field is not the user's mistake.
func TestErrorHasOneLineForOneMistake(t *testing.T) {
	for _, change := range []func(*leaderelect.Config){
		func(c *leaderelect.Config) { c.LeaseDuration = -time.Second },
		func(c *leaderelect.Config) { c.LeaseDuration = time.Nanosecond },
		func(c *leaderelect.Config) { c.LeaseDuration = math.MaxInt64 },
		func(c *leaderelect.Config) { c.RenewDeadline = -time.Second },
		func(c *leaderelect.Config) { c.RenewDeadline = time.Nanosecond },
		func(c *leaderelect.Config) { c.RenewDeadline = math.MaxInt64 },
		func(c *leaderelect.Config) { c.RetryPeriod = math.MaxInt64 },
		func(c *leaderelect.Config) { c.RequestTimeout = math.MaxInt64 },
		func(c *leaderelect.Config) { c.StepDownTimeout = math.MaxInt64 },
		func(c *leaderelect.Config) { c.MaxClockRateSkew = math.Inf(1) },
		func(c *leaderelect.Config) { c.MaxClockRateSkew = 0.9 },
		func(c *leaderelect.Config) { c.LeaseDuration, c.RenewDeadline = 10*time.Second, 9500*time.Millisecond },
	} {
		cfg := valid()
		change(&cfg)
		_, err := leaderelect.New(cfg)
		require.Error(t, err)
		assert.Equal(t, 1, strings.Count(err.Error(), "Config."), "%v", err)
	}
}

func TestConfigAtItsBoundsIsAccepted(t *testing.T) {
	for what, change := range map[string]func(*leaderelect.Config){
		"the defaults":          func(*leaderelect.Config) {},
		"a short lease":         func(c *leaderelect.Config) { c.LeaseDuration = 100 * time.Millisecond },
		"a long lease":          func(c *leaderelect.Config) { c.LeaseDuration = 24 * time.Hour },
		"an odd lease duration": func(c *leaderelect.Config) { c.LeaseDuration = 15*time.Second + 7 },
		"OpenShift's":           func(c *leaderelect.Config) { c.LeaseDuration, c.RenewDeadline, c.RetryPeriod = 137e9, 107e9, 26e9 },
		"no skew":               func(c *leaderelect.Config) { c.MaxClockRateSkew, c.StepDownTimeout = -1, 5*time.Second },
		"the longest stop":      func(c *leaderelect.Config) { c.StepDownTimeout = stepDown },
		"two tries":             func(c *leaderelect.Config) { c.RetryPeriod = 5 * time.Second },
		"sessions":              func(c *leaderelect.Config) { c.Sessions = memlease.New() },
		"early takeover":        func(c *leaderelect.Config) { c.Sessions, c.Fenced = memlease.New(), true },
		"slow requests":         func(c *leaderelect.Config) { c.RequestTimeout = renew - 1 },
	} {
		cfg := valid()
		change(&cfg)
		_, err := leaderelect.New(cfg)
		assert.NoError(t, err, what)
	}
}

func TestDefaultsMatchClientGo(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var calls []time.Duration
		a := w.join(t, "a", func(cfg *leaderelect.Config) { cfg.Identity = "" })
		w.plan = func(c call) (fault, time.Duration) {
			calls = append(calls, w.at(c.now))
			if w.at(c.now) < 10*time.Second {
				return none, 0
			}
			return stall, 0
		}
		begin := time.Now()
		a.start()
		after(9 * time.Second)
		l := w.term(t, 1).leadership
		assert.Equal(t, latency+8*time.Second+10*time.Second, l.Deadline().Sub(begin), "RenewDeadline")
		after(9 * time.Second)
		assert.Equal(t, []time.Duration{
			0, latency, // reads, claims
			latency + 2*time.Second, latency + 4*time.Second, latency + 6*time.Second, latency + 8*time.Second, // RetryPeriod
			latency + 10*time.Second, latency + 12500*time.Millisecond, // RequestTimeout
			latency + 15*time.Second, latency + 17500*time.Millisecond,
		}, calls)
		assert.Equal(t, int64(15_000), w.read().LeaseMillis, "LeaseDuration")
		host, err := os.Hostname()
		require.NoError(t, err)
		assert.Equal(t, fmt.Sprintf("%s_%d", host, os.Getpid()), w.read().Holder)
	})
}
