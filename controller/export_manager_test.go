package controller

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/setpoint-go/setpoint/leaderelect"
)

// CheckInvariants tests what is written at the fields of a manager and of its parts.
func (m *Manager) CheckInvariants(t *testing.T) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	type name struct {
		kind PartKind
		name string
	}
	names := map[name]bool{}
	for i, p := range m.everythingLocked() {
		assert.False(t, names[name{p.kind, p.name}], "two parts are the %s %q", p.kind, p.name)
		names[name{p.kind, p.name}] = true
		if i > 0 && p != m.election {
			assert.Less(t, m.parts[i-1].number, p.number, "parts are in the order in which they were added")
		}
		driven := p.done != nil
		assert.Equal(t, driven, p.cancel != nil)
		assert.Equal(t, driven, p.ctx != nil)
		assert.True(t, driven || p.state == PartWaiting, "%s %q is %s without a stage", p.kind, p.name, p.state)
		assert.True(t, driven || !p.removed && !p.gone, "%s %q is gone and still there", p.kind, p.name)
		assert.False(t, driven && m.stages[p.stage] == nil && p.ctx.Err() == nil, "%s %q outlives its stage", p.kind, p.name)
		assert.Equal(t, p.kind == PartSource, p.gate != nil)
		if p.gate != nil && isClosed(p.gate) {
			assert.True(t, isClosed(p.source.Synced()), "source %q lets others go before it has synced", p.name)
		}
		assert.GreaterOrEqual(t, p.removers, 0)
		assert.True(t, p.removers == 0 || p.removed)
	}
	if m.at == StageEnded {
		assert.Equal(t, [stageKinds]*stage{}, m.stages)
	}
}

// SetExit sets what ends the process when a controller goes on although another may lead.
func (m *Manager) SetExit(exit func(*leaderelect.Leadership)) { m.exit = exit }

// Overrun is what the election calls when the work goes on although another may lead.
func (m *Manager) Overrun(l *leaderelect.Leadership) { m.overrun(l) }

// AwaitSync is what a manager waits with for a source.
var AwaitSync = awaitSync
