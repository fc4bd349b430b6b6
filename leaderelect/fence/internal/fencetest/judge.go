package fencetest

import (
	"errors"
	"time"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/fence"
	"github.com/setpoint-go/setpoint/leaderelect/fence/internal/claim"
)

// refusals names what strangers get.
var refusals = map[claim.Reason]string{claim.Missing: "missing", claim.Malformed: "malformed", claim.OtherLease: "other lease"}

// judgeLocked checks how a call has ended.
func (c *Call) judgeLocked() {
	m, err, reason := c.m, c.out.Err, c.out.Reason
	if c.done > 1 {
		m.fault("%s is done %d times", c.ID, c.done)
	}
	fenced := isFenced(err)
	tooLong := c.ended.Sub(c.begun) > unhurried+c.lasts
	switch {
	case c.ended.IsZero():
		m.fault("%s has not ended", c.ID)
	case c.afterTerm:
		m.seen["not sent"]++
		if !fenced || reason != 0 || !errors.Is(err, leaderelect.ErrLeaseTaken) || c.done > 0 {
			m.fault("%s of a leadership that is over: %v: guarantee 1", c.ID, err)
		}
	case c.unsent:
		m.seen["no leadership"]++
		if !errors.Is(err, claim.ErrNoLeadership) || fenced {
			m.fault("%s without a leadership: %v: guarantee 4", c.ID, err)
		}
	case c.expect != 0 && reason == c.expect:
		m.seen[refusals[reason]]++
	case reason == claim.Stale:
		stale := new(fence.StaleError)
		if !errors.As(err, &stale) || stale.Term != c.term || stale.Lease != c.lease || stale.Have <= c.term || stale.Have > m.term {
			m.fault("%s is refused as stale: %v", c.ID, err)
		}
		if !c.disturbed {
			m.fault("%s of the leader is refused as stale: %v: guarantee 7", c.ID, err)
		}
		switch {
		case c.done > 0:
			m.seen["stale by store"]++
		case c.refusedNext:
			m.seen["stale by other service"]++
		default:
			m.seen["stale by server"]++
		}
	case err != nil && reason == 0 && !fenced && (c.to.life > 1 || c.lost): // the idle connection was of an earlier life
		m.seen["lost"]++
	case !c.disturbed && (err != nil || reason != 0 || tooLong || c.expect != 0):
		m.fault("%s, which nothing has disturbed: reason %d, error %v, after %v, expected reason %d: guarantees 7 and 8",
			c.ID, reason, err, c.ended.Sub(c.begun), c.expect)
	case err == nil && reason == 0:
		c.succeededLocked()
	case fenced:
		m.seen["canceled"]++
		if c.deposed.IsZero() {
			m.fault("%s is canceled by the end of a leadership that lasts: %v: guarantee 2", c.ID, err)
		}
	case c.cancels && c.out.Own || reason == claim.Ended:
		m.seen["canceled by caller"]++
	default:
		m.fault("%s: reason %d, error %v", c.ID, reason, err)
	}
	// Its process has noticed the end of the leadership, and was not suspended. It has waited at most for one piece of its body.
	if !c.deposed.IsZero() && !c.suspendedOnce && c.ended.Sub(c.deposed) > 100*time.Millisecond {
		m.fault("%s has ended %v after its leadership: guarantee 2", c.ID, c.ended.Sub(c.deposed))
	}
}

// succeededLocked checks a call that has succeeded.
func (c *Call) succeededLocked() {
	m := c.m
	switch {
	case c.Kind.Safe() && c.lease == "" && c.by == m.stranger:
		m.seen["read of stranger"]++
	case !c.Kind.Safe() && c.lease == "stock":
		m.seen["write of other lease"]++
	default:
		m.seen["done"]++
	}
	if c.Kind.Streams() {
		m.seen["stream done"]++
	}
	if c.done != 1 {
		m.fault("%s has succeeded and is done %d times", c.ID, c.done)
	}
	if c.received != c.sent {
		m.fault("%s has succeeded, has sent %d messages, and %d have come", c.ID, c.sent, c.received)
	}
}

// isFenced reports whether a controller leaves the key of an error to the next leader.
func isFenced(err error) bool {
	var f interface{ Fenced() bool }
	return errors.As(err, &f) && f.Fenced()
}
