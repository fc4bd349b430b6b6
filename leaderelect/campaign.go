package leaderelect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/setpoint-go/setpoint/wait"
)

// observation is the record as a follower sees it, and since when.
type observation struct {
	view
	since     time.Time     // the first reply that showed this version
	jitter    time.Duration // drawn once per version
	regressed bool
}

// campaign follows the record until this elector has taken it. It returns nil when ctx ends first.
func (e *Elector) campaign(ctx context.Context) *tenure {
	var seen observation
	var notBefore time.Time // of the next write: one per RetryPeriod
	var unsure uint64       // the last term that was claimed without a clear reply
	for ctx.Err() == nil {
		v, err := e.read(ctx)
		if err != nil {
			if ctx.Err() == nil {
				e.log.WarnContext(ctx, "leaderelect: reading the record failed", "error", err)
			}
			_ = wait.Sleep(ctx, e.pollPeriod())
			continue
		}
		if t := e.adopt(ctx, v); t != nil {
			return t
		}
		e.observe(ctx, &seen, v)

		poll := time.Now().Add(e.pollPeriod())
		free := e.freeAt(seen)
		if notBefore.After(free) {
			free = notBefore
		}
		if free.After(poll) {
			_ = wait.Sleep(ctx, time.Until(poll))
			continue
		}
		if wait.Sleep(ctx, time.Until(free)) != nil {
			break
		}
		notBefore = time.Now().Add(e.cfg.RetryPeriod)
		t, err := e.take(ctx, seen.view)
		switch {
		case t != nil:
			return t
		case err != nil && !definite(err):
			unsure = e.attempts.term
			e.log.WarnContext(ctx, "leaderelect: taking the lease failed", "error", err)
		}
	}
	if unsure > e.done && e.cfg.ReleaseOnCancel {
		e.release(ctx, &tenure{term: unsure}, true)
	}
	return nil
}

// observe notes what was read: a version that was not there before counts from now.
func (e *Elector) observe(ctx context.Context, seen *observation, v view) {
	if seen.since.IsZero() || seen.exists != v.exists || seen.version != v.version {
		*seen = observation{since: v.at, jitter: time.Duration(e.cfg.Rand() * float64(min(takeoverJitter, e.cfg.RetryPeriod)))}
		if e.seen.regressed(v) {
			seen.regressed = true
			e.log.WarnContext(ctx, "leaderelect: the record is not followed", "error", ErrStoreRegressed,
				"term", v.rec.Term, "seen", e.seen.term)
		}
	}
	seen.view = v
	if v.exists && !seen.regressed {
		e.seen.raise(v.rec)
	}
	e.publish(v)
}

// freeAt returns from when on the record may be taken, if its version stays as it is.
func (e *Elector) freeAt(o observation) time.Time {
	switch {
	case o.regressed || o.exists && !o.readable:
		// Who leads is not known, nor since when. Nobody leads for longer than the longest lease that we know of.
		return o.since.Add(max(o.rec.lease(), e.seen.lease, e.cfg.LeaseDuration) + o.jitter)
	case !o.exists, o.rec.Holder == "", o.rec.Incarnation == e.incarnation:
		// The last is a term of ours that is over, for our work has returned.
		return o.since
	default:
		lease := o.rec.lease()
		if lease == 0 {
			lease = e.cfg.LeaseDuration
		}
		return o.since.Add(lease + o.jitter)
	}
}

// take claims the next term, in place of what v shows. It returns nil and no error if the reply came too late.
func (e *Elector) take(ctx context.Context, v view) (*tenure, error) {
	term := max(e.seen.term, v.rec.Term) + 1
	sent := time.Now()
	// The caller's cancel does not end this call: a lease that we hold without knowing it serves nobody.
	rec, entry, err := e.write(context.WithoutCancel(ctx), v.version, record{Holder: e.cfg.Identity, Term: term, AcquireTime: sent}, sent)
	if err != nil {
		return nil, err
	}
	return e.begin(ctx, rec, entry.Version, sent), nil
}

// adopt begins the term of a claim whose reply was lost, if v shows that it was successful.
func (e *Elector) adopt(ctx context.Context, v view) *tenure {
	if !v.held() || v.rec.Incarnation != e.incarnation || v.rec.Term <= e.done || e.seen.regressed(v) {
		return nil
	}
	sent, ok := e.attempts.sentAt(v.rec)
	if !ok {
		return nil
	}
	return e.begin(ctx, v.rec, v.version, sent)
}

// begin begins the term that rec, our own, has claimed with a write that was sent at the given time. It returns nil if
// that is too long ago.
func (e *Elector) begin(ctx context.Context, rec record, version string, sent time.Time) *tenure {
	e.seen.raise(rec)
	if !time.Now().Before(sent.Add(e.cfg.RenewDeadline)) {
		return nil
	}
	e.done = rec.Term
	t := &tenure{
		Leadership: newLeadership(ctx, &e.cfg, rec.Term, sent),
		term:       rec.Term,
		acquired:   rec.AcquireTime,
		version:    version,
		sent:       sent,
	}
	e.setCurrent(t.Leadership)
	e.publish(view{exists: true, readable: true, rec: rec})
	e.log.InfoContext(ctx, "leaderelect: leadership began", "term", rec.Term)
	return t
}

// read reads the record.
func (e *Elector) read(ctx context.Context) (view, error) {
	entry, err := e.calls.do(ctx, e.cfg.RequestTimeout, func(ctx context.Context) (Entry, error) {
		return e.cfg.Store.Get(ctx, e.cfg.Key)
	})
	at := time.Now()
	switch {
	case err == nil:
		return viewOf(entry, at), nil
	case errors.Is(err, ErrNotFound):
		return view{at: at}, nil
	default:
		return view{}, err
	}
}

// write numbers rec, completes it, and stores it in place of the given version; "" is no record.
func (e *Elector) write(ctx context.Context, version string, rec record, sent time.Time) (record, Entry, error) {
	rec.Incarnation = e.incarnation
	rec.Renewal = e.attempts.next(rec.Term, sent, sent.Add(-e.cfg.RenewDeadline))
	rec.LeaseMillis = millis(e.cfg.LeaseDuration)
	rec.RenewTime = sent.UTC()
	rec.AcquireTime = rec.AcquireTime.UTC()
	rec.Metadata = e.cfg.Metadata
	value, err := json.Marshal(rec)
	if err != nil {
		return rec, Entry{}, fmt.Errorf("leaderelect: encode record: %w", err)
	}
	next := Entry{Key: e.cfg.Key, Value: value, Term: rec.Term, Version: version} // a call that is late still reads it
	put := e.cfg.Store.Update
	if version == "" {
		put = e.cfg.Store.Create
	}
	entry, err := e.calls.do(ctx, e.cfg.RequestTimeout, func(ctx context.Context) (Entry, error) { return put(ctx, next) })
	return rec, entry, err
}

// definite reports whether a write that returned err has certainly not happened.
func definite(err error) bool {
	return errors.Is(err, ErrConflict) || errors.Is(err, ErrNotFound)
}

// pollPeriod returns how long a follower waits between two looks.
func (e *Elector) pollPeriod() time.Duration {
	return e.cfg.RetryPeriod + time.Duration(e.cfg.Rand()*pollJitter*float64(e.cfg.RetryPeriod))
}
