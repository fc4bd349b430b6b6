package leaderelect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// agreement is what [Slots] know of the record under their own key, which says how many slots there are. The leases of the
// slots have other keys. The record never expires, and an [Elector] with that key does not take it.
type agreement struct {
	failing time.Time // since when the record could not be read or written; zero if it could
	last    error     // why

	// The following belong to the goroutine that calls confirm.
	damaged      string    // version of a record that cannot be read
	damagedSince time.Time // when it was seen first
}

// slotsHolder is the holder and the incarnation in the record of Slots.
const slotsHolder = "slots"

// check returns an error if the record could not be read or written for longer than that.
func (a *agreement) check(patience time.Duration) error {
	if a.failing.IsZero() || time.Since(a.failing) <= patience {
		return nil
	}
	return fmt.Errorf("leaderelect: check slots: the number of slots cannot be confirmed for %s: %w", time.Since(a.failing), a.last)
}

// notOfElector returns an error if v is the record of Slots, which no Elector may take.
func notOfElector(v view) error {
	if v.rec.Slots == 0 {
		return nil
	}
	return fmt.Errorf("the record is that of %d Slots: give the Elector a key of its own: %w", v.rec.Slots, ErrMismatch)
}

// refusal returns why this elector must not compete for its key; nil if it may.
func (e *Elector) refusal() error {
	if e.foreign == nil {
		return nil
	}
	return fmt.Errorf("leaderelect: run %q: %w", e.cfg.Key, e.foreign)
}

// agree returns nil when the record says the number of slots of s, or when ctx has ended.
func (s *Slots) agree(ctx context.Context) error {
	warnings := newWarnings(s.log)
	for ctx.Err() == nil {
		err := s.confirm(ctx, 2*s.lease.LeaseDuration)
		if err == nil || errors.Is(err, ErrMismatch) {
			return err
		}
		if ctx.Err() == nil {
			warnings.warn(ctx, "leaderelect: confirming the number of slots failed", err)
			pause(ctx, s.lease.RetryPeriod)
		}
	}
	return s.stuck()
}

// stuck waits for calls of the store that have not returned. It returns an error if some do not.
func (s *Slots) stuck() error {
	if left := s.peers.calls.wait(s.lease.RequestTimeout); left > 0 {
		return fmt.Errorf("leaderelect: run slots %q: %d calls have not returned: %w", s.lease.Key, left, ErrStoreStuck)
	}
	return nil
}

// keepAgreed confirms the record once in a LeaseDuration, because somebody may delete or restore it.
func (s *Slots) keepAgreed(ctx context.Context) error {
	warnings := newWarnings(s.log)
	for period := s.lease.LeaseDuration; ; {
		pause(ctx, period)
		if ctx.Err() != nil {
			return s.stuck()
		}
		period = s.lease.LeaseDuration
		err := s.confirm(ctx, 0)
		switch {
		case errors.Is(err, ErrMismatch):
			return err
		case err != nil && ctx.Err() == nil:
			period = s.lease.RetryPeriod
			warnings.warn(ctx, "leaderelect: confirming the number of slots failed", err)
		}
	}
}

// pause returns after d, or when ctx ends.
func pause(ctx context.Context, d time.Duration) {
	due, stop := alarm(d)
	defer stop()
	select {
	case <-ctx.Done():
	case <-due:
	}
}

// confirm reads the record, and writes it if there is none. It replaces a record that was unreadable for the given time:
// replicas that run do so at once, and replicas that start leave it to them.
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
	call := func(f func(ctx context.Context) (Entry, error)) (Entry, error) {
		return s.peers.calls.do(ctx, s.lease.RequestTimeout, f)
	}
	key, store, number := s.lease.Key, s.lease.Store, len(s.slots)
	value, err := json.Marshal(record{Holder: slotsHolder, Incarnation: slotsHolder, Slots: number})
	if err != nil {
		return fmt.Errorf("leaderelect: encode record: %w", err)
	}
	e, err := call(func(ctx context.Context) (Entry, error) { return store.Get(ctx, key) })
	if errors.Is(err, ErrNotFound) {
		_, err = call(func(ctx context.Context) (Entry, error) { return store.Create(ctx, Entry{Key: key, Value: value}) })
		if errors.Is(err, ErrConflict) { // another has written it at the same time
			return s.confirmOnce(ctx, patience)
		}
		return err
	}
	if err != nil {
		return err
	}
	switch v := viewOf(e, time.Now()); {
	case v.readable && v.rec.Slots == number:
		return nil
	case v.readable && v.rec.Slots > 0:
		return fmt.Errorf("leaderelect: run slots %q: there are %d slots, and this replica has %d: give all replicas the same number, "+
			"or stop them all and delete the record: %w", key, v.rec.Slots, number, ErrMismatch)
	case v.readable && v.rec.Incarnation != "":
		return fmt.Errorf("leaderelect: run slots %q: the record is the lease of an Elector: give Slots a key of their own, "+
			"or stop the Elector and delete the record: %w", key, ErrMismatch)
	case s.number.damaged != e.Version:
		s.number.damaged, s.number.damagedSince = e.Version, time.Now()
	}
	if time.Since(s.number.damagedSince) < patience {
		return errUnreadable
	}
	e.Value = value
	_, err = call(func(ctx context.Context) (Entry, error) { return store.Update(ctx, e) })
	return err
}
