package events_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/events"
	"github.com/setpoint-go/setpoint/store"
)

func TestStoreHasLastCountAfterStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := store.NewMemory(store.MemoryConfig{})
		kept := must(store.Open(db, "Event", store.Config[events.Event]{}))
		var written events.Event
		r := must(events.NewRecorder(events.Config{Store: db, Write: func(_ context.Context, e events.Event) error { written = e; return nil }}))
		stop := start(t.Context(), r)
		for range 100 {
			r.Warning(web, "Broken", "")
			synctest.Wait() // it is written before the next one, so that no states are merged
		}
		assert.Equal(t, []string{"web Warning Broken  x26"}, stored(t, kept, store.Selector{}), "one is new, 25 are repeats within the limit")
		require.NoError(t, stop())
		assert.Equal(t, []string{"web Warning Broken  x100"}, stored(t, kept, store.Selector{}))
		assert.Equal(t, 100, written.Count)
		assert.Equal(t, events.Stats{
			Recorded: 100, Untold: 74, Held: 1, Objects: 1, Write: events.QueueStats{Delivered: 27}, Store: events.QueueStats{Delivered: 27},
		}, r.Stats())

		stop = start(t.Context(), r)
		require.NoError(t, stop())
		assert.EqualValues(t, 27, r.Stats().Store.Delivered, "it was reported before")
		require.NoError(t, r.CheckInvariants())
	})
}

// The limit holds for what the store receives later, too: one repeat of an object per Refill.
func TestLastCountIsReportedAsSoonAsTheLimitAllows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // also before a write that the clock begins
		var all []events.Event
		written := func() []string {
			mu.Lock()
			defer mu.Unlock()
			return brief(all)
		}
		r := must(events.NewRecorder(events.Config{Burst: 2, Write: func(_ context.Context, e events.Event) error {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, e)
			return nil
		}}))
		stop := start(t.Context(), r)
		r.Normal(web, "A", "")
		r.Normal(web, "B", "")
		synctest.Wait()
		for range 10 {
			r.Normal(web, "A", "")
			synctest.Wait()
			r.Normal(web, "B", "")
			synctest.Wait()
		}
		received := []string{"web Normal A  x1", "web Normal B  x1", "web Normal A  x2", "web Normal B  x2"}
		require.Equal(t, received, written())
		time.Sleep(time.Minute)
		synctest.Wait()
		received = append(received, "web Normal A  x11")
		require.Equal(t, received, written())
		time.Sleep(time.Minute)
		synctest.Wait()
		received = append(received, "web Normal B  x11")
		require.Equal(t, received, written())
		time.Sleep(time.Hour)
		require.NoError(t, stop())
		require.Equal(t, received, written(), "there is nothing more to report")
		require.NoError(t, r.CheckInvariants())
	})
}

func TestEventThatMakesRoomLeavesItsLastCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var written []events.Event
		r := must(events.NewRecorder(events.Config{Size: 1, Burst: 1, Write: func(_ context.Context, e events.Event) error {
			written = append(written, e)
			return nil
		}}))
		stop := start(t.Context(), r)
		for range 5 {
			r.Normal(web, "A", "")
			synctest.Wait()
		}
		r.Normal(shop, "B", "") // the ring has one place
		synctest.Wait()
		assert.Equal(t, []string{"web Normal A  x1", "web Normal A  x2", "web Normal A  x5", "shop Normal B  x1"}, brief(written))
		require.NoError(t, stop())
		assert.Len(t, written, 4)
		require.NoError(t, r.CheckInvariants())
	})
}

// A stop while the sink fails leaves the count to the next Run, as it does with every other event.
func TestLastCountSurvivesAFailedDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := true
		var last int
		r := must(events.NewRecorder(events.Config{
			Burst: 1, Logger: slog.New(slog.DiscardHandler), DrainTimeout: time.Second, Write: func(_ context.Context, e events.Event) error {
				if down {
					return errors.New("down")
				}
				last = e.Count
				return nil
			}}))
		stop := start(t.Context(), r)
		for range 5 {
			r.Normal(web, "A", "")
		}
		require.NoError(t, stop())
		down = false
		require.NoError(t, start(t.Context(), r)())
		assert.Equal(t, 5, last)
	})
}

