package events

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/backend"
)

// storeSink writes events to a store, as objects, and deletes old ones, so that the store does not fill up. Each event is one object; a
// repeat updates it.
//
// The key of an object is the kind and the key of the object that the event is about, and a hash: "app/shop/web/6b8f0c1e2a94d7f3". If that
// would be too long, it begins with a hash of the kind and the key instead. Labels hold the values that [About] selects by: "kind", "key"
// and "uid", and "type" and "reason".
//
// Its methods may be called concurrently; they take turns. Several processes may write to one store.
type storeSink struct {
	max   int
	ttl   time.Duration
	store store.Store[Event]

	// turn holds a token: the goroutine that has taken it may use the following fields and the store.
	turn chan struct{}

	swept   time.Time // when the store was last swept; zero at the beginning, which counts as long ago
	created int       // the number of objects created since
}

func newStoreSink(s store.Store[Event], max int, ttl time.Duration) *storeSink {
	sink := &storeSink{max: max, ttl: ttl, store: s, turn: make(chan struct{}, 1)}
	sink.turn <- struct{}{}
	return sink
}

// About selects the events about one object in Config.Store. Use it with a store of kind "Event", such as
// store.Open(db, "Event", store.Config[events.Event]{}). If the UID is empty, it selects the events about all objects that have
// had the key.
func About(about store.Ref) store.Selector {
	rules := []store.Requirement{
		{Label: "kind", Values: []string{about.Kind}},
		{Label: "key", Values: []string{about.Key}},
	}
	if about.UID != "" {
		rules = append(rules, store.Requirement{Label: "uid", Values: []string{about.UID}})
	}
	return store.Selector{Prefix: prefixOf(about), Labels: rules}
}

// Write creates the object of an event, or updates it for a repeat. Writing the same or an earlier state again does nothing, so a write
// with an unknown outcome may be repeated. Before that, Write sweeps if a sweep is due.
func (s *storeSink) Write(ctx context.Context, e Event) error {
	if err := s.take(ctx); err != nil {
		return fmt.Errorf("events: write %s of %s %q: %w", e.Reason, e.About.Kind, e.About.Key, err)
	}
	defer s.release()
	err := s.sweepIfDue(ctx)
	if err == nil {
		if err = s.write(ctx, e); errors.Is(err, store.ErrInvalid) {
			err = retry.Permanent(err) // other events must not wait while this one fails again
		}
	}
	if err != nil {
		return fmt.Errorf("events: write %s of %s %q: %w", e.Reason, e.About.Kind, e.About.Key, err)
	}
	return nil
}

// Sweep deletes the events that are older than the TTL, and the oldest above nine tenths of the maximum.
func (s *storeSink) Sweep(ctx context.Context) error {
	if err := s.take(ctx); err != nil {
		return fmt.Errorf("events: sweep %s: %w", s.store.Kind(), err)
	}
	defer s.release()
	if err := s.sweep(ctx); err != nil {
		return fmt.Errorf("events: sweep %s: %w", s.store.Kind(), err)
	}
	return nil
}

// sweepNowAndThen sweeps even when no events arrive, until ctx ends.
func (s *storeSink) sweepNowAndThen(ctx context.Context, logger *slog.Logger) {
	tick := time.NewTicker(max(s.ttl/10, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
			logger.LogAttrs(ctx, slog.LevelWarn, "old events not deleted", slog.Any("error", err))
		}
	}
}

func (s *storeSink) take(ctx context.Context) error {
	select {
	case <-s.turn:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *storeSink) release() { s.turn <- struct{}{} }

func (s *storeSink) write(ctx context.Context, e Event) error {
	e.First, e.Last = e.First.UTC().Round(0), e.Last.UTC().Round(0)
	obj := store.Object[Event]{Key: keyOf(&e), Value: e, Labels: map[string]string{
		"kind": e.About.Kind, "key": e.About.Key, "uid": e.About.UID, "type": e.Type.String(), "reason": e.Reason,
	}}
	if e.Count > 1 {
		_, err := store.Patch(ctx, s.store, obj.Key, func(o *store.Object[Event]) error {
			if o.Value.Count < e.Count {
				o.Value = e
			}
			return nil
		})
		if !errors.Is(err, store.ErrNotFound) { // swept, or its first state was never passed on
			return err
		}
	}
	s.created++
	if _, err := s.store.Create(ctx, obj); !errors.Is(err, store.ErrExists) {
		return err
	}
	return nil // by an earlier attempt
}

// sweepIfDue keeps the store below Max, even if another process filled it before this one began.
func (s *storeSink) sweepIfDue(ctx context.Context) error {
	if s.created >= s.share() || time.Since(s.swept) >= s.ttl/10 {
		return s.sweep(ctx)
	}
	return nil
}

// share is how many objects may be created between two sweeps.
func (s *storeSink) share() int { return max(s.max/10, 1) }

func (s *storeSink) sweep(ctx context.Context) error {
	now := time.Now()
	all, err := s.store.List(ctx)
	if err != nil {
		return err
	}
	slices.SortStableFunc(all.Items, func(a, b store.Object[Event]) int { return b.Value.Last.Compare(a.Value.Last) })
	for i, o := range all.Items { // newest first
		if i < s.max-s.share() && now.Sub(o.Value.Last) <= s.ttl {
			continue
		}
		// An event that has just been repeated has another version, and stays until the next sweep.
		_, err := s.store.Delete(ctx, o.Key, store.IfVersion(o.Version))
		if err != nil && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
	s.swept, s.created = now, 0
	return nil
}

// hashLen is the length of the hash at the end of a key.
const hashLen = 16

// prefixOf returns what the keys of all events about an object begin with. Two objects may share it.
func prefixOf(about store.Ref) string {
	prefix := about.Kind + "/" + about.Key + "/"
	if len(prefix)+hashLen > backend.MaxKey {
		return fmt.Sprintf("%x/", sha256.Sum256([]byte(prefix)))
	}
	return prefix
}

// keyOf returns the key of the object of e: the same for all states of one life of an event.
func keyOf(e *Event) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %d %q %q %d", e.About.UID, e.Type, e.Reason, e.Message, e.First.UnixNano()))
	return prefixOf(e.About) + hex.EncodeToString(sum[:hashLen/2])
}
