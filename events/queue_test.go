package events_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/events"
	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/wait"
)

// event returns an event about web that has happened count times.
func event(reason string, count int) events.Event {
	first := time.Date(2024, 1, 1, 12, 0, 0, 0, time.UTC)
	return events.Event{
		About: web, Type: events.Normal, Reason: reason, Count: count,
		First: first, Last: first.Add(time.Duration(count-1) * time.Second),
	}
}

// slow is a sink that remembers what it got, and does with each event what do says, which may be nil.
type slow struct {
	do func(ctx context.Context, e events.Event) error

	mu  sync.Mutex
	got []string // guarded by mu
}

func (s *slow) write(ctx context.Context, e events.Event) error {
	s.mu.Lock()
	s.got = append(s.got, fmt.Sprintf("%s x%d", e.Reason, e.Count))
	s.mu.Unlock()
	if s.do == nil {
		return nil
	}
	return s.do(ctx, e)
}

func (s *slow) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.got)
}

func newQueue(_ *testing.T, sink func(context.Context, events.Event) error, cfg events.QueueConfig) *events.Queue {
	cfg.Logger = slog.New(slog.DiscardHandler)
	return events.NewQueue(sink, cfg)
}

// run runs q in a goroutine of its own until stop is called, which returns when it has ended.
func run(t *testing.T, q *events.Queue) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- q.Run(ctx) }() // ends with cancel; waited for by stop
	return func() {
		cancel()
		require.NoError(t, <-done)
	}
}

func TestRepeatsOfQueuedEventAreMerged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{}
		q := newQueue(t, s.write, events.QueueConfig{Size: 2})
		q.Put(event("A", 1))
		q.Put(event("B", 1))
		for n := range 100 {
			q.Put(event("A", n+2))
		}
		q.Put(event("A", 50)) // late
		again := event("B", 1)
		again.First = again.First.Add(time.Hour) // made room meanwhile, and was recorded anew
		assert.Equal(t, events.QueueStats{Waiting: 2, Merged: 101}, q.Stats())
		q.Put(again)
		assert.Equal(t, events.QueueStats{Waiting: 2, Merged: 101, Dropped: 1}, q.Stats())
		require.NoError(t, q.CheckInvariants(104, 0))
		run(t, q)()
		assert.Equal(t, []string{"B x1", "B x1"}, s.all())
	})
}

func TestEventIsRetriedWithBackoffThenDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var at []time.Duration
		start := time.Now()
		down := errors.New("down")
		q := events.NewQueue(func(_ context.Context, e events.Event) error {
			at = append(at, time.Since(start))
			switch e.Reason {
			case "Never":
				return down
			case "Forbidden":
				return retry.Permanent(down)
			}
			return nil
		}, events.QueueConfig{
			Backoff: wait.Backoff{Duration: time.Second, Factor: 2, Steps: 4},
			Logger:  slog.New(slog.NewTextHandler(&log, nil)),
		})
		stop := run(t, q)
		q.Put(event("Never", 1))
		q.Put(event("Next", 1))
		q.Put(event("Forbidden", 1))
		time.Sleep(time.Minute)
		synctest.Wait()
		s := time.Second
		assert.Equal(t, []time.Duration{0, s, 3 * s, 7 * s, 7 * s, 7 * s}, at)
		assert.Equal(t, events.QueueStats{Delivered: 1, Failed: 2}, q.Stats())
		stop()
		assert.Contains(t, log.String(), `level=WARN msg="event not delivered" kind=app key=web reason=Never error=`)
		assert.Equal(t, 2, bytes.Count(log.Bytes(), []byte("\n")), "one line each")
	})
}

func TestDefaultBackoffMakesFiveAttemptsWithinHalfAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{do: func(context.Context, events.Event) error { return errors.New("down") }}
		q := newQueue(t, s.write, events.QueueConfig{})
		stop := run(t, q)
		q.Put(event("A", 1))
		time.Sleep(14 * time.Second)
		assert.Zero(t, q.Stats().Failed)
		time.Sleep(10 * time.Second)
		assert.Len(t, s.all(), 5)
		assert.EqualValues(t, 1, q.Stats().Failed)
		stop()
	})
}

func TestStopDrainsQueueAndLetsSinkFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{do: func(ctx context.Context, _ events.Event) error {
			select {
			case <-time.After(time.Second):
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}}
		q := newQueue(t, s.write, events.QueueConfig{})
		stop := run(t, q)
		for _, reason := range []string{"A", "B", "C"} {
			q.Put(event(reason, 1))
		}
		time.Sleep(time.Second / 2)
		start := time.Now()
		stop()
		assert.Equal(t, 2500*time.Millisecond, time.Since(start))
		assert.Equal(t, []string{"A x1", "B x1", "C x1"}, s.all())
		assert.Equal(t, events.QueueStats{Delivered: 3}, q.Stats())
	})
}

func TestDrainTimeoutLeavesEventsToNextRun(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile []events.Event
		want      []string // of the next run
		stats     events.QueueStats
	}{
		"as it was":                    {nil, []string{"A x1", "B x1"}, events.QueueStats{Waiting: 2}},
		"with a repeat":                {[]events.Event{event("A", 2)}, []string{"B x1", "A x2"}, events.QueueStats{Waiting: 2, Merged: 1}},
		"with a late earlier state":    {[]events.Event{event("A", 0)}, []string{"B x1", "A x1"}, events.QueueStats{Waiting: 2, Merged: 1}},
		"with two more, and no room":   {[]events.Event{event("C", 1), event("D", 1)}, []string{"B x1", "C x1", "D x1"}, events.QueueStats{Waiting: 3, Dropped: 1}},
		"with one more, and just room": {[]events.Event{event("C", 1)}, []string{"A x1", "B x1", "C x1"}, events.QueueStats{Waiting: 3}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				s := &slow{do: func(ctx context.Context, _ events.Event) error { <-ctx.Done(); return ctx.Err() }}
				q := events.NewQueue(s.write, events.QueueConfig{
					Size: 3, DrainTimeout: time.Minute, Logger: slog.New(slog.NewTextHandler(&log, nil)),
				})
				stop := run(t, q)
				q.Put(event("A", 1))
				q.Put(event("B", 1))
				synctest.Wait()
				start := time.Now()
				time.AfterFunc(time.Second, func() {
					for _, e := range c.meanwhile {
						q.Put(e)
					}
				})
				stop()
				assert.Equal(t, time.Minute, time.Since(start))
				assert.Equal(t, c.stats, q.Stats())
				assert.Contains(t, log.String(), fmt.Sprintf("msg=\"events not delivered yet\" events=%d", c.stats.Waiting))
				assert.NotContains(t, log.String(), "msg=\"event not delivered\"", "it is delivered by the next Run")
				require.NoError(t, q.CheckInvariants(2+len(c.meanwhile), 0))
				s.do, s.got = nil, nil
				run(t, q)()
				assert.Equal(t, c.want, s.all())
			})
		})
	}
}

func TestPanickingSinkFailsEventAndNextRunContinues(t *testing.T) {
	for name, crash := range map[string]func(){"a panic": func() { panic("boom") }, "a Goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &slow{do: func(context.Context, events.Event) error { crash(); return nil }}
				q := newQueue(t, s.write, events.QueueConfig{})
				q.Put(event("A", 1))
				q.Put(event("B", 1))
				var g wait.Group
				g.Start(t.Context(), q.Run)
				require.Error(t, g.Wait(), "the caller of Run gets the error")
				assert.Equal(t, events.QueueStats{Failed: 1, Waiting: 1}, q.Stats())
				require.NoError(t, q.CheckInvariants(2, 0))
				s.do = nil
				run(t, q)()
				assert.Equal(t, []string{"A x1", "B x1"}, s.all())
				assert.Equal(t, events.QueueStats{Failed: 1, Delivered: 1}, q.Stats())
			})
		})
	}
}

func TestQueueRunsOnceAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, (&slow{}).write, events.QueueConfig{})
		stop := run(t, q)
		synctest.Wait()
		require.ErrorIs(t, q.Run(t.Context()), events.ErrRunning)
		stop()
	})
}

// The model is a slice. The sink takes one event at a time, and rejects some of them permanently.
func TestQueueMatchesSlice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for seed := range uint64(4) {
			random := rand.New(rand.NewPCG(seed, 1))
			size := 1 + random.IntN(4)
			verdicts := make(chan error)
			s := &slow{do: func(context.Context, events.Event) error { return <-verdicts }}
			q := newQueue(t, s.write, events.QueueConfig{Size: size})
			stop := run(t, q)
			var (
				waiting []events.Event
				busy    *events.Event
				want    events.QueueStats
				put     int
				got     []string
			)
			next := func() {
				if busy == nil && len(waiting) > 0 {
					busy, waiting = &waiting[0], slices.Clone(waiting[1:])
					got = append(got, fmt.Sprintf("%s x%d", busy.Reason, busy.Count))
				}
			}
			for range 1000 {
				if random.IntN(3) == 0 && busy != nil {
					if busy = nil; random.IntN(4) == 0 {
						want.Failed++
						verdicts <- retry.Permanent(errors.New("no"))
					} else {
						want.Delivered++
						verdicts <- nil
					}
				} else {
					e := event(string(rune('A'+random.IntN(6))), 1+random.IntN(5))
					put++
					q.Put(e)
					i := slices.IndexFunc(waiting, func(w events.Event) bool { return w.Reason == e.Reason })
					switch {
					case i >= 0:
						want.Merged++
						if waiting[i].Count < e.Count {
							waiting[i] = e
						}
					case len(waiting) == size:
						want.Dropped++
						waiting = append(slices.Clone(waiting[1:]), e)
					default:
						waiting = append(waiting, e)
					}
				}
				synctest.Wait()
				next()
				inFlight := 0
				if busy != nil {
					inFlight = 1
				}
				want.Waiting = len(waiting)
				require.Equal(t, want, q.Stats())
				require.Equal(t, got, s.all())
				require.NoError(t, q.CheckInvariants(put, inFlight))
			}
			close(verdicts) // the rest is taken
			stop()
		}
	})
}

func TestConcurrentRecordIntoRestartingQueue(t *testing.T) {
	var mu sync.Mutex
	last := map[string]int{}
	q := newQueue(t, func(_ context.Context, e events.Event) error {
		mu.Lock()
		defer mu.Unlock()
		last[e.Reason] = max(last[e.Reason], e.Count)
		return nil
	}, events.QueueConfig{Size: 8})
	r := must(events.NewRecorder(events.Config{Burst: -1, Sink: q.Put}))
	const writers, each = 4, 300
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() { // ends after its calls; waited for below
			for n := range each {
				r.Normal(web, fmt.Sprint(n%8), "")
			}
		})
	}
	for range 20 {
		run(t, q)()
	}
	wg.Wait()
	run(t, q)()
	require.NoError(t, q.CheckInvariants(writers*each, 0))
	assert.Zero(t, q.Stats().Dropped, "eight events fit")
	for _, e := range r.Events() {
		assert.Equal(t, e.Count, last[e.Reason], "the final state was delivered")
	}
	require.Len(t, last, 8)
}

// An event must not be lost if it is put, and Run is stopped, just after Run has found no event. Puts keep Run busy, so it is often there.
func TestEventsPutBeforeStopAreDelivered(t *testing.T) {
	q := newQueue(t, (&slow{}).write, events.QueueConfig{})
	put := 0
	for n := range 3000 {
		stop := run(t, q)
		for range 1 + n%64 {
			q.Put(event(fmt.Sprint(put), 1))
			put++
			runtime.Gosched()
		}
		stop()
		require.Equal(t, events.QueueStats{Delivered: uint64(put)}, q.Stats())
	}
}
