package events_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-go/setpoint/events"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/interceptor"
)

func newStoreSink(t *testing.T, cfg events.Config) (*events.StoreSink, *interceptor.Store[events.Event]) {
	memory, err := store.Open[events.Event](must(store.NewMemory(store.MemoryConfig{})), "event", store.Config[events.Event]{})
	if err != nil {
		t.Fatal(err)
	}
	s := interceptor.New[events.Event](memory)
	sink := events.NewStoreSink(s, cfg)
	return sink, s
}

// stored returns what s holds, the oldest first, without times.
func stored(t *testing.T, s store.Store[events.Event], sel store.Selector) []string {
	l, err := s.Select(context.Background(), sel)
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(l.Items, func(a, b store.Object[events.Event]) int { return a.Value.Last.Compare(b.Value.Last) })
	var all []events.Event
	for _, o := range l.Items {
		all = append(all, o.Value)
	}
	return brief(all)
}

func TestRepeatsUpdateOneObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink, s := newStoreSink(t, events.Config{})
		q := newQueue(t, sink.Write, events.QueueConfig{})
		r := must(events.NewRecorder(events.Config{Sink: q.Put}))
		stop := run(t, q)
		start := time.Now()
		r.Normal(web, "Scaled", "to 3")
		synctest.Wait()
		for range 3 {
			time.Sleep(time.Second)
			r.Warning(shop, "NoCapacity", "no machine")
			synctest.Wait()
		}
		stop()
		if diff := cmp.Diff([]string{"web Normal Scaled to 3 x1", "shop Warning NoCapacity no machine x3"}, stored(t, s, store.Selector{})); diff != "" {
			t.Errorf("stored(t, s, store.Selector{}) mismatch (-want +got):\n%s", diff)
		}
		if got, want := stored(t, s, events.About(web)), ([]string{"web Normal Scaled to 3 x1"}); !slices.Equal(got, want) {
			t.Errorf("stored(t, s, events.About(web)) = %q, want %q", got, want)
		}
		l, err := s.Select(t.Context(), events.About(store.Ref{Kind: "app", Key: "shop"}))
		if err != nil {
			t.Fatal(err)
		}
		if len(l.Items) != 1 {
			t.Fatalf("len(l.Items) = %d, want 1: %v", len(l.Items), l.Items)
		}
		o := l.Items[0]
		if !o.Value.First.Equal(start.Add(time.Second)) {
			t.Error("o.Value.First.Equal(start.Add(time.Second)) is false")
		}
		if !o.Value.Last.Equal(start.Add(3 * time.Second)) {
			t.Error("o.Value.Last.Equal(start.Add(3*time.Second)) is false")
		}
		if diff := cmp.Diff(map[string]string{
			"kind": "app", "key": "shop", "uid": "u2", "type": "Warning", "reason": "NoCapacity",
		}, o.Labels); diff != "" {
			t.Errorf("o.Labels mismatch (-want +got):\n%s", diff)
		}
		if want := regexp.MustCompile("^app/shop/[0-9a-f]{16}$"); !want.MatchString(o.Key) {
			t.Errorf("o.Key = %q, want a match of %s", o.Key, want)
		}
		if got := stored(t, s, events.About(store.Ref{Kind: "app", Key: "shop", UID: "u9"})); len(got) != 0 {
			t.Errorf("stored = %v, want none", got)
		}
	})
}

