package leaderelect_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/leaderelect"
)

func TestSuspendedLeaderDoesNothingOnResume(t *testing.T) {
	for what, change := range map[string]func(*leaderelect.Config){"polling": nil, "watching": watched} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.acts = true
				a, b := w.join(t, "a", change), w.join(t, "b", change)
				startBoth(a, b)
				after(5 * time.Second)
				l := w.term(t, 1).leadership
				w.pause("a", 22*time.Second)
				after(21 * time.Second)
				require.True(t, b.IsLeader())
				require.ErrorIs(t, l.Err(), leaderelect.ErrLeaseExpired, "Err is right, even without timers")
				require.False(t, a.IsLeader())
				after(time.Second)
				require.Error(t, l.Context().Err())
				assert.False(t, w.term(t, 1).returned.IsZero(), "it has stopped when it resumes")
				after(time.Minute)
				assert.True(t, b.IsLeader())
				assert.Equal(t, 2, w.led())
				w.finish(t)
			})
		})
	}
}

func TestOddConfigsAreRejectedOrHaveOneLeader(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		lease, renew, retry time.Duration
		taken               bool
	}{
		{100 * time.Second, 90 * time.Second, 20 * time.Second, true}, // OVN-Kubernetes
		{137 * time.Second, 107 * time.Second, 26 * time.Second, true},
		{5 * time.Second, 4500 * time.Millisecond, time.Second, true},
		{6 * time.Second, 5900 * time.Millisecond, 2900 * time.Millisecond, true},
		{6 * time.Second, 5900 * time.Millisecond, 4900 * time.Millisecond, false}, // one try and no other
		{6 * time.Second, 5990 * time.Millisecond, time.Second, false},             // no time to stop
	} {
		odd := func(cfg *leaderelect.Config) {
			cfg.LeaseDuration, cfg.RenewDeadline, cfg.RetryPeriod = c.lease, c.renew, c.retry
			cfg.MaxClockRateSkew = 0.01
		}
		if !c.taken {
			cfg := valid()
			odd(&cfg)
			_, err := leaderelect.New(cfg)
			require.Error(t, err)
			continue
		}
		for begin := time.Duration(0); begin < 2*c.retry; begin += c.retry / 4 {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.acts = true
				a, b := w.join(t, "a", odd), w.join(t, "b", odd)
				a.behave = work{linger: time.Duration(float64(c.lease)/1.01) - c.renew}.run
				a.start()
				after(c.retry / 3)
				b.start()
				after(begin)
				w.cut("a", time.Hour)
				after(2 * c.lease)
				assert.True(t, b.IsLeader())
				w.finish(t)
			})
		}
	}
}
