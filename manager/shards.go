package manager

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"github.com/setpoint-go/setpoint/internal/broadcast"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/shard"
	"github.com/setpoint-go/setpoint/wait"
)

// slotWork is the work of this replica in a slot, in one term.
type slotWork struct {
	leadership *leaderelect.Leadership
	done       chan struct{} // closed when no work is in flight and OnRevoked has returned
	lost       time.Time     // when the lease was lost, and the context of the work ended; zero before. Manager.mu guards it
}

// share makes the slots of m.
func (m *Manager) share(cfg shard.Config) (err error) {
	m.setDefaults(&cfg.Lease)
	prepare, onAcquired, onRevoked := cfg.Prepare, cfg.OnAcquired, cfg.OnRevoked
	cfg.Prepare = func(ctx context.Context, slot int) error {
		m.noteAcquired(ctx, slot) // before the parts are read: a part that is not among them finds the slot
		if lost(ctx) {
			return nil // overrunSlot may have checked already and found no work
		}
		if err := m.prepare(ctx, slot); err != nil || prepare == nil {
			return err
		}
		return prepare(ctx, slot)
	}
	cfg.OnAcquired = func(ctx context.Context, slot int) error {
		if lost(ctx) {
			return nil
		}
		m.acquired(slot)
		if onAcquired == nil {
			return nil
		}
		return onAcquired(ctx, slot)
	}
	cfg.OnRevoked = func(slot int, cause error) {
		defer m.noteRevoked(slot)
		m.awaitLeft() // the slot is released after this
		for _, p := range m.sharing() {
			p.sharer.Revoked(slot)
		}
		if onRevoked != nil {
			onRevoked(slot, cause)
		}
	}
	if m.slots, err = shard.New(cfg); err != nil {
		return fmt.Errorf("manager: new: Config.Shards: %w", err)
	}
	m.election = newElectionPart(cfg.Lease.Key, m.slots)
	return nil
}

// acquired reports to the controllers that this replica owns a slot.
func (m *Manager) acquired(slot int) {
	for _, p := range m.sharing() {
		p.sharer.Acquired(slot)
	}
}

// sharing returns the parts that share their keys, except those that do not run yet.
func (m *Manager) sharing() (parts []*part) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.parts {
		if p.shared != nil && broadcast.IsClosed(p.shared) {
			parts = append(parts, p)
		}
	}
	return parts
}

// prepare makes the controllers ready for a slot, whose leadership ctx has.
func (m *Manager) prepare(ctx context.Context, slot int) error {
	var all wait.Group // ends with ctx, or when the controllers are ready; Wait waits for it
	for _, p := range m.sharing() {
		all.Start(ctx, func(ctx context.Context) error { return p.sharer.Prepare(ctx, slot) })
	}
	return all.Wait()
}

// prepareLate makes a controller that was added later ready for the slots that are owned, or being prepared. It returns when it is ready, or
// the slots are lost.
func (m *Manager) prepareLate(ctx context.Context, p *part) {
	m.mu.Lock()
	held := maps.Clone(m.inSlots)
	m.mu.Unlock()
	var all wait.Group // ends with ctx, with the slots, or when p is ready; Wait waits for it
	for slot, w := range held {
		l := w.leadership
		all.Start(l.NewContext(ctx), func(ctx context.Context) error {
			ctx, cancel := context.WithCancelCause(ctx)
			defer cancel(nil)
			defer context.AfterFunc(l.Context(), func() { cancel(context.Cause(l.Context())) })()
			err := p.sharer.Prepare(ctx, slot)
			if !m.inSlot(slot) { // its OnRevoked may have come before Prepare was called
				p.sharer.Revoked(slot)
			}
			return err
		})
	}
	_ = all.Wait() // an error means that ctx or the slot has ended
}

// inSlot reports whether this replica owns a slot, or prepares it.
func (m *Manager) inSlot(slot int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.inSlots[slot] != nil
}

// noteAcquired records that work may begin in a slot. ctx has the leadership of the slot.
func (m *Manager) noteAcquired(ctx context.Context, slot int) {
	l, _ := leaderelect.FromContext(ctx)
	w := &slotWork{leadership: l, done: make(chan struct{})}
	m.mu.Lock()
	m.inSlots[slot] = w
	m.mu.Unlock()
	// The goroutine of AfterFunc makes one note after the term has ended. No code waits for it.
	context.AfterFunc(l.Context(), func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		w.lost = time.Now()
	})
}

// noteRevoked records that no work is in flight in a slot.
func (m *Manager) noteRevoked(slot int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	close(m.inSlots[slot].done)
	delete(m.inSlots, slot)
}

// overrunSlot is overrun for the leadership of a slot. It considers only the work in this slot: a controller continues its work in others.
func (m *Manager) overrunSlot(l *leaderelect.Leadership) {
	var done chan struct{}
	ended := time.Now()
	m.mu.Lock()
	for _, w := range m.inSlots {
		if w.leadership == l {
			done = w.done
			if !w.lost.IsZero() {
				ended = w.lost
			}
		}
	}
	m.mu.Unlock()
	if done == nil {
		return // the work has ended, or has not begun; and will not begin anymore
	}
	timer := time.NewTimer(time.Until(ended.Add(overrunGrace)))
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
	if broadcast.IsClosed(done) {
		return
	}
	m.logger.LogAttrs(l.Context(), slog.LevelError, "work in a slot continues although another may lead, and the process ends",
		slog.String("lease", l.Key()), slog.Uint64("term", l.Term()), slog.Any("error", l.Err()))
	m.exit(l)
}