func TestDifferentEventsAreSeparateObjects(t *testing.T) {
	sink, s := newStoreSink(t, events.Config{TTL: 1e6 * time.Hour})
	base := event("A", 1)
	all := []events.Event{base}
	for _, change := range []func(*events.Event){
		func(e *events.Event) { e.About.Kind = "job" },
		func(e *events.Event) { e.About.Key = "web/x" },
		func(e *events.Event) { e.About.UID = "u9" },
		func(e *events.Event) { e.Type = events.Warning },
		func(e *events.Event) { e.Reason = "B" },
		func(e *events.Event) { e.Message = "x" },
		func(e *events.Event) { e.First = e.First.Add(1); e.Last = e.First },
	} {
		e := base
		change(&e)
		all = append(all, e)
	}
	for range 2 {
		for _, e := range all {
			if err := sink.Write(t.Context(), e); err != nil {
				t.Fatalf("sink.Write(ctx, e): %v", err)
			}
		}
		if got := stored(t, s, store.Selector{}); len(got) != len(all) {
			t.Errorf("writing them again does nothing: len(stored(t, s, store.Selector{})) = %d, want %d: %v", len(got), len(all), got)
		}
	}
	l, err := s.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if int(l.Version) != len(all) {
		t.Errorf("l.Version = %d, want %d", l.Version, len(all))
	}
}

func TestWriteIsIdempotent(t *testing.T) {
	for op, count := range map[string]int{"create": 1, "update": 2} {
		for name, fault := range map[string]interceptor.Fault{"request": interceptor.LoseRequest(), "reply": interceptor.LoseReply()} {
			t.Run(op+" "+name, func(t *testing.T) {
				sink, s := newStoreSink(t, events.Config{TTL: 1e6 * time.Hour})
				if count == 2 {
					if err := sink.Write(t.Context(), event("A", 1)); err != nil {
						t.Fatalf(`sink.Write(ctx, event("A", 1)): %v`, err)
					}
				}
				lost := s.Inject(interceptor.Rule{Op: op, Fault: fault})
				err := sink.Write(t.Context(), event("A", count))
				if !errors.Is(err, interceptor.ErrLost) {
					t.Fatalf("err = %v, want %v", err, interceptor.ErrLost)
				}
				if got, want := fmt.Sprint(err), `events: write A of app "web": store: `+op; !strings.Contains(got, want) {
					t.Errorf("err = %q, want an error that contains %q", got, want)
				}
				for range 2 {
					if err := sink.Write(t.Context(), event("A", count)); err != nil {
						t.Fatalf(`sink.Write(ctx, event("A", count)): %v`, err)
					}
				}
				if err := sink.Write(t.Context(), event("A", 1)); err != nil {
					t.Fatalf(`an earlier state changes nothing: sink.Write(ctx, event("A", 1)): %v`, err)
				}
				if got, want := stored(t, s, store.Selector{}), ([]string{fmt.Sprintf("web Normal A  x%d", count)}); !slices.Equal(got, want) {
					t.Errorf("stored(t, s, store.Selector{}) = %q, want %q", got, want)
				}
				if got := lost.Hits(); got != 1 {
					t.Errorf("lost.Hits() = %v, want 1", got)
				}
			})
		}
	}
}

func TestRepeatOfMissingEventCreatesIt(t *testing.T) {
	sink, s := newStoreSink(t, events.Config{TTL: 1e6 * time.Hour})
	if err := sink.Write(t.Context(), event("A", 7)); err != nil {
		t.Fatalf(`sink.Write(ctx, event("A", 7)): %v`, err)
	}
	if got, want := stored(t, s, store.Selector{}), ([]string{"web Normal A  x7"}); !slices.Equal(got, want) {
		t.Errorf("stored(t, s, store.Selector{}) = %q, want %q", got, want)
	}
}

func TestEventsAboutLongestKeyAreStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink, s := newStoreSink(t, events.Config{})
		for _, n := range []int{backend.MaxKey - 21, backend.MaxKey - 20, backend.MaxKey} { // the kind, two slashes and the hash have 21 bytes
			ref := store.Ref{Kind: "app", Key: strings.Repeat("é", n/2) + strings.Repeat("e", n%2), UID: "u1"}
			e := event("A", 1)
			e.About = ref
			if err := sink.Write(t.Context(), e); err != nil {
				t.Fatalf("sink.Write(ctx, e): %v", err)
			}
			e.Count = 2
			if err := sink.Write(t.Context(), e); err != nil {
				t.Fatalf("sink.Write(ctx, e): %v", err)
			}
			if got, want := stored(t, s, events.About(ref)), ([]string{ref.Key + " Normal A  x2"}); !slices.Equal(got, want) {
				t.Errorf("stored(t, s, events.About(ref)) = %q, want %q", got, want)
			}
		}
	})
}

func TestEventThatCannotBeStoredFailsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink, s := newStoreSink(t, events.Config{})
		q := newQueue(t, sink.Write, events.QueueConfig{})
		q.Put(event("no\xffutf8", 1))
		q.Put(event("no\x00nul", 2))
		q.Put(event("A", 1))
		start := time.Now()
		run(t, q)()
		if got := time.Since(start); got != 0 {
			t.Errorf("time.Since(start) = %v, want 0", got)
		}
		if got, want := q.Stats(), (events.QueueStats{Delivered: 1, Failed: 2}); got != want {
			t.Errorf("q.Stats() = %+v, want %+v", got, want)
		}
		if got, want := stored(t, s, store.Selector{}), ([]string{"web Normal A  x1"}); !slices.Equal(got, want) {
			t.Errorf("stored(t, s, store.Selector{}) = %q, want %q", got, want)
		}
	})
}

func TestOutOfOrderStatesLeaveTheLatest(t *testing.T) {
	sink, s := newStoreSink(t, events.Config{TTL: 1e6 * time.Hour})
	for _, count := range []int{1, 5, 3, 5, 4} {
		if err := sink.Write(t.Context(), event("A", count)); err != nil {
			t.Fatalf(`sink.Write(ctx, event("A", count)): %v`, err)
		}
	}
	if got, want := stored(t, s, store.Selector{}), ([]string{"web Normal A  x5"}); !slices.Equal(got, want) {
		t.Errorf("stored(t, s, store.Selector{}) = %q, want %q", got, want)
	}
}

func TestStoreIsSweptAtStartWhenFullAndPeriodically(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink, s := newStoreSink(t, events.Config{Max: 100})
		sweeps := func(writes int) (n int) {
			s.ForgetCalls()
			for range writes {
				e := events.Event{About: web, Count: 1, First: time.Now(), Last: time.Now()}
				if err := sink.Write(t.Context(), e); err != nil {
					t.Fatalf("sink.Write(ctx, e): %v", err)
				}
				time.Sleep(time.Nanosecond)
			}
			for _, c := range s.Calls() {
				if c.Op == "list" {
					n++
				}
			}
			return n
		}
		if got := sweeps(1); got != 1 {
			t.Errorf("sweeps(1) = %v, want 1", got)
		}
		if got := sweeps(9); got != 0 {
			t.Errorf("sweeps(9) = %v, want 0", got)
		}
		if got := sweeps(50); got != 5 {
			t.Errorf("once for ten new ones: sweeps(50) = %v, want 5", got)
		}
		time.Sleep(6 * time.Minute)
		if got := sweeps(10); got != 1 {
			t.Errorf("sweeps(10) = %v, want 1", got)
		}
	})
}

func TestStoreHoldsNewestMaxEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, limit := range []int{1, 2, 9, 10, 35} {
			sink, s := newStoreSink(t, events.Config{Max: limit})
			random := rand.New(rand.NewPCG(1, 2))
			var newest string
			for n := range 300 {
				time.Sleep(time.Millisecond)
				e := events.Event{About: web, Type: events.Normal, Reason: fmt.Sprint(n), Count: 1, First: time.Now(), Last: time.Now()}
				if random.IntN(10) == 0 { // a repeat of something old, which is the newest now
					e.Reason, e.Count = "Repeat", n+2
					e.First = time.Unix(0, 0)
				}
				if err := sink.Write(t.Context(), e); err != nil {
					t.Fatalf("sink.Write(ctx, e): %v", err)
				}
				newest = e.Reason
				all := stored(t, s, store.Selector{})
				if got := len(all); got > limit {
					t.Fatalf("len(all) = %v, want at most %v", got, limit)
				}
				if got := all[len(all)-1]; !strings.Contains(got, newest) {
					t.Fatalf("all[len(all)-1] = %q, want it to contain %q", got, newest)
				}
			}
			if got, limit := len(stored(t, s, store.Selector{})), limit-limit/10-1; got < limit {
				t.Fatalf("and it is filled: len(stored(t, s, store.Selector{})) = %v, want at least %v", got, limit)
			}
		}
	})
}

