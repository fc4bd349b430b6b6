package leaderelect_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/setpoint-go/setpoint/leaderelect"
)

// losses runs outages of the given number and length. Each begins at another moment between two renewals. losses returns in how
// many of them the leader loses its lease. Calls that begin during an outage have the fault.
func losses(t *testing.T, f fault, timeout, length time.Duration, outages int) (lost int) {
	for i := range outages {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			begin := 2*retry + time.Duration(i)*retry/time.Duration(outages)
			w.plan = func(c call) (fault, time.Duration) {
				if at := w.at(c.now); at >= begin && at < begin+length {
					return f, 0
				}
				return none, 0
			}
			a := w.join(t, "a", func(cfg *leaderelect.Config) { cfg.RequestTimeout = timeout })
			a.start()
			after(time.Minute)
			if w.led() != 1 {
				lost++
			}
			w.finish(t)
		})
	}
	return lost
}

func TestLeaderSurvivesOutageOfThreeQuartersOfRenewDeadline(t *testing.T) {
	t.Parallel()
	outages := effort(6, 100)
	for _, f := range []fault{stall, hang, stallLate, hangLate, lostRequest, lostReply} {
		for _, length := range []time.Duration{6 * time.Second, 7490 * time.Millisecond, renew} {
			lost := losses(t, f, 0, length, outages)
			if outages == 100 {
				t.Logf("%s, %s: lost in %d of 100 outages, with half of RenewDeadline for a call in %d", f, length, lost,
					losses(t, f, renew/2, length, outages))
			}
			if length < renew {
				assert.Zero(t, lost, "%s for %s", f, length)
			} else {
				assert.Equal(t, outages, lost, "%s for RenewDeadline: no leadership survives that", f)
			}
		}
	}
}
