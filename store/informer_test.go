package store_test

import (
	"context"
	"fmt"
	"iter"
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
	_ informer.Equaler[object]     = (store.Store[App])(nil)
	_ informer.Pager[object]       = (store.Store[App])(nil)
	_ informer.Bookmarker          = (store.Store[App])(nil)
)

// An informer of a quiet kind reaches the version of a write to another kind, and one that falls out of the history lists
// again: the promises of Memory that an informer lives on.
func TestInformerFollowsMemoryStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, apps := newApps(t, store.MemoryConfig{History: 5})
		jobs := open[App](t, db, "job")
		create(t, apps, "web")
		inf := must(informer.New(apps, store.Key, informer.Config{Name: "apps"}))
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
		require.NoError(t, errOf(apps.Delete(ctx, "web")))
		last := create(t, apps, "next")
		require.NoError(t, inf.WaitForVersion(ctx, last.Version))
		_, ok = inf.Get("web")
		assert.False(t, ok)
		got, ok = inf.Get("next")
		assert.True(t, ok)
		assert.Equal(t, last, got)
	})
}

// gapped is a store whose watches tell nothing, but that there was a gap.
type gapped struct {
	store.Store[App]
	gaps chan struct{} // capacity 1; the test sends, nobody closes
}

func (g gapped) Watch(ctx context.Context, _ informer.Version) iter.Seq2[informer.Event[object], error] {
	return func(yield func(informer.Event[object], error) bool) {
		select {
		case <-g.gaps:
			yield(informer.Event[object]{}, informer.ErrExpired)
		case <-ctx.Done():
		}
	}
}

func TestListAfterGapReportsOnlyChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, apps := newApps(t, store.MemoryConfig{})
		create(t, apps, "quiet")
		create(t, apps, "busy")
		source := gapped{apps, make(chan struct{}, 1)}
		inf := must(informer.New(source, store.Key, informer.Config{Name: "apps"}))
		updates := map[string]int{}
		handler, err := inf.AddHandler(informer.Handler[string, object]{OnUpdate: func(_, o object) { updates[o.Key]++ }})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- inf.Run(ctx) }() // ends with cancel; the test waits for it
		<-handler.Synced()                   // or what follows would be part of its first list

		scale(t, apps, "busy", 1)
		last := scale(t, apps, "busy", 2)
		source.gaps <- struct{}{}
		require.NoError(t, inf.WaitForVersion(ctx, last.Version))
		synctest.Wait()
		cancel()
		require.NoError(t, <-done)
		assert.Equal(t, map[string]int{"busy": 1}, updates)
	})
}
