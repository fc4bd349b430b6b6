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
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

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
		if err := <-done; err != nil {
			t.Fatalf("<-done: %v", err)
		}
	}
}

func TestEventsAreDeliveredInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{}
		q := newQueue(t, s.write, events.QueueConfig{})
		q.Put(event("A", 1))
		stop := run(t, q)
		q.Put(event("B", 1))
		synctest.Wait()
		q.Put(event("C", 1))
		synctest.Wait()
		if got, want := s.all(), ([]string{"A x1", "B x1", "C x1"}); !slices.Equal(got, want) {
			t.Errorf("s.all() = %q, want %q", got, want)
		}
		stop()
		q.Put(event("D", 1))
		if got, want := q.Stats(), (events.QueueStats{Waiting: 1, Delivered: 3}); got != want {
			t.Errorf("q.Stats() = %+v, want %+v", got, want)
		}
		run(t, q)() // a queue may be run again
		if got := s.all()[3]; got != "D x1" {
			t.Errorf("s.all()[3] = %q, want %q", got, "D x1")
		}
	})
}

func TestPutNeverBlocksAndDropsOldest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		s := &slow{do: func(context.Context, events.Event) error { <-hold; return nil }}
		q := newQueue(t, s.write, events.QueueConfig{Size: 3})
		stop := run(t, q)
		q.Put(event("first", 1))
		synctest.Wait() // the sink is at it
		start := time.Now()
		for n := range 100 {
			q.Put(event(fmt.Sprint(n), 1))
			if err := q.CheckInvariants(n+2, 1); err != nil {
				t.Fatalf("q.CheckInvariants(n+2, 1): %v", err)
			}
		}
		if got := time.Since(start); got != 0 {
			t.Errorf("time.Since(start) = %v, want 0", got)
		}
		if got, want := q.Stats(), (events.QueueStats{Waiting: 3, Dropped: 97}); got != want {
			t.Errorf("q.Stats() = %+v, want %+v", got, want)
		}
		close(hold)
		stop()
		if got, want := s.all(), ([]string{"first x1", "97 x1", "98 x1", "99 x1"}); !slices.Equal(got, want) {
			t.Errorf("s.all() = %q, want %q", got, want)
		}
		if got, want := q.Stats(), (events.QueueStats{Delivered: 4, Dropped: 97}); got != want {
			t.Errorf("q.Stats() = %+v, want %+v", got, want)
		}
	})
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
		if got, want := q.Stats(), (events.QueueStats{Waiting: 2, Merged: 101}); got != want {
			t.Errorf("q.Stats() = %+v, want %+v", got, want)
		}
		q.Put(again)
		if got, want := q.Stats(), (events.QueueStats{Waiting: 2, Merged: 101, Dropped: 1}); got != want {
			t.Errorf("q.Stats() = %+v, want %+v", got, want)
		}
		if err := q.CheckInvariants(104, 0); err != nil {
			t.Fatalf("q.CheckInvariants(104, 0): %v", err)
		}
		run(t, q)()
		if got, want := s.all(), ([]string{"B x1", "B x1"}); !slices.Equal(got, want) {
			t.Errorf("s.all() = %q, want %q", got, want)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s := &slow{}
		q := newQueue(t, s.write, events.QueueConfig{})
		for _, n := range []int{1, 3, 2} {
			q.Put(event("A", n))
		}
		run(t, q)()
		if got, want := s.all(), ([]string{"A x3"}); !slices.Equal(got, want) {
			t.Errorf("s.all() = %q, want %q", got, want)
		}
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
		if want := ([]time.Duration{0, s, 3 * s, 7 * s, 7 * s, 7 * s}); !slices.Equal(at, want) {
			t.Errorf("at = %v, want %v", at, want)
		}
		if got, want := q.Stats(), (events.QueueStats{Delivered: 1, Failed: 2}); got != want {
			t.Errorf("q.Stats() = %+v, want %+v", got, want)
		}
		stop()
		if got, want := log.String(), `level=WARN msg="event not delivered" kind=app key=web reason=Never error=`; !strings.Contains(got, want) {
			t.Errorf("log.String() = %q, want it to contain %q", got, want)
		}
		if got := bytes.Count(log.Bytes(), []byte("\n")); got != 2 {
			t.Errorf(`one line each: bytes.Count(log.Bytes(), []byte("\n")) = %v, want 2`, got)
		}
	})
}