func TestExistingEventsCountTowardMax(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, s := newStoreSink(t, events.Config{Max: 500})
		for n := range 300 {
			time.Sleep(time.Millisecond)
			e := events.Event{About: web, Reason: fmt.Sprint(n), Count: 1, First: time.Now(), Last: time.Now()}
			if err := before.Write(t.Context(), e); err != nil {
				t.Fatalf("before.Write(ctx, e): %v", err)
			}
		}
		sink := events.NewStoreSink(s, events.Config{Max: 20})
		e := events.Event{About: web, Type: events.Normal, Reason: "New", Count: 1, First: time.Now(), Last: time.Now()}
		if err := sink.Write(t.Context(), e); err != nil {
			t.Fatalf("sink.Write(ctx, e): %v", err)
		}
		all := stored(t, s, store.Selector{})
		if len(all) != 19 {
			t.Errorf("len(all) = %d, want 19: %v", len(all), all)
		}
		if !strings.Contains(all[0], " 282 ") {
			t.Errorf("all[0] = %q, want it to contain %q", all[0], " 282 ")
		}
	})
}

func TestEventExpiresAfterTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink, s := newStoreSink(t, events.Config{})
		q := newQueue(t, sink.Write, events.QueueConfig{})
		r := must(events.NewRecorder(events.Config{Sink: q.Put}))
		stop := run(t, q)
		r.Normal(web, "Once", "")
		for range 6 {
			r.Normal(web, "Often", "")
			time.Sleep(10 * time.Minute)
		}
		if err := sink.Sweep(t.Context()); err != nil {
			t.Fatalf("sink.Sweep(ctx): %v", err)
		}
		if got, want := stored(t, s, store.Selector{}), ([]string{"web Normal Once  x1", "web Normal Often  x6"}); !slices.Equal(got, want) {
			t.Errorf("an hour is not more than TTL: stored(t, s, store.Selector{}) = %q, want %q", got, want)
		}
		time.Sleep(6*time.Minute + 1)
		r.Normal(shop, "Other", "")
		synctest.Wait()
		if got, want := stored(t, s, store.Selector{}), ([]string{"web Normal Often  x6", "shop Normal Other  x1"}); !slices.Equal(got, want) {
			t.Errorf("stored(t, s, store.Selector{}) = %q, want %q", got, want)
		}
		time.Sleep(time.Hour + 1)
		if err := sink.Sweep(t.Context()); err != nil {
			t.Fatalf("sink.Sweep(ctx): %v", err)
		}
		if got := stored(t, s, store.Selector{}); len(got) != 0 {
			t.Errorf("stored(t, s, store.Selector{}) = %v, want none", got)
		}
		stop()
	})
}

