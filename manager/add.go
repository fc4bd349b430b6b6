package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Add adds parts and their informers. Parts of one stage start concurrently. A part that is added during its stage starts as soon as the parts
// of earlier stages that were added before or with it have started, and the informers among them, and its own, have synced.
//
// Add adds all of the parts or none. It returns an error if a part has the name of another ([ErrExists]); if a part or one of its informers
// is being removed (ErrExists too); if the manager is stopping or has ended ([ErrStopped]); or, with Config.Shards, if a part of stage
// Leading does not share its keys. An added informer may have the name of a part that is not an informer. Add panics if a part or an
// informer is nil.
func (m *Manager) Add(parts ...Part) error {
	var made, informers []*part
	for _, p := range parts {
		p := newPart(p)
		made = append(made, p)
		for _, in := range informersOf(p.value) {
			mustPart(fmt.Sprintf("Informers of %q", p.name), in)
			i := slices.IndexFunc(informers, func(other *part) bool { return other.is(in) })
			if i < 0 {
				i = len(informers)
				informers = append(informers, newInformer(in))
			}
			if !slices.Contains(p.informers, informers[i]) {
				p.informers = append(p.informers, informers[i])
			}
		}
	}
	if err := m.addAll(made, informers); err != nil {
		return err
	}
	for _, p := range made { // not before, because a part that is refused must stay as it is; and not under the lock
		if p.shared != nil {
			p.sharer.Share(m.slots)
			close(p.shared)
		}
	}
	return nil
}

