package store_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/interceptor"
)

func TestLastRequestIDsOfKeyAreRemembered(t *testing.T) {
	const kept = 8
	_, apps := newApps(t, store.MemoryConfig{})
	o := create(t, apps, "web")
	var sent []object
	send := func(n int) error {
		_, err := apps.Update(t.Context(), sent[n], store.RequestID(fmt.Sprint("r", n)))
		return err
	}
	for n := range 3 * kept {
		o.Value.Replicas++
		sent = append(sent, o)
		require.NoError(t, send(n))
		create(t, apps, fmt.Sprint(n)) // writes of other keys expire no ids
		var err error
		o, err = apps.Get(t.Context(), "web")
		require.NoError(t, err)
		for old := range n + 1 {
			if err := send(old); old > n-kept {
				assert.NoError(t, err, "request %d after %d", old, n)
			} else {
				assert.ErrorIs(t, err, store.ErrConflict, "request %d after %d", old, n)
			}
		}
	}
	after, err := apps.Get(t.Context(), "web")
	require.NoError(t, err)
	assert.Equal(t, o, after)
}

// The tombstone of a key is dropped with the history, and its request IDs with it.
func TestRequestIDsOutliveDeletionWithinHistory(t *testing.T) {
	db, apps := newApps(t, store.MemoryConfig{History: 3})
	send := func() error {
		_, err := apps.Create(t.Context(), object{Key: "web"}, store.RequestID("r"))
		return err
	}
	require.NoError(t, send())
	require.NoError(t, errOf(apps.Delete(t.Context(), "web")))
	for n := range 2 {
		create(t, apps, fmt.Sprint(n))
		require.NoError(t, send())
		require.ErrorIs(t, errOf(apps.Get(t.Context(), "web")), store.ErrNotFound, "it was created once")
		require.NoError(t, db.CheckInvariants())
	}
	create(t, apps, "last")
	require.NoError(t, db.CheckInvariants())
	require.NoError(t, send())
	require.NoError(t, errOf(apps.Get(t.Context(), "web")), "it is not remembered anymore")
}

func TestRepeatedPatchIsAppliedOnce(t *testing.T) {
	_, apps := newApps(t, store.MemoryConfig{})
	o := create(t, apps, "web")
	for range 2 {
		after, err := store.Patch(t.Context(), apps, "web", raise, store.IfVersion(o.Version), store.RequestID("r"))
		require.NoError(t, err)
		assert.Equal(t, 1, after.Value.Replicas)
	}
}

// The first attempt of a repeated Patch has taken effect: the object is gone, or the condition of change no longer
// holds.
func TestRepeatedPatchSucceedsAfterObjectChanged(t *testing.T) {
	_, apps := newApps(t, store.MemoryConfig{})
	o, err := apps.Create(t.Context(), object{Key: "web", Finalizers: []string{"dns"}})
	require.NoError(t, err)
	taken := errors.New("taken")
	claim := func(o *object) error {
		if o.Value.Tags != nil {
			return taken
		}
		o.Value.Tags = []string{"mine"}
		return nil
	}
	for range 2 {
		o, err = store.Patch(t.Context(), apps, "web", claim, store.RequestID("claim"))
		require.NoError(t, err)
		assert.Equal(t, []string{"mine"}, o.Value.Tags)
	}
	_, err = store.Patch(t.Context(), apps, "web", claim, store.RequestID("other"))
	require.Equal(t, taken, err)
	after, err := apps.Get(t.Context(), "web")
	require.NoError(t, err)
	assert.Equal(t, o, after, "a rejected Patch has written nothing")

	require.NoError(t, errOf(apps.Delete(t.Context(), "web")))
	for range 2 {
		o, err = store.Patch(t.Context(), apps, "web", func(o *object) error { o.Finalizers = nil; return nil }, store.RequestID("gone"))
		require.NoError(t, err)
		assert.Empty(t, o.Finalizers)
	}
	_, err = store.Patch(t.Context(), apps, "web", raise, store.RequestID("late"))
	require.ErrorIs(t, err, store.ErrNotFound)
	_, err = store.Patch(t.Context(), apps, "next", raise, store.RequestID("gone"))
	require.ErrorIs(t, err, store.ErrNotFound, "each key has its own IDs")
}

