package store_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/store"
)

func TestConditionTimeChangesWithItsStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cs store.Conditions
		start := time.Now().UTC()
		require.True(t, cs.Set(store.Condition{Type: "Ready", Reason: "Starting", Generation: 1}))
		require.True(t, cs.Set(store.Condition{Type: "Synced", OK: true, Generation: 1, Since: start.Add(-time.Hour)}))
		time.Sleep(time.Minute)
		assert.False(t, cs.Set(store.Condition{Type: "Ready", Reason: "Starting", Generation: 1}), "nothing new")
		before := cs
		assert.True(t, cs.Set(store.Condition{Type: "Ready", Reason: "Pulling", Generation: 2, Since: start.Add(time.Hour)}))
		ready, ok := cs.Get("Ready")
		require.True(t, ok)
		assert.Equal(t, store.Condition{Type: "Ready", Reason: "Pulling", Generation: 2, Since: start}, ready)
		was, _ := before.Get("Ready")
		assert.Equal(t, "Starting", was.Reason, "a copy stays unchanged")
		assert.True(t, cs.Set(store.Condition{Type: "Ready", OK: true, Generation: 2}))
		ready, _ = cs.Get("Ready")
		assert.Equal(t, start.Add(time.Minute), ready.Since)
		synced, _ := cs.Get("Synced")
		assert.Equal(t, start, synced.Since)
		assert.Equal(t, []string{"Ready", "Synced"}, []string{cs[0].Type, cs[1].Type})
	})
}

func TestConditionsAllOK(t *testing.T) {
	var cs store.Conditions
	assert.False(t, cs.AllOK(0), "there are none")
	cs.Set(store.Condition{Type: "Ready", OK: true, Generation: 2})
	cs.Set(store.Condition{Type: "Synced", OK: true, Generation: 1})
	assert.True(t, cs.AllOK(1))
	assert.False(t, cs.AllOK(2), "Synced is about an older generation")
	assert.True(t, cs.AllOK(2, "Ready"))
	assert.False(t, cs.AllOK(1, "Ready", "Paid"), "Paid is missing")
	cs.Set(store.Condition{Type: "Synced", Generation: 3})
	assert.False(t, cs.AllOK(1))
	_, ok := cs.Get("Paid")
	assert.False(t, ok)
}

func TestAllOKLeavesArrayOfCaller(t *testing.T) {
	var cs store.Conditions
	cs.Set(store.Condition{Type: "Ready", OK: true})
	types := []string{"a", "b"}
	assert.True(t, cs.AllOK(0, types[:0]...))
	assert.Equal(t, []string{"a", "b"}, types)
}
