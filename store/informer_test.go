package store_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
)

var (
	_ informer.ListWatcher[object] = (store.Store[App])(nil)
	_ informer.Equaler[object]     = (*store.MemoryStore[App])(nil)
)

// An informer of a quiet kind reaches the version of a write to another kind, and one that falls out of the history lists
// again: the promises of Memory that an informer lives on.
func TestAnInformerFollowsAStoreInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, apps := newApps(t, store.MemoryConfig{History: 5})
		jobs := open[App](t, db, "job")
		create(t, apps, "web")
		inf := informer.New(apps, store.Key[App], informer.Config{Name: "apps"})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- inf.Run(ctx) }() // ends with cancel; the test waits for it
		defer func() {
			cancel()
			require.NoError(t, <-done)
		}()

		o := scale(t, apps, "web", 3)
		require.NoError(t, inf.WaitForVersion(ctx, o.Version))
		got, ok := inf.Get("web")
		require.True(t, ok)
		assert.Equal(t, o, got)

		start := time.Now()
		for n := range 3 {
			require.NoError(t, inf.WaitForVersion(ctx, create(t, jobs, fmt.Sprint(n)).Version))
		}
		assert.LessOrEqual(t, time.Since(start), 300*time.Millisecond)

		for n := range 20 { // faster than anybody can follow
			o = scale(t, apps, "web", n)
		}
		require.NoError(t, apps.Delete(ctx, "web"))
		last := create(t, apps, "next")
		require.NoError(t, inf.WaitForVersion(ctx, last.Version))
		_, ok = inf.Get("web")
		assert.False(t, ok)
		got, ok = inf.Get("next")
		assert.True(t, ok)
		assert.Equal(t, last, got)
	})
}

func TestAListAfterAGapTellsOnlyWhatHasChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, apps := newApps(t, store.MemoryConfig{History: 1})
		create(t, apps, "quiet")
		create(t, apps, "busy")
		inf := informer.New(apps, store.Key[App], informer.Config{Name: "apps"})
		updates := map[string]int{}
		_, err := inf.AddHandler(informer.Handler[string, object]{OnUpdate: func(_, o object) { updates[o.Key]++ }})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- inf.Run(ctx) }() // ends with cancel; the test waits for it
		<-inf.Synced()

		for n := range 5 { // more than the history holds
			scale(t, apps, "busy", n)
		}
		synctest.Wait()
		cancel()
		require.NoError(t, <-done)
		assert.Equal(t, map[string]int{"busy": 1}, updates)
	})
}
