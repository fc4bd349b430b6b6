package events_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

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
	r := must(events.NewRecorder(events.Config{Write: write, QueueSize: 2, Store: must(store.NewMemory(store.MemoryConfig{}))}))
	for _, key := range []string{"a", "b", "c"} {
		r.Normal(store.Ref{Kind: "app", Key: key}, "Created", "")
	}
	if got := r.Events(); len(got) != 3 {
		t.Errorf("len(r.Events()) = %d, want 3: %v", len(got), got)
	}
	waiting := events.QueueStats{Waiting: 2, Dropped: 1}
	if got, want := r.Stats(), (events.Stats{Recorded: 3, Held: 3, Objects: 3, Write: waiting, Store: waiting}); got != want {
		t.Errorf("r.Stats() = %+v, want %+v", got, want)
	}
}

func TestRecorderDeliversToWriteAndStoreIndependently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := must(store.NewMemory(store.MemoryConfig{}))
		down := errors.New("down")
		fails := func(context.Context, events.Event) error { return down }
		backoff := wait.Backoff{Duration: time.Hour, Steps: 0}
		r := must(events.NewRecorder(events.Config{Name: "history", Write: fails, Backoff: backoff, Store: db, DrainTimeout: time.Second}))
		if got := r.Name(); got != "history" {
			t.Errorf("r.Name() = %q, want %q", got, "history")
		}
		if got := must(events.NewRecorder(events.Config{})).Name(); got != "events" {
			t.Errorf("must(events.NewRecorder(events.Config{})).Name() = %q, want %q", got, "events")
		}
		// A leader of the past records what has happened, too.
		past := store.WithFence(t.Context(), store.Fence{Lease: "lease", Term: 2})
		kept := must(store.Open(db, "Event", store.Config[events.Event]{}))
		must(kept.Create(store.WithFence(t.Context(), store.Fence{Lease: "lease", Term: 3}), store.Object[events.Event]{Key: "x"}))
		stop := start(past, r)
		if err := r.Run(past); !errors.Is(err, events.ErrRunning) {
			t.Fatalf("r.Run(past) = %v, want %v", err, events.ErrRunning)
		}
		r.Normal(store.Ref{Kind: "app", Key: "web"}, "Created", "")
		synctest.Wait()
		list, err := kept.Select(t.Context(), events.About(store.Ref{Kind: "app", Key: "web"}))
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Items) != 1 {
			t.Errorf("len(list.Items) = %d, want 1: %v", len(list.Items), list.Items)
		}
		began := time.Now()
		if err := stop(); err != nil {
			t.Fatalf("stop(): %v", err)
		}
		if got := time.Since(began); got != time.Second {
			t.Errorf("the drain is limited: time.Since(began) = %v, want %v", got, time.Second)
		}
		if got, want := r.Stats().Write, (events.QueueStats{Waiting: 1}); got != want {
			t.Errorf("it waits for the next Run: r.Stats().Write = %+v, want %+v", got, want)
		}
		if got, want := r.Stats().Store, (events.QueueStats{Delivered: 1}); got != want {
			t.Errorf("r.Stats().Store = %+v, want %+v", got, want)
		}
		if err := start(t.Context(), r)(); err != nil {
			t.Fatalf("it may run again: start(ctx, r)(): %v", err)
		}
	})
}

func TestOldEventsExpireWithoutNewEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := must(store.NewMemory(store.MemoryConfig{}))
		r := must(events.NewRecorder(events.Config{Store: db, TTL: 10 * time.Minute}))
		stop := start(t.Context(), r)
		r.Normal(store.Ref{Kind: "app", Key: "web"}, "Created", "")
		synctest.Wait()
		kept := must(store.Open(db, "Event", store.Config[events.Event]{}))
		time.Sleep(10*time.Minute - time.Nanosecond)
		synctest.Wait()
		if got := must(kept.List(t.Context())).Items; len(got) != 1 {
			t.Errorf("len(must(kept.List(ctx)).Items) = %d, want 1: %v", len(got), got)
		}
		time.Sleep(time.Minute + time.Nanosecond)
		synctest.Wait()
		if got := must(kept.List(t.Context())).Items; len(got) != 0 {
			t.Errorf("must(kept.List(ctx)).Items = %v, want none", got)
		}
		if err := stop(); err != nil {
			t.Fatalf("stop(): %v", err)
		}
	})
}

func TestPanickingWriteEndsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := must(events.NewRecorder(events.Config{
			Write: func(context.Context, events.Event) error { panic("boom") }, Store: must(store.NewMemory(store.MemoryConfig{})),
		}))
		r.Normal(store.Ref{Kind: "app", Key: "web"}, "Created", "")
		err := r.Run(t.Context())
		var p *wait.PanicError
		if !errors.As(err, &p) {
			t.Fatalf("err = %v, want one of type *wait.PanicError", err)
		}
		if p.Value != any("boom") {
			t.Errorf("p.Value = %v, want %v", p.Value, "boom")
		}
		if got, want := r.Stats().Write, (events.QueueStats{Failed: 1}); got != want {
			t.Errorf("r.Stats().Write = %+v, want %+v", got, want)
		}
		if got, want := r.Stats().Store, (events.QueueStats{Delivered: 1}); got != want {
			t.Errorf("r.Stats().Store = %+v, want %+v", got, want)
		}
	})
}

func TestIdleRecorderRunsOnceAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := must(events.NewRecorder(events.Config{}))
		stop := start(t.Context(), r)
		if err := r.Run(t.Context()); !errors.Is(err, events.ErrRunning) {
			t.Fatalf("r.Run(ctx) = %v, want %v", err, events.ErrRunning)
		}
		if err := stop(); err != nil {
			t.Fatalf("stop(): %v", err)
		}
	})
}

func TestShortestTTLIsOneNanosecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := must(events.NewRecorder(events.Config{Store: must(store.NewMemory(store.MemoryConfig{})), TTL: 1}))
		stop := start(t.Context(), r)
		time.Sleep(time.Second)
		if err := stop(); err != nil {
			t.Fatalf("stop(): %v", err)
		}
	})
}