// addAll adds all parts and their informers, or none.
func (m *Manager) addAll(made, informers []*part) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var errs []error
	for i, p := range made {
		if err := m.refusalLocked(p, made[:i]); err != nil {
			errs = append(errs, fmt.Errorf("manager: add %s %q: %w", p.kind, p.name, err))
		}
	}
	for _, in := range informers {
		there := m.thereLocked(in.value)
		if i := slices.IndexFunc(made, func(p *part) bool { return p.is(in.value) }); there == nil && i >= 0 {
			there = made[i]
		}
		if there != nil && (there.removed || there.kind != kindInformer) {
			errs = append(errs, fmt.Errorf("manager: add informer %q: %w", in.name, ErrExists))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, p := range made {
		if m.slots != nil && p.stage == Leading {
			p.shared = make(chan struct{})
		}
		m.addLocked(p)
	}
	for _, p := range made {
		p.after = m.added
	}
	return nil
}

// refusalLocked returns why p, which follows others in one call, cannot be added.
func (m *Manager) refusalLocked(p *part, others []*part) error {
	there := m.thereLocked(p.value)
	switch {
	case m.findLocked(p.kind, p.name) != nil:
		return ErrExists
	case slices.ContainsFunc(others, func(o *part) bool { return o.kind == p.kind && o.name == p.name || o.is(p.value) }):
		return ErrExists
	case there != nil && (there.listed || there.removed || p.kind != kindInformer):
		return ErrExists
	case m.stoppingLocked():
		return ErrStopped
	case m.slots != nil && p.stage == Leading && p.sharer == nil:
		return errors.New("it does not share its keys: add it to stage Always")
	}
	return nil
}

// addLocked adds p, after refusalLocked returned nil.
func (m *Manager) addLocked(p *part) {
	for i, in := range p.informers {
		p.informers[i] = m.informerLocked(in)
		p.informers[i].needs++
	}
	if p.kind != kindInformer {
		m.enlistLocked(p)
		return
	}
	there := m.informerLocked(p)
	there.informers, there.listed = p.informers, true
	there.needs++
}

// informerLocked returns the informer of m that equals in, or adds in.
func (m *Manager) informerLocked(in *part) *part {
	if there := m.thereLocked(in.value); there != nil {
		return there
	}
	m.enlistLocked(in)
	return in
}

// enlistLocked adds p to the parts, and starts it if its stage has begun.
func (m *Manager) enlistLocked(p *part) {
	p.number = m.added
	m.added++
	m.parts = append(m.parts, p)
	if s := m.stages[p.stage]; s != nil {
		s.startLocked(p)
	}
}

// Remove stops the part of the given name gracefully, and then each of its informers that no other part needs. It returns when they have
// ended. If both an informer and another part with that name were added, Remove removes the other part first. An informer that was itself
// added also runs until no other part needs it: Remove of such an informer returns nil at once.
//
// An informer runs only once. To add a part again with the same informers, add the informers as parts too, so that they stay.
//
// Remove returns the error of the part and of its informers, unless the error only reports that their context ended; [ErrNoPart] if no part
// of this name was added; or the cause of ctx if ctx ends first. In that case the removal continues: the manager logs the errors of the
// parts, and the name is free when the part has ended. If ctx has already ended, Remove begins the removal and does not wait. A part that
// removes itself must pass such a ctx, or it waits for itself.
func (m *Manager) Remove(ctx context.Context, name string) error {
	m.mu.Lock()
	p := cmp.Or(m.findLocked(kindPart, name), m.findLocked(kindInformer, name))
	if p == nil {
		m.mu.Unlock()
		return fmt.Errorf("manager: remove %q: %w", name, ErrNoPart)
	}
	if p.kind == kindInformer && p.needs > 1 && !p.removed {
		p.listed = false
		p.needs--
		m.mu.Unlock()
		return nil
	}
	p.removers++
	m.removeLocked(p)
	m.mu.Unlock()
	if err := m.awaitRemovals(ctx, p); err != nil {
		return fmt.Errorf("manager: remove %q: %w", name, err)
	}
	return nil
}

// awaitRemovals waits until p, which is being removed, has ended, and then for the informers that were removed with it.
func (m *Manager) awaitRemovals(ctx context.Context, p *part) error {
	ended, err := m.awaitRemoval(ctx, p)
	if ended {
		for _, s := range p.released { // which no longer changes
			err = errors.Join(err, m.awaitRemovals(ctx, s))
		}
	}
	return err
}

// removeLocked ends p for good.
func (m *Manager) removeLocked(p *part) {
	if !p.removed {
		p.removed = true
		p.endLocked(time.Now())
	}
	if p.done == nil {
		m.dropLocked(p)
		return
	}
	p.cancel(errRemoved)
}

// awaitRemoval waits until p has ended, and returns its error. The caller is counted in p.removers.
func (m *Manager) awaitRemoval(ctx context.Context, p *part) (ended bool, err error) {
	m.mu.Lock()
	done := p.done
	m.mu.Unlock()
	if done != nil {
		select {
		case <-done:
		case <-ctx.Done():
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	p.removers--
	if p.done != nil {
		return false, fmt.Errorf("%s %q has not ended yet: %w", p.kind, p.name, context.Cause(ctx))
	}
	return true, p.result
}

// dropLocked removes p, which is not driven, from the manager, with the informers that no other part needs.
func (m *Manager) dropLocked(p *part) {
	i := slices.Index(m.parts, p)
	if i < 0 {
		return
	}
	m.parts = slices.Delete(slices.Clone(m.parts), i, i+1)
	p.openGateLocked() // no part waits for one that is removed
	for _, s := range p.informers {
		if s.needs--; s.needs == 0 {
			p.released = append(p.released, s)
			s.removers += p.removers
			m.removeLocked(s)
		}
	}
}

// findLocked returns the part of the given kind and name that was added, or nil.
func (m *Manager) findLocked(kind, name string) *part {
	for _, p := range m.parts {
		if p.listed && p.kind == kind && p.name == name {
			return p
		}
	}
	return nil
}

// thereLocked returns the part whose value is v, or nil.
func (m *Manager) thereLocked(v any) *part {
	for _, p := range m.parts {
		if p.is(v) {
			return p
		}
	}
	return nil
}
