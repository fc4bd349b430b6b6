package informer_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/internal/sitetest"
)

// A resync comes in pieces. Between them, an index blocks Run, and objects change before, at, and after their turn.
func TestResyncInPiecesDeliversCurrentObjects(t *testing.T) {
	for _, c := range []struct{ every, ends bool }{{}, {every: true}, {ends: true}} {
		synctest.Test(t, func(t *testing.T) {
			s := newChronicle(append(numbers(3*informer.PieceSize), "later"), informer.Config{ResyncPeriod: time.Hour})
			r := newRecorder(t)
			h := r.handler()
			again := make(map[string]bool)
			update := h.OnUpdate
			h.OnUpdate = func(old, now site) {
				if old == now {
					assert.False(t, again[now.Name], "%v is delivered again", now)
					again[now.Name] = true
				}
				update(old, now)
			}
			h.EveryEvent = c.every
			_, err := s.in.AddHandler(h)
			require.NoError(t, err)
			stop := sitetest.Start(t, s.in)
			r.take()
			release := make(chan struct{})
			cache.AddIndex(s.in.Indexer(), func(o site) []int {
				if o.Name == "brake" {
					<-release
				}
				return nil
			})
			step := func(changes func()) { // lets Run stop in its next step, which has applied the changes
				changes()
				s.put("brake")
				synctest.Wait()
				release <- struct{}{}
				synctest.Wait()
			}
			s.put("brake")
			time.Sleep(time.Hour)
			synctest.Wait()
			for len(again) == 0 { // Run picks a change or a resync first, by chance
				step(func() {})
			}
			require.Len(t, again, informer.PieceSize, "the first piece")
			if c.ends {
				go stop()
				synctest.Wait()
				close(release)
				synctest.Wait()
				assert.LessOrEqual(t, len(again), 2*informer.PieceSize)
				return
			}
			last := fmt.Sprint(3*informer.PieceSize - 1)
			step(func() {
				s.put("0")
				s.put("1")
				s.delete("1")
				s.put("later")
				s.delete(last)
				s.put("new")
			})
			step(func() { s.recreate("later"); s.put(last) })
			close(release)
			assert.Equal(t, s.truth, r.state())
			assert.Equal(t, s.truth, contents(s.in))
			for name := range s.truth {
				switch name {
				case "brake", "new", last: // they have come since
				default:
					assert.True(t, again[name] || !c.every && name == "later", name)
				}
			}
		})
	}
}

// The resync covers three objects, one at a time.
func TestRunningResyncIsNotRestarted(t *testing.T) {
	w := newSchedule(t)
	told := make(map[string]int)
	_, err := w.in.AddHandler(informer.Handler[string, site]{OnUpdate: func(_, s site) { told[s.Name]++ }, EveryEvent: true})
	require.NoError(t, err)
	for _, name := range []string{"a", "b", "c"} {
		w.src.put(name)
	}
	w.reflect()
	deliver := func() map[string]int {
		for !w.driver.Idle() {
			w.driver.Apply()
		}
		for w.driver.Deliver(0) {
		}
		return told
	}
	require.Empty(t, deliver())
	w.driver.Resync()
	w.driver.Resync()
	require.Equal(t, map[string]int{"a": 1, "b": 1, "c": 1}, deliver())
	w.driver.Resync()
	require.Equal(t, map[string]int{"a": 2, "b": 2, "c": 2}, deliver(), "the one before has ended")
}
