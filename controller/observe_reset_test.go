package controller_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/expectations"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// restore makes s a copy from a backup, which has only its first object, at version 1.
func (s *source) restore() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = s.events[:1]
	first := s.events[0].Object
	s.objects = map[string]object{first.Key: first}
}

func TestKeyWaitsForWritesAfterVersionsWentBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(object{Key: "first"})
		for range 9 {
			s.set(object{Key: "child"})
		}
		inf := newInformer("things", s)
		versions := must(expectations.NewVersions(expectations.Config[string]{TTL: -1}))
		c, reports := newController(t, controller.Config[string]{Expectations: []controller.Expectations[string]{versions}}, noop)
		inf.OnVersion(func(v informer.Version) { versions.VersionObserved(uint64(v)) }) // before Run: it misses no version
		running := looptest.Start(t, inf.Run)
		looptest.Start(t, c.Run)
		synctest.Wait()
		versions.ExpectVersion("old", 12) // a write to the old history, which is lost with it
		c.Add("old")
		synctest.Wait()
		require.Empty(t, reports.Take())
		s.restore()
		inf.Reset()
		synctest.Wait()
		require.EqualValues(t, 1, inf.Version())
		assert.Equal(t, []string{"old"}, keysOf(reports.Take()), "its version belongs to no history anymore")

		versions.ExpectVersion("a", 3)
		c.Add("a")
		time.Sleep(time.Hour)
		require.Empty(t, reports.Take(), "the cache does not show version 3 yet")
		s.set(object{Key: "child"})
		synctest.Wait()
		require.Empty(t, reports.Take())
		s.set(object{Key: "child"})
		synctest.Wait()
		assert.Equal(t, []string{"a"}, keysOf(reports.Take()))
		running.Stop()
	})
}