func TestFailedSweepDelaysWriteAndIsRetried(t *testing.T) {
	sink, s := newStoreSink(t, events.Config{})
	down := errors.New("down")
	s.Inject(interceptor.Rule{Op: "list", Times: 2, Fault: interceptor.Fail(down)})
	if err := sink.Write(t.Context(), event("A", 1)); !errors.Is(err, down) {
		t.Fatalf(`sink.Write(ctx, event("A", 1)) = %v, want %v`, err, down)
	}
	if got := s.Writes(); len(got) != 0 {
		t.Errorf("the store may be full: s.Writes() = %v, want none", got)
	}
	err := sink.Sweep(t.Context())
	if !errors.Is(err, down) {
		t.Fatalf("err = %v, want %v", err, down)
	}
	if got, want := fmt.Sprint(err), "events: sweep event: store: list event: down"; got != want {
		t.Errorf("err = %q, want %q", got, want)
	}
	if err := sink.Write(t.Context(), event("A", 1)); err != nil {
		t.Fatalf(`sink.Write(ctx, event("A", 1)): %v`, err)
	}

	s.Inject(interceptor.Rule{Op: "delete", Fault: interceptor.Fail(down)})
	if err := sink.Sweep(t.Context()); !errors.Is(err, down) {
		t.Fatalf("the event is old: sink.Sweep(ctx) = %v, want %v", err, down)
	}
	if err := sink.Sweep(t.Context()); err != nil {
		t.Fatalf("sink.Sweep(ctx): %v", err)
	}
	if got := stored(t, s, store.Selector{}); len(got) != 0 {
		t.Errorf("stored(t, s, store.Selector{}) = %v, want none", got)
	}
}

func TestSweepKeepsEventsRepeatedMeanwhile(t *testing.T) {
	sink, s := newStoreSink(t, events.Config{})
	_, err := s.Create(t.Context(), store.Object[events.Event]{Key: "a"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Create(t.Context(), store.Object[events.Event]{Key: "b"})
	if err != nil {
		t.Fatal(err)
	}
	s.Inject(interceptor.Rule{Op: "delete", Key: "a", Fault: interceptor.Before(func(ctx context.Context) error {
		_, err := store.Patch(ctx, s, "a", func(o *store.Object[events.Event]) error { o.Value.Last = time.Now(); return nil })
		_, errToo := s.Delete(ctx, "b")
		return errors.Join(err, errToo)
	})})
	if err := sink.Sweep(t.Context()); err != nil {
		t.Fatalf("sink.Sweep(ctx): %v", err)
	}
	l, err := s.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(l.Items) != 1 {
		t.Fatalf("len(l.Items) = %d, want 1: %v", len(l.Items), l.Items)
	}
	if l.Items[0].Key != "a" {
		t.Errorf("l.Items[0].Key = %q, want %q", l.Items[0].Key, "a")
	}
}

func TestWritesAreSerializedAndEndWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink, s := newStoreSink(t, events.Config{})
		in := s.Inject(interceptor.Rule{Op: "create", Fault: interceptor.Hang()})
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := sink.Write(t.Context(), event("A", 1)); err != nil {
				t.Errorf(`sink.Write(ctx, event("A", 1)): %v`, err)
			}
		}) // ends when the rule is removed; waited for below
		synctest.Wait()
		late := errors.New("too late")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, late)
		defer cancel()
		if err := sink.Write(ctx, event("B", 1)); !errors.Is(err, late) {
			t.Fatalf(`sink.Write(ctx, event("B", 1)) = %v, want %v`, err, late)
		}
		if err := sink.Sweep(ctx); !errors.Is(err, late) {
			t.Fatalf("sink.Sweep(ctx) = %v, want %v", err, late)
		}
		in.Remove()
		wg.Wait()
		if err := sink.Write(t.Context(), event("C", 1)); err != nil {
			t.Fatalf(`sink.Write(ctx, event("C", 1)): %v`, err)
		}
	})
}

func TestInterruptedSweepIsNotLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink, s := newStoreSink(t, events.Config{TTL: time.Hour})
		s.Inject(interceptor.Rule{Op: "list", Fault: interceptor.Fail(errors.New("down"))})
		s.Inject(interceptor.Rule{Op: "list", Times: -1, Fault: interceptor.Hang()})
		var log bytes.Buffer
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { sink.SweepNowAndThen(ctx, slog.New(slog.NewTextHandler(&log, nil))) }) // ends with cancel; waited for below
		time.Sleep(15 * time.Minute)
		cancel()
		wg.Wait()
		if got := strings.Count(log.String(), "old events not deleted"); got != 1 {
			t.Errorf(`%v: strings.Count(log.String(), "old events not deleted") = %v, want 1`, log.String(), got)
		}
	})
}
