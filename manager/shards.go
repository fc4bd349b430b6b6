package manager

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/shard"
)

// slotWork is the work of this replica in a slot, in one term.
type slotWork struct {
	leadership *leaderelect.Leadership
	ended      chan struct{} // closed when no work is in flight and OnRevoked has returned
	told       time.Time     // when the work was told to end, with the lease lost; zero before. Manager.mu guards it
}

// share makes the slots of m.
func (m *Manager) share(cfg shard.Config) (err error) {
	m.setDefaults(&cfg.Lease)
	onAcquired, onRevoked := cfg.OnAcquired, cfg.OnRevoked
	cfg.OnAcquired = func(ctx context.Context, slot int) error {
		m.noteAcquired(ctx, slot)
		if lost(ctx) {
			return nil // overrunSlot may have checked already and found no work
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

// acquired tells the controllers that this replica owns a slot.
func (m *Manager) acquired(slot int) {
	m.mu.Lock()
	var tell []func(int)
	for _, p := range m.parts {
		if p.shared != nil && isClosed(p.shared) { // otherwise p does not run yet
			tell = append(tell, p.acquired)
		}
	}
	m.mu.Unlock()
	for _, acquired := range tell {
		acquired(slot)
	}
}

// noteAcquired records that work may begin in a slot. ctx has the leadership of the slot.
func (m *Manager) noteAcquired(ctx context.Context, slot int) {
	l, _ := leaderelect.FromContext(ctx)
	w := &slotWork{leadership: l, ended: make(chan struct{})}
	m.mu.Lock()
	m.inSlots[slot] = w
	m.mu.Unlock()
	// The goroutine of AfterFunc makes one note after the term has ended. No code waits for it.
	context.AfterFunc(l.Context(), func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		w.told = time.Now()
	})
}

// noteRevoked records that no work is in flight in a slot.
func (m *Manager) noteRevoked(slot int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	close(m.inSlots[slot].ended)
	delete(m.inSlots, slot)
}

// overrunSlot is overrun for the leadership of a slot. It considers only the work in this slot: a controller continues its work in others.
func (m *Manager) overrunSlot(l *leaderelect.Leadership) {
	var ended chan struct{}
	told := time.Now()
	m.mu.Lock()
	for _, w := range m.inSlots {
		if w.leadership == l {
			ended = w.ended
			if !w.told.IsZero() {
				told = w.told
			}
		}
	}
	m.mu.Unlock()
	if ended == nil {
		return // the work has ended, or has not begun; and will not begin anymore
	}
	timer := time.NewTimer(time.Until(told.Add(overrunGrace)))
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
	}
	if isClosed(ended) {
		return
	}
	m.logger.LogAttrs(l.Context(), slog.LevelError, "work in a slot continues although another may lead, and the process ends",
		slog.String("lease", l.Key()), slog.Uint64("term", l.Term()), slog.Any("cause", l.Err()))
	m.exit(l)
}
