package shard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/internal/lease"
	"github.com/setpoint-go/setpoint/retry"
)

// agreement is the state of the record under the key itself, which has the number of slots. The leases of the slots have
// other keys. The record never expires, and an Elector with that key does not take it.
type agreement struct {
	failing time.Time // since when reading or writing the record fails; zero if it does not
	last    error     // the last failure

	// The following belong to the goroutine that calls confirm.
	damaged      string    // version of an unreadable record
	damagedSince time.Time // when that version was first seen
}

// errUnreadable means that a record could not be decoded.
var errUnreadable = errors.New("the record cannot be read")

// slotsHolder is the holder and the incarnation in the record of Slots.
const slotsHolder = "slots"

// check returns an error if the record could not be read or written for longer than limit.
func (a *agreement) check(limit time.Duration) error {
	if a.failing.IsZero() || time.Since(a.failing) <= limit {
		return nil
	}
	return fmt.Errorf("the number of slots cannot be confirmed for %s: %w", time.Since(a.failing), a.last)
}

// agree returns nil when the record has the number of slots of s, or when ctx has ended. It returns an error if there is another
// number, or if the store cannot work.
func (s *Slots) agree(ctx context.Context) error {
	warnings := lease.NewWarnings(s.log)
	for ctx.Err() == nil {
		err := s.confirm(ctx, 2*s.timing.LeaseDuration)
		switch {
		case err == nil, errors.Is(err, leaderelect.ErrMismatch):
			return err
		case retry.IsPermanent(err) && ctx.Err() == nil:
			return fmt.Errorf("shard: run %q: %w", s.cfg.Lease.Key, err)
		}
		if ctx.Err() == nil {
			warnings.Warn(ctx, "confirming the number of slots failed", err)
			pause(ctx, s.timing.RetryPeriod)
		}
	}
	return s.stuck()
}

// stuck waits for calls of the store that are in flight. It returns an error if some do not return.
func (s *Slots) stuck() error {
	if left := s.peers.calls.Wait(s.timing.Grace()); left > 0 {
		return fmt.Errorf("shard: run %q: %d calls have not returned: %w", s.cfg.Lease.Key, left, leaderelect.ErrStoreStuck)
	}
	return nil
}

// keepAgreed confirms the record once per LeaseDuration, because it may be deleted or restored by hand.
func (s *Slots) keepAgreed(ctx context.Context) error {
	warnings := lease.NewWarnings(s.log)
	for period := s.timing.LeaseDuration; ; {
		pause(ctx, period)
		if ctx.Err() != nil {
			return s.stuck()
		}
		period = s.timing.LeaseDuration
		err := s.confirm(ctx, 0)
		switch {
		case errors.Is(err, leaderelect.ErrMismatch):
			return err
		case err != nil && ctx.Err() == nil:
			period = s.timing.RetryPeriod
			warnings.Warn(ctx, "confirming the number of slots failed", err)
		}
	}
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	due, stop := lease.Alarm(d)
	defer stop()
	select {
	case <-ctx.Done():
	case <-due:
	}
}

// confirm reads the record, and creates it if it is missing. It replaces a record that was unreadable for longer than
// patience. Replicas that run do so at once. Replicas that start leave it to them.
func (s *Slots) confirm(ctx context.Context, patience time.Duration) error {
	err := s.confirmOnce(ctx, patience)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		s.number.failing, s.number.last = time.Time{}, nil
	case ctx.Err() == nil:
		s.number.last = err
		if s.number.failing.IsZero() {
			s.number.failing = time.Now()
		}
	}
	return err
}

func (s *Slots) confirmOnce(ctx context.Context, patience time.Duration) error {
	calls, timeout := &s.peers.calls, s.timing.RequestTimeout
	key, store, number := s.cfg.Lease.Key, s.cfg.Lease.Store, len(s.slots)
	value, err := json.Marshal(lease.Record{Holder: slotsHolder, Incarnation: slotsHolder, Slots: number})
	if err != nil {
		return fmt.Errorf("shard: encode record: %w", err)
	}
	e, err := lease.Do(ctx, calls, timeout, store.Get, key)
	if errors.Is(err, leaderelect.ErrNotFound) {
		_, err = lease.Do(ctx, calls, timeout, store.Create, leaderelect.Entry{Key: key, Value: value})
		if !errors.Is(err, leaderelect.ErrConflict) {
			return err
		}
		e, err = lease.Do(ctx, calls, timeout, store.Get, key) // another replica has created it at the same time; if it is still not there, the caller tries again later
	}
	if err != nil {
		return err
	}
	switch v := viewOf(e, time.Now()); {
	case v.Readable && v.Record.Slots == number:
		return nil
	case v.Readable && v.Record.Slots > 0:
		return fmt.Errorf("shard: run %q: there are %d slots, and this replica has %d: give all replicas the same number, "+
			"or stop them all and delete the record: %w", key, v.Record.Slots, number, leaderelect.ErrMismatch)
	case v.Readable && v.Record.Incarnation != "":
		return fmt.Errorf("shard: run %q: the record is the lease of an Elector: give Slots a key of their own, "+
			"or stop the leaderelect.Elector and delete the record: %w", key, leaderelect.ErrMismatch)
	case s.number.damaged != e.Version:
		s.number.damaged, s.number.damagedSince = e.Version, time.Now()
	}
	if time.Since(s.number.damagedSince) < patience {
		return errUnreadable
	}
	e.Value = value
	_, err = lease.Do(ctx, calls, timeout, store.Update, e)
	return err
}
