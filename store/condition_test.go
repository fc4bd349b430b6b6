package store_test

import (
	"encoding/json"
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

func TestStoreKeepsTimeOfConditionWhoseStatusStays(t *testing.T) {
	type Inner struct{ Conditions store.Conditions }
	type tagged struct {
		Inner
		Status Inner `store:"status"`
	}
	type plain struct{ Conditions store.Conditions }
	for name, cfg := range map[string]store.Config[tagged]{"default codec": {}, "own codec": jsonConfig[tagged]()} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db := store.NewMemory(store.MemoryConfig{})
				sites := must(store.Open(db, "Site", cfg))
				var o store.Object[tagged]
				o.Key = "a"
				o.Value.Status.Conditions.Set(store.Condition{Type: "Ready", OK: true})
				o.Value.Conditions.Set(store.Condition{Type: "Ready", OK: true})
				o = must(sites.Create(t.Context(), o))
				began := time.Now().UTC()
				since := func(cs store.Conditions) time.Duration {
					c, _ := cs.Get("Ready")
					return c.Since.Sub(began)
				}

				time.Sleep(time.Minute)
				given := o
				given.Value.Status.Conditions.Set(store.Condition{Type: "Ready"})
				given.Value.Status.Conditions.Set(store.Condition{Type: "Ready", OK: true})
				again := must(sites.UpdateStatus(t.Context(), given))
				assert.Equal(t, o.Version, again.Version, "nothing has changed")
				assert.Equal(t, time.Minute, since(given.Value.Status.Conditions), "the argument stays as it is")
				given.Value.Status.Conditions = nil
				given.Value.Status.Conditions.Set(store.Condition{Type: "Ready", OK: true, Reason: "Done"})
				again = must(sites.UpdateStatus(t.Context(), given))
				assert.Greater(t, again.Version, o.Version)
				assert.Zero(t, since(again.Value.Status.Conditions), "built anew, with another reason")
				again.Value.Status.Conditions.Set(store.Condition{Type: "Ready"})
				again = must(sites.UpdateStatus(t.Context(), again))
				assert.Equal(t, time.Minute, since(again.Value.Status.Conditions), "it has changed")

				again.Value.Conditions = nil
				again.Value.Conditions.Set(store.Condition{Type: "Ready", OK: true})
				last := must(sites.Update(t.Context(), again))
				assert.Equal(t, again.Version, last.Version, "also in the part of the user")

				others := must(store.Open(db, "Other", store.Config[plain]{}))
				p := must(others.Create(t.Context(), store.Object[plain]{Key: "a", Value: plain{store.Conditions{{Type: "Ready", Since: began}}}}))
				p.Value.Conditions = store.Conditions{{Type: "Ready", Since: began.Add(time.Hour)}}
				assert.Equal(t, p.Version, must(others.Update(t.Context(), p)).Version, "also without a status")
			})
		})
	}
}

// jsonConfig has a codec, so a Memory keeps bytes.
func jsonConfig[T any]() store.Config[T] {
	return store.Config[T]{
		Encode: func(v T) ([]byte, error) { return json.Marshal(v) },
		Decode: func(b []byte) (v T, err error) { return v, json.Unmarshal(b, &v) },
	}
}
