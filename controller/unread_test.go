package controller_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/looptest"
)

// spoil makes the object of key unreadable.
func (s *source) spoil(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, key)
	if s.unread == nil {
		s.unread = make(map[string]bool)
	}
	s.unread[key] = true
	s.appendLocked(informer.Unreadable, object{Key: key})
}

// unreadWorld is a controller of a source, whose reconciles write down what they see.
type unreadWorld struct {
	*source
	inf     *informer.Informer[string, object]
	c       *controller.Controller[string]
	actions looptest.Log[string]
}

func newUnreadWorld(t *testing.T, s *source, change func(controller.Watch[string, object]) controller.Watch[string, object]) *unreadWorld {
	w := &unreadWorld{source: s}
	w.inf = must(informer.New(s, keyOf, informer.Config{Name: "things", OnError: func(error) {}}))
	looptest.Start(t, w.inf.Run)
	w.c, _ = newController(t, controller.Config[string]{}, func(_ context.Context, key string) (controller.Result, error) {
		o, ok := w.inf.Get(key)
		if !ok {
			w.actions.Add("remove " + key)
		} else {
			w.actions.Add(fmt.Sprintf("apply %s=%d", key, o.Value))
		}
		return controller.Result{}, nil
	}, change(controller.For(w.inf)))
	looptest.Start(t, w.c.Run)
	time.Sleep(time.Second)
	return w
}

// took returns what reconciles have done. A key that is released may be reconciled again for its event: that counts once.
func (w *unreadWorld) took() []string { return slices.Compact(w.actions.Take()) }

func unchanged(w controller.Watch[string, object]) controller.Watch[string, object] { return w }

// A reconciler that removes what belongs to a missing object must not run for one that exists and cannot be read.
func TestKeyOfUnreadObjectIsHeldUntilItIsReadOrDeleted(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := newSource(object{Key: "old", Value: 1})
		s.spoil("never read")
		s.spoil("deleted")
		w := newUnreadWorld(t, s, unchanged)
		assert.Equal(t, []string{"apply old=1"}, w.took())
		s.spoil("old")
		time.Sleep(time.Second)
		for _, key := range []string{"old", "never read", "deleted", "absent"} { // as an event of a child does
			w.c.Add(key)
			w.c.Add(key)
		}
		time.Sleep(time.Hour)
		assert.Equal(t, []string{"remove absent"}, w.took())
		assert.Equal(t, 3, w.c.Stats().Held)
		assert.Equal(t, 3, w.c.Stats().HeldBy["unread things"])
		info, _ := w.c.Inspect().Key("old")
		assert.Equal(t, "unread things", info.HeldBy)
		assert.Zero(t, info.HeldUntil, "it does not expire")
		dispatched := w.c.Stats().Totals.Waited.Count()
		w.c.Add("old")
		time.Sleep(time.Second)
		assert.Equal(t, dispatched, w.c.Stats().Totals.Waited.Count(), "a held key reaches no worker")

		s.set(object{Key: "never read", Value: 7})
		time.Sleep(time.Second)
		assert.Equal(t, []string{"apply never read=7"}, w.took())
		s.delete("deleted") // the cache never had it, so there is no event
		time.Sleep(time.Second)
		assert.Equal(t, []string{"remove deleted"}, w.took())
		s.set(object{Key: "old", Value: 1})
		time.Sleep(time.Second)
		assert.Equal(t, []string{"apply old=1"}, w.took(), "repaired to the state that it had")
		assert.Zero(t, w.c.Stats().Held)
	})
}

func TestIncompleteListHoldsKeysThatItLacks(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := newSource(object{Key: "a", Value: 1})
		s.missing = []error{errors.New("a file does not parse")}
		w := newUnreadWorld(t, s, unchanged)
		w.c.Add("in the file")
		w.c.Add("a")
		time.Sleep(time.Hour)
		assert.Equal(t, []string{"apply a=1"}, w.took())
		s.mu.Lock()
		s.missing = nil
		s.mu.Unlock()
		w.inf.Reset()
		time.Sleep(time.Second)
		assert.Contains(t, w.took(), "remove in the file", "the list is complete")
	})
}

func TestUnreadTooReconcilesUnreadObjects(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := newSource()
		s.spoil("a")
		w := newUnreadWorld(t, s, controller.Watch[string, object].UnreadToo)
		assert.Equal(t, []string{"remove a"}, w.took(), "present")
		w.c.Add("a")
		time.Sleep(time.Second)
		assert.Equal(t, []string{"remove a"}, w.took())
		require.Error(t, w.inf.Unread("a"))
		assert.NotContains(t, w.c.Stats().HeldBy, "unread things")
		s.spoil("b")
		time.Sleep(time.Second)
		assert.Equal(t, []string{"remove b"}, w.took(), "it became unread")
		w.c.Inspect().Resync()
		time.Sleep(time.Second)
		assert.ElementsMatch(t, []string{"remove a", "remove b"}, w.took())
	})
}

// Between Runs, an object may become readable.
func TestUnreadKeyIsReleasedByTheNextRun(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := newSource()
		s.spoil("a")
		inf := must(informer.New(s, keyOf, informer.Config{Name: "things", OnError: func(error) {}}))
		looptest.Start(t, inf.Run)
		var actions looptest.Log[string]
		c, _ := newController(t, controller.Config[string]{}, func(_ context.Context, key string) (controller.Result, error) {
			actions.Add(key)
			return controller.Result{}, nil
		}, controller.For(inf))
		run := looptest.Start(t, c.Run)
		c.Add("a")
		time.Sleep(time.Second)
		run.Stop()
		s.delete("a")
		time.Sleep(time.Second)
		looptest.Start(t, c.Run)
		time.Sleep(time.Second)
		assert.Equal(t, []string{"a"}, actions.Take())
	})
}
