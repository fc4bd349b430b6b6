package manager

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/setpoint-go/setpoint/internal/broadcast"
	"github.com/setpoint-go/setpoint/leaderelect"
)

// CheckInvariants tests the invariants at the fields of a manager and of its parts.
func (m *Manager) CheckInvariants(t *testing.T) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	names := map[string]bool{}
	for i, p := range m.everythingLocked() {
		if p.listed {
			assert.False(t, names[p.kind+p.name], "two of kind %s are called %q", p.kind, p.name)
			names[p.kind+p.name] = true
		}
		if i > 0 && p != m.election {
			assert.Less(t, m.parts[i-1].number, p.number, "parts are in the order in which they were added")
		}
		driven := p.done != nil
		assert.Equal(t, driven, p.cancel != nil)
		assert.Equal(t, driven, p.ctx != nil)
		assert.True(t, driven || p.state == stateWaiting, "%s %q is %s without a stage", p.kind, p.name, p.state)
		assert.True(t, driven || !p.removed, "%s %q is removed but still there", p.kind, p.name)
		assert.False(t, driven && m.stages[p.stage] == nil && p.ctx.Err() == nil, "%s %q outlives its stage", p.kind, p.name)
		assert.Equal(t, p.kind == kindInformer, p.synced != nil)
		assert.Equal(t, p.stage == Outer || p.stage == Always, p.gate != nil)
		assert.True(t, p.stage == Outer || p == m.election || p.number < p.after, "a part waits for those that were added before it")
		if p.synced != nil && broadcast.IsClosed(p.gate) {
			assert.True(t, broadcast.IsClosed(p.synced), "informer %q lets others start before it has synced", p.name)
		}
		assert.GreaterOrEqual(t, p.removers, 0)
		assert.True(t, p.removers == 0 || p.removed)
		m.checkNeedsLocked(t, p)
	}
	if m.state == stateEnded {
		assert.Equal(t, [stages]*stage{}, m.stages)
	}
}

// checkNeedsLocked tests that p counts the parts that need it, and exists only if there are any.
func (m *Manager) checkNeedsLocked(t *testing.T, p *part) {
	t.Helper()
	needs := 0
	for _, other := range m.parts {
		assert.False(t, other != p && other.is(p.value), "%q is there twice", p.name)
		for _, s := range other.informers {
			assert.Contains(t, m.parts, s, "an informer of %q is missing", other.name)
			if s == p {
				assert.Less(t, p.number, other.number, "%q precedes its informer", other.name)
				needs++
			}
		}
	}
	if p.kind == kindInformer {
		if p.listed && !p.removed {
			needs++
		}
		assert.Equal(t, needs, p.needs-btoi(p.listed && p.removed), "dependents of %q", p.name)
		assert.Equal(t, p.removed, needs == 0, "%q is removed when nothing needs it", p.name)
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// SetExit sets the function that ends the process when a controller continues although another may lead.
func (m *Manager) SetExit(exit func(*leaderelect.Leadership)) { m.exit = exit }

// Overrun is the function that the election calls when the work continues although another may lead.
func (m *Manager) Overrun(l *leaderelect.Leadership) { m.overrun(l) }

// AwaitSync waits for an informer.
var AwaitSync = awaitSync