func TestDefaultBackoffMakesFiveAttemptsWithinHalfAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{do: func(context.Context, events.Event) error { return errors.New("down") }}
		q := newQueue(t, s.write, events.QueueConfig{})
		stop := run(t, q)
		q.Put(event("A", 1))
		time.Sleep(14 * time.Second)
		if got := q.Stats().Failed; got != 0 {
			t.Errorf("q.Stats().Failed = %v, want 0", got)
		}
		time.Sleep(10 * time.Second)
		if got := s.all(); len(got) != 5 {
			t.Errorf("len(s.all()) = %d, want 5: %v", len(got), got)
		}
		if got := q.Stats().Failed; got != 1 {
			t.Errorf("q.Stats().Failed = %v, want 1", got)
		}
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
		if got := time.Since(start); got != 2500*time.Millisecond {
			t.Errorf("time.Since(start) = %v, want %v", got, 2500*time.Millisecond)
		}
		if got, want := s.all(), ([]string{"A x1", "B x1", "C x1"}); !slices.Equal(got, want) {
			t.Errorf("s.all() = %q, want %q", got, want)
		}
		if got, want := q.Stats(), (events.QueueStats{Delivered: 3}); got != want {
			t.Errorf("q.Stats() = %+v, want %+v", got, want)
		}
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
				if got := time.Since(start); got != time.Minute {
					t.Errorf("time.Since(start) = %v, want %v", got, time.Minute)
				}
				if got := q.Stats(); got != c.stats {
					t.Errorf("q.Stats() = %+v, want %+v", got, c.stats)
				}
				if got, want := log.String(), fmt.Sprintf("msg=\"events not delivered yet\" events=%d", c.stats.Waiting); !strings.Contains(got, want) {
					t.Errorf("log.String() = %q, want it to contain %q", got, want)
				}
				if got, unwanted := log.String(), "msg=\"event not delivered\""; strings.Contains(got, unwanted) {
					t.Errorf("it is delivered by the next Run: log.String() = %q, want it not to contain %q", got, unwanted)
				}
				if err := q.CheckInvariants(2+len(c.meanwhile), 0); err != nil {
					t.Fatalf("q.CheckInvariants(2+len(c.meanwhile), 0): %v", err)
				}
				s.do, s.got = nil, nil
				run(t, q)()
				if diff := cmp.Diff(c.want, s.all()); diff != "" {
					t.Errorf("s.all() mismatch (-want +got):\n%s", diff)
				}
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
				if err := g.Wait(); err == nil {
					t.Fatal("the caller of Run gets the error: g.Wait() = nil, want an error")
				}
				if got, want := q.Stats(), (events.QueueStats{Failed: 1, Waiting: 1}); got != want {
					t.Errorf("q.Stats() = %+v, want %+v", got, want)
				}
				if err := q.CheckInvariants(2, 0); err != nil {
					t.Fatalf("q.CheckInvariants(2, 0): %v", err)
				}
				s.do = nil
				run(t, q)()
				if got, want := s.all(), ([]string{"A x1", "B x1"}); !slices.Equal(got, want) {
					t.Errorf("s.all() = %q, want %q", got, want)
				}
				if got, want := q.Stats(), (events.QueueStats{Failed: 1, Delivered: 1}); got != want {
					t.Errorf("q.Stats() = %+v, want %+v", got, want)
				}
			})
		})
	}
}

func TestQueueRunsOnceAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, (&slow{}).write, events.QueueConfig{})
		stop := run(t, q)
		synctest.Wait()
		if err := q.Run(t.Context()); !errors.Is(err, events.ErrRunning) {
			t.Fatalf("q.Run(ctx) = %v, want %v", err, events.ErrRunning)
		}
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
				if got := q.Stats(); got != want {
					t.Fatalf("q.Stats() = %+v, want %+v", got, want)
				}
				if all := s.all(); !slices.Equal(all, got) {
					t.Fatalf("s.all() = %q, want %q", all, got)
				}
				if err := q.CheckInvariants(put, inFlight); err != nil {
					t.Fatalf("q.CheckInvariants(put, inFlight): %v", err)
				}
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
	if err := q.CheckInvariants(writers*each, 0); err != nil {
		t.Fatalf("q.CheckInvariants(writers*each, 0): %v", err)
	}
	if got := q.Stats().Dropped; got != 0 {
		t.Errorf("eight events fit: q.Stats().Dropped = %v, want 0", got)
	}
	for _, e := range r.Events() {
		if last[e.Reason] != e.Count {
			t.Errorf("the final state was delivered: last[e.Reason] = %v, want %v", last[e.Reason], e.Count)
		}
	}
	if len(last) != 8 {
		t.Fatalf("len(last) = %d, want 8: %v", len(last), last)
	}
}

func TestEventsPutBeforeStopAreDelivered(t *testing.T) {
	q := newQueue(t, (&slow{}).write, events.QueueConfig{})
	for n := range 3000 {
		stop := run(t, q)
		for range n % 64 {
			runtime.Gosched() // Run is somewhere between its beginning and its rest
		}
		q.Put(event(fmt.Sprint(n), 1))
		stop()
		if got, want := q.Stats(), (events.QueueStats{Delivered: uint64(n + 1)}); got != want {
			t.Fatalf("q.Stats() = %+v, want %+v", got, want)
		}
	}
}
