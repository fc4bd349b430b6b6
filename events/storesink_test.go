package events_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/events"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/interceptor"
)

func newStoreSink(t *testing.T, cfg events.Config) (*events.StoreSink, *interceptor.Store[events.Event]) {
	memory, err := store.Open[events.Event](store.NewMemory(store.MemoryConfig{}), "event", store.Config[events.Event]{})
	require.NoError(t, err)
	s := interceptor.New[events.Event](memory)
	sink := events.NewStoreSink(s, cfg)
	return sink, s
}

// stored returns what s holds, the oldest first, without times.
func stored(t *testing.T, s store.Store[events.Event], sel store.Selector) []string {
	l, err := s.Select(context.Background(), sel)
	require.NoError(t, err)
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
		assert.Equal(t, []string{"web Normal Scaled to 3 x1", "shop Warning NoCapacity no machine x3"}, stored(t, s, store.Selector{}))
		assert.Equal(t, []string{"web Normal Scaled to 3 x1"}, stored(t, s, events.About(web)))
		l, err := s.Select(t.Context(), events.About(store.Ref{Kind: "app", Key: "shop"}))
		require.NoError(t, err)
		require.Len(t, l.Items, 1)
		o := l.Items[0]
		assert.True(t, o.Value.First.Equal(start.Add(time.Second)))
		assert.True(t, o.Value.Last.Equal(start.Add(3*time.Second)))
		assert.Equal(t, map[string]string{
			"kind": "app", "key": "shop", "uid": "u2", "type": "Warning", "reason": "NoCapacity",
		}, o.Labels)
		assert.Regexp(t, "^app/shop/[0-9a-f]{16}$", o.Key)
		assert.Empty(t, stored(t, s, events.About(store.Ref{Kind: "app", Key: "shop", UID: "u9"})))
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
			require.NoError(t, sink.Write(t.Context(), e))
		}
		assert.Len(t, stored(t, s, store.Selector{}), len(all), "writing them again does nothing")
	}
	l, err := s.List(t.Context())
	require.NoError(t, err)
	assert.EqualValues(t, len(all), l.Version)
}

func TestWriteIsIdempotent(t *testing.T) {
	for op, count := range map[string]int{"create": 1, "update": 2} {
		for name, fault := range map[string]interceptor.Fault{"request": interceptor.LoseRequest(), "reply": interceptor.LoseReply()} {
			t.Run(op+" "+name, func(t *testing.T) {
				sink, s := newStoreSink(t, events.Config{TTL: 1e6 * time.Hour})
				if count == 2 {
					require.NoError(t, sink.Write(t.Context(), event("A", 1)))
				}
				lost := s.Inject(interceptor.Rule{Op: op, Fault: fault})
				err := sink.Write(t.Context(), event("A", count))
				require.ErrorIs(t, err, interceptor.ErrLost)
				assert.ErrorContains(t, err, `events: write A of app "web": store: `+op)
				for range 2 {
					require.NoError(t, sink.Write(t.Context(), event("A", count)))
				}
				require.NoError(t, sink.Write(t.Context(), event("A", 1)), "an earlier state changes nothing")
				assert.Equal(t, []string{fmt.Sprintf("web Normal A  x%d", count)}, stored(t, s, store.Selector{}))
				assert.Equal(t, 1, lost.Hits())
			})
		}
	}
}

func TestRepeatOfMissingEventCreatesIt(t *testing.T) {
	sink, s := newStoreSink(t, events.Config{TTL: 1e6 * time.Hour})
	require.NoError(t, sink.Write(t.Context(), event("A", 7)))
	assert.Equal(t, []string{"web Normal A  x7"}, stored(t, s, store.Selector{}))
}

func TestEventsAboutLongestKeyAreStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink, s := newStoreSink(t, events.Config{})
		for _, n := range []int{backend.MaxKey - 21, backend.MaxKey - 20, backend.MaxKey} { // the kind, two slashes and the hash have 21 bytes
			ref := store.Ref{Kind: "app", Key: strings.Repeat("é", n/2) + strings.Repeat("e", n%2), UID: "u1"}
			e := event("A", 1)
			e.About = ref
			require.NoError(t, sink.Write(t.Context(), e))
			e.Count = 2
			require.NoError(t, sink.Write(t.Context(), e))
			assert.Equal(t, []string{ref.Key + " Normal A  x2"}, stored(t, s, events.About(ref)))
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
		assert.Zero(t, time.Since(start))
		assert.Equal(t, events.QueueStats{Delivered: 1, Failed: 2}, q.Stats())
		assert.Equal(t, []string{"web Normal A  x1"}, stored(t, s, store.Selector{}))
	})
}

func TestOutOfOrderStatesLeaveTheLatest(t *testing.T) {
	sink, s := newStoreSink(t, events.Config{TTL: 1e6 * time.Hour})
	for _, count := range []int{1, 5, 3, 5, 4} {
		require.NoError(t, sink.Write(t.Context(), event("A", count)))
	}
	assert.Equal(t, []string{"web Normal A  x5"}, stored(t, s, store.Selector{}))
}