// sleepy is a log that takes a moment.
type sleepy struct{ slog.Handler }

func (s sleepy) Enabled(context.Context, slog.Level) bool { time.Sleep(time.Millisecond); return false }

// No queue ends its drain before it has the last counts.
func TestDrainWaitsForLastCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := store.NewMemory(store.MemoryConfig{})
		kept := must(store.Open(db, "Event", store.Config[events.Event]{}))
		write := func(ctx context.Context, e events.Event) error {
			if e.Reason == "Slow" {
				<-ctx.Done()
			}
			return ctx.Err()
		}
		r := must(events.NewRecorder(events.Config{
			Burst: 1, QueueSize: 1, Store: db, Write: write, Logger: slog.New(sleepy{slog.DiscardHandler}),
		}))
		stop := start(t.Context(), r)
		for range 5 {
			r.Normal(web, "A", "")
			synctest.Wait()
		}
		r.Normal(shop, "Slow", "")
		synctest.Wait()
		r.Normal(store.Ref{Kind: "app", Key: "other"}, "Waits", "") // so that the count of A makes the queue of Write say that it is full
		synctest.Wait()
		require.NoError(t, stop())
		assert.Contains(t, stored(t, kept, store.Selector{}), "web Normal A  x5")
	})
}

func TestFloodOfNormalEventsHidesNoWarning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		r := must(events.NewRecorder(events.Config{Logger: slog.New(slog.NewTextHandler(&out, nil))}))
		for n := range 100 {
			r.Normal(web, "Scaled", fmt.Sprint(n))
		}
		r.Warning(web, "Broken", "")
		assert.EqualValues(t, 75, r.Stats().Limited)
		assert.Contains(t, brief(r.Events()), "web Warning Broken  x1")
		assert.Empty(t, out.String(), "only warnings are worth a line")
	})
}

func TestDroppedWarningIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}))
		n := 0
		flood := func(r *events.Recorder, about store.Ref, times int) string {
			out.Reset()
			for range times {
				n++
				r.Warning(about, "Broken", fmt.Sprint("attempt ", n))
			}
			return out.String()
		}
		r := must(events.NewRecorder(events.Config{Logger: logger}))
		assert.Empty(t, flood(r, web, 25))
		want := "level=WARN msg=\"event dropped: too many new warnings about one object\" kind=app key=web uid=u1 reason=Broken message=\"attempt 26\"\n"
		assert.Equal(t, want, flood(r, web, 10))
		time.Sleep(time.Minute)
		assert.Empty(t, flood(r, web, 10), "the flood goes on")
		assert.Contains(t, flood(r, shop, 30), "key=shop")
		for range 25 {
			r.Normal(web, "Alive", "")
			time.Sleep(time.Minute)
		}
		assert.Equal(t, 1, strings.Count(flood(r, web, 30), "\n"), "another flood")
		assert.EqualValues(t, 10+9+5+5, r.Stats().Limited)
	})
}

func TestFullQueueIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		r := must(events.NewRecorder(events.Config{
			QueueSize: 2, Logger: slog.New(slog.NewTextHandler(&out, nil)), Write: func(context.Context, events.Event) error { return nil },
		}))
		flood := func() string {
			out.Reset()
			for n := range 10 {
				r.Warning(web, "Broken", fmt.Sprint(time.Now(), n))
			}
			return out.String()
		}
		text := flood()
		assert.Equal(t, 1, strings.Count(text, "\n"), text)
		assert.Contains(t, text, `level=WARN msg="event dropped: too many wait" for=Write kind=app key=web uid=u1 reason=Broken message=`)
		assert.EqualValues(t, 8, r.Stats().Write.Dropped)
		assert.Empty(t, flood(), "it is still full")
		require.NoError(t, start(t.Context(), r)())
		time.Sleep(time.Hour)
		assert.Equal(t, 1, strings.Count(flood(), "\n"), "full again")
	})
}
