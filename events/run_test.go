package events_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/events"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/wait"
)

// start runs r until stop is called, which returns the error of Run.
func start(ctx context.Context, r *events.Recorder) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }() // ends with cancel; waited for by stop
	synctest.Wait()
	return func() error { cancel(); return <-ended }
}

func TestRecorderRecordsWithoutRun(t *testing.T) {
	write := func(context.Context, events.Event) error { panic("called without Run") }
	r := must(events.NewRecorder(events.Config{Write: write, QueueSize: 2, Store: store.NewMemory(store.MemoryConfig{})}))
	for _, key := range []string{"a", "b", "c"} {
		r.Normal(store.Ref{Kind: "app", Key: key}, "Created", "")
	}
	assert.Len(t, r.Events(), 3)
	waiting := events.QueueStats{Waiting: 2, Dropped: 1}
	assert.Equal(t, events.Stats{Recorded: 3, Held: 3, Objects: 3, Write: waiting, Store: waiting}, r.Stats())
}

func TestPanickingSinkLosesNoEventOfWrite(t *testing.T) {
	write := func(context.Context, events.Event) error { return nil }
	r := must(events.NewRecorder(events.Config{Write: write, Sink: func(events.Event) { panic("sink") }}))
	assert.PanicsWithValue(t, "sink", func() { r.Normal(store.Ref{Kind: "app", Key: "a"}, "Created", "") })
	assert.Equal(t, events.QueueStats{Waiting: 1}, r.Stats().Write)
}

func TestWriteReceivesEventBeforeThoseThatSinkRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var written []string
		cfg := events.Config{Write: func(_ context.Context, e events.Event) error {
			written = append(written, e.Reason)
			return nil
		}}
		var r *events.Recorder
		cfg.Sink = func(e events.Event) {
			if e.Reason == "first" {
				r.Normal(e.About, "second", "")
			}
		}
		r = must(events.NewRecorder(cfg))
		r.Normal(store.Ref{Kind: "app", Key: "a"}, "first", "")
		require.NoError(t, start(t.Context(), r)())
		assert.Equal(t, []string{"first", "second"}, written)
	})
}

func TestRecorderDeliversToWriteAndStoreIndependently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := store.NewMemory(store.MemoryConfig{})
		down := errors.New("down")
		fails := func(context.Context, events.Event) error { return down }
		backoff := wait.Backoff{Duration: time.Hour, Steps: 0}
		r := must(events.NewRecorder(events.Config{Name: "history", Write: fails, Backoff: backoff, Store: db, DrainTimeout: time.Second}))
		assert.Equal(t, "history", r.Name())
		assert.Equal(t, "events", must(events.NewRecorder(events.Config{})).Name())
		// A leader of the past records what has happened, too.
		past := store.WithFence(t.Context(), store.Fence{Lease: "lease", Term: 2})
		kept := must(store.Open(db, "Event", store.Config[events.Event]{}))
		must(kept.Create(store.WithFence(t.Context(), store.Fence{Lease: "lease", Term: 3}), store.Object[events.Event]{Key: "x"}))
		stop := start(past, r)
		require.ErrorIs(t, r.Run(past), events.ErrRunning)
		r.Normal(store.Ref{Kind: "app", Key: "web"}, "Created", "")
		synctest.Wait()
		list, err := kept.Select(t.Context(), events.About(store.Ref{Kind: "app", Key: "web"}))
		require.NoError(t, err)
		assert.Len(t, list.Items, 1)
		began := time.Now()
		require.NoError(t, stop())
		assert.Equal(t, time.Second, time.Since(began), "the drain is limited")
		assert.Equal(t, events.QueueStats{Waiting: 1}, r.Stats().Write, "it waits for the next Run")
		assert.Equal(t, events.QueueStats{Delivered: 1}, r.Stats().Store)
		require.NoError(t, start(t.Context(), r)(), "it may run again")
	})
}

func TestOldEventsExpireWithoutNewEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := store.NewMemory(store.MemoryConfig{})
		r := must(events.NewRecorder(events.Config{Store: db, TTL: 10 * time.Minute}))
		stop := start(t.Context(), r)
		r.Normal(store.Ref{Kind: "app", Key: "web"}, "Created", "")
		synctest.Wait()
		kept := must(store.Open(db, "Event", store.Config[events.Event]{}))
		time.Sleep(10*time.Minute - time.Nanosecond)
		synctest.Wait()
		assert.Len(t, must(kept.List(t.Context())).Items, 1)
		time.Sleep(time.Minute + time.Nanosecond)
		synctest.Wait()
		assert.Empty(t, must(kept.List(t.Context())).Items)
		require.NoError(t, stop())
	})
}

func TestPanickingWriteEndsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := must(events.NewRecorder(events.Config{
			Write: func(context.Context, events.Event) error { panic("boom") }, Store: store.NewMemory(store.MemoryConfig{}),
		}))
		r.Normal(store.Ref{Kind: "app", Key: "web"}, "Created", "")
		err := r.Run(t.Context())
		var p *wait.PanicError
		require.ErrorAs(t, err, &p)
		assert.Equal(t, "boom", p.Value)
		assert.Equal(t, events.QueueStats{Failed: 1}, r.Stats().Write)
		assert.Equal(t, events.QueueStats{Delivered: 1}, r.Stats().Store)
	})
}

func TestIdleRecorderRunsOnceAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := must(events.NewRecorder(events.Config{}))
		stop := start(t.Context(), r)
		require.ErrorIs(t, r.Run(t.Context()), events.ErrRunning)
		require.NoError(t, stop())
	})
}

func TestShortestTTLIsOneNanosecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := must(events.NewRecorder(events.Config{Store: store.NewMemory(store.MemoryConfig{}), TTL: 1}))
		stop := start(t.Context(), r)
		time.Sleep(time.Second)
		require.NoError(t, stop())
	})
}

func TestEachSweepLeavesNineTenthsOfMax(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := store.NewMemory(store.MemoryConfig{})
		r := must(events.NewRecorder(events.Config{Store: db, Max: 10, TTL: time.Hour}))
		stop := start(t.Context(), r)
		for _, key := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"} {
			r.Normal(store.Ref{Kind: "app", Key: key}, "Created", "")
			time.Sleep(time.Second)
		}
		kept := must(store.Open(db, "Event", store.Config[events.Event]{}))
		assert.Len(t, must(kept.List(t.Context())).Items, 10)
		time.Sleep(6 * time.Minute)
		synctest.Wait()
		list := must(kept.List(t.Context()))
		assert.Len(t, list.Items, 9)
		for _, o := range list.Items {
			assert.NotEqual(t, "a", o.Value.About.Key, "the oldest is gone, long before its TTL")
		}
		require.NoError(t, stop())
	})
}

func TestStoreWithOtherEventsIsRejected(t *testing.T) {
	db := store.NewMemory(store.MemoryConfig{})
	must(store.Open(db, "Event", store.Config[string]{}))
	_, err := events.NewRecorder(events.Config{Store: db})
	require.ErrorContains(t, err, "events: new recorder: Config.Store: ")
}