func TestStoreIsSweptAtStartWhenFullAndPeriodically(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink, s := newStoreSink(t, events.Config{Max: 100})
		sweeps := func(writes int) (n int) {
			s.ForgetCalls()
			for range writes {
				e := events.Event{About: web, Count: 1, First: time.Now(), Last: time.Now()}
				require.NoError(t, sink.Write(t.Context(), e))
				time.Sleep(time.Nanosecond)
			}
			for _, c := range s.Calls() {
				if c.Op == "list" {
					n++
				}
			}
			return n
		}
		assert.Equal(t, 1, sweeps(1))
		assert.Equal(t, 0, sweeps(9))
		assert.Equal(t, 5, sweeps(50), "once for ten new ones")
		time.Sleep(6 * time.Minute)
		assert.Equal(t, 1, sweeps(10))
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
				require.NoError(t, sink.Write(t.Context(), e))
				newest = e.Reason
				all := stored(t, s, store.Selector{})
				require.LessOrEqual(t, len(all), limit)
				require.Contains(t, all[len(all)-1], newest)
			}
			require.GreaterOrEqual(t, len(stored(t, s, store.Selector{})), limit-limit/10-1, "and it is filled")
		}
	})
}

func TestExistingEventsCountTowardMax(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, s := newStoreSink(t, events.Config{Max: 500})
		for n := range 300 {
			time.Sleep(time.Millisecond)
			e := events.Event{About: web, Reason: fmt.Sprint(n), Count: 1, First: time.Now(), Last: time.Now()}
			require.NoError(t, before.Write(t.Context(), e))
		}
		sink := events.NewStoreSink(s, events.Config{Max: 20})
		e := events.Event{About: web, Type: events.Normal, Reason: "New", Count: 1, First: time.Now(), Last: time.Now()}
		require.NoError(t, sink.Write(t.Context(), e))
		all := stored(t, s, store.Selector{})
		assert.Len(t, all, 19)
		assert.Contains(t, all[0], " 282 ")
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
		require.NoError(t, sink.Sweep(t.Context()))
		assert.Equal(t, []string{"web Normal Once  x1", "web Normal Often  x6"}, stored(t, s, store.Selector{}), "an hour is not more than TTL")
		time.Sleep(6*time.Minute + 1)
		r.Normal(shop, "Other", "")
		synctest.Wait()
		assert.Equal(t, []string{"web Normal Often  x6", "shop Normal Other  x1"}, stored(t, s, store.Selector{}))
		time.Sleep(time.Hour + 1)
		require.NoError(t, sink.Sweep(t.Context()))
		assert.Empty(t, stored(t, s, store.Selector{}))
		stop()
	})
}

func TestFailedSweepDelaysWriteAndIsRetried(t *testing.T) {
	sink, s := newStoreSink(t, events.Config{})
	down := errors.New("down")
	s.Inject(interceptor.Rule{Op: "list", Times: 2, Fault: interceptor.Fail(down)})
	require.ErrorIs(t, sink.Write(t.Context(), event("A", 1)), down)
	assert.Empty(t, s.Writes(), "the store may be full")
	err := sink.Sweep(t.Context())
	require.ErrorIs(t, err, down)
	assert.EqualError(t, err, "events: sweep event: store: list event: down")
	require.NoError(t, sink.Write(t.Context(), event("A", 1)))

	s.Inject(interceptor.Rule{Op: "delete", Fault: interceptor.Fail(down)})
	require.ErrorIs(t, sink.Sweep(t.Context()), down, "the event is old")
	require.NoError(t, sink.Sweep(t.Context()))
	assert.Empty(t, stored(t, s, store.Selector{}))
}

func TestSweepKeepsEventsRepeatedMeanwhile(t *testing.T) {
	sink, s := newStoreSink(t, events.Config{})
	_, err := s.Create(t.Context(), store.Object[events.Event]{Key: "a"})
	require.NoError(t, err)
	_, err = s.Create(t.Context(), store.Object[events.Event]{Key: "b"})
	require.NoError(t, err)
	s.Inject(interceptor.Rule{Op: "delete", Key: "a", Fault: interceptor.Before(func(ctx context.Context) error {
		_, err := store.Patch(ctx, s, "a", func(o *store.Object[events.Event]) error { o.Value.Last = time.Now(); return nil })
		_, errToo := s.Delete(ctx, "b")
		return errors.Join(err, errToo)
	})})
	require.NoError(t, sink.Sweep(t.Context()))
	l, err := s.List(t.Context())
	require.NoError(t, err)
	require.Len(t, l.Items, 1)
	assert.Equal(t, "a", l.Items[0].Key)
}

func TestWritesAreSerializedAndEndWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink, s := newStoreSink(t, events.Config{})
		in := s.Inject(interceptor.Rule{Op: "create", Fault: interceptor.Hang()})
		var wg sync.WaitGroup
		wg.Go(func() { assert.NoError(t, sink.Write(t.Context(), event("A", 1))) }) // ends when the rule is removed; waited for below
		synctest.Wait()
		late := errors.New("too late")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, late)
		defer cancel()
		require.ErrorIs(t, sink.Write(ctx, event("B", 1)), late)
		require.ErrorIs(t, sink.Sweep(ctx), late)
		in.Remove()
		wg.Wait()
		require.NoError(t, sink.Write(t.Context(), event("C", 1)))
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
		assert.Equal(t, 1, strings.Count(log.String(), "old events not deleted"), log.String())
	})
}