// A counter is incremented over a faulty network. With request IDs, each increment counts once. Without them, some
// count twice.
func TestRetriedWritesCountOnceWithRequestID(t *testing.T) {
	const raises = 200
	for _, once := range []bool{true, false} {
		_, apps := newApps(t, store.MemoryConfig{})
		create(t, apps, "web")
		s := interceptor.New[App](apps)
		r := rand.New(rand.NewPCG(1, 2))
		lost := 0
		for n := range raises {
			var pre []store.Precondition
			if once {
				pre = []store.Precondition{store.RequestID(fmt.Sprint("raise ", n))}
			}
			for {
				s.Reset()
				if r.IntN(2) == 0 {
					fault := []interceptor.Fault{interceptor.LoseRequest(), interceptor.LoseReply()}[r.IntN(2)]
					s.Inject(interceptor.Rule{Op: []string{"get", "update"}[r.IntN(2)], Fault: fault})
				}
				_, err := store.Patch(t.Context(), s, "web", raise, pre...)
				if err == nil {
					break
				}
				require.ErrorIs(t, err, interceptor.ErrLost)
				lost++
			}
		}
		got, err := apps.Get(t.Context(), "web")
		require.NoError(t, err)
		require.Greater(t, lost, raises/2)
		if once {
			assert.Equal(t, raises, got.Value.Replicas)
		} else {
			assert.Greater(t, got.Value.Replicas, raises, "or the test proves nothing")
		}
	}
}

func TestUpdateStatusOfTypeWithoutStatusFails(t *testing.T) {
	_, apps := newApps(t, store.MemoryConfig{})
	_, err := apps.UpdateStatus(t.Context(), create(t, apps, "web"))
	require.ErrorIs(t, err, store.ErrInvalid)
}

func TestPatchStatusWritesOnlyStatus(t *testing.T) {
	services := open[Service](t, must(store.NewMemory(store.MemoryConfig{})), "service")
	_, err := services.Create(t.Context(), store.Object[Service]{Key: "web"})
	require.NoError(t, err)
	o, err := store.PatchStatus(t.Context(), services, "web", func(o *store.Object[Service]) error {
		o.Value = Service{Replicas: 9, Status: ServiceStatus{Ready: 2}}
		return nil
	})
	require.NoError(t, err)
	assert.Equal(t, Service{Status: ServiceStatus{Ready: 2}}, o.Value)
	assert.EqualValues(t, 1, o.Generation)
}

func encodeApp(a App) ([]byte, error) { return json.Marshal(a) }

func decodeApp(b []byte) (a App, err error) {
	err = json.Unmarshal(b, &a)
	return a, err
}

// A request arrives again after a failover: its term is in the message, and the term of the new leader is in the context.
func TestRepeatedRequestUnderLaterTerm(t *testing.T) {
	for _, cfg := range []store.Config[App]{{}, {Encode: encodeApp, Decode: decodeApp}} { // kept as they are, and encoded
		apps := must(store.Open(must(store.NewMemory(store.MemoryConfig{})), "app", cfg))
		pre := []store.Precondition{store.IfTerm("lease", 3), store.RequestID("r")}
		o, err := apps.Create(t.Context(), object{Key: "web"}, pre...)
		require.NoError(t, err)
		later := store.WithFence(t.Context(), store.Fence{Lease: "lease", Term: 5})
		again, err := apps.Create(later, object{Key: "web"}, pre...)
		require.NoError(t, err, "its other preconditions are ignored")
		assert.Equal(t, o, again)
		_, err = apps.Update(later, o, pre...)
		require.ErrorIs(t, err, store.ErrInvalid, "the id belongs to the Create")
		_, err = apps.Update(later, o, store.IfTerm("lease", 3), store.RequestID("new"))
		require.ErrorIs(t, err, store.ErrFenced)
		_, err = apps.Create(later, object{Key: "other"}, pre...)
		require.ErrorIs(t, err, store.ErrFenced)
		assert.EqualValues(t, 2, apps.Stats().Fenced)
	}
}
