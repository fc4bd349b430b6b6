package informer_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/wait"
)

// slotNumber is the slot of a shard that is a number.
func slotNumber(shardKey string) int {
	n, err := strconv.Atoi(shardKey)
	if err != nil {
		panic(err)
	}
	return n
}

// field is an informer of plots, whose shards are the numbers of their slots.
type field struct {
	t    *testing.T
	s    *plotSource
	in   *informer.Informer[string, plot]
	gate chan struct{} // each call of a handler waits for a token, if it is not nil
	looptest.Log[string]
}

// newField returns a field with one plot in each of the slots 0 to 3: a, b, c, and d. The informer does not run.
func newField(t *testing.T) *field {
	f := &field{t: t, s: newPlotSource(1)}
	f.in = must(informer.New(informer.Divide(f.s.kind(0), plotShard), plotName, informer.Config{OnError: func(error) {}}))
	f.in.Share(slotNumber, nil)
	for slot, name := range []string{"a", "b", "c", "d"} {
		f.put(name, slot)
	}
	return f
}

// startField returns a field whose informer runs, with a handler.
func startField(t *testing.T, h informer.Handler[string, plot]) *field {
	f := newField(t)
	f.add(h)
	looptest.StartInBubble(t, f.in.Run)
	return f
}

func (f *field) put(name string, slot int) {
	f.s.commit(false, plot{Name: name, Shard: strconv.Itoa(slot)})
}

func (f *field) delete(name string) { f.s.commit(false, plot{Name: name}) }

// add adds a handler that logs its calls.
func (f *field) add(h informer.Handler[string, plot]) {
	note := func(format string, args ...any) {
		if f.Add(fmt.Sprintf(format, args...)); f.gate != nil {
			<-f.gate
		}
	}
	h.OnAdd = func(p plot, initial bool) { note("add %s.%d initial=%t", p.Name, p.Rev, initial) }
	h.OnUpdate = func(old, p plot) { note("update %s.%d %d", p.Name, old.Rev, p.Rev) }
	h.OnDelete = func(d cache.Tombstone[string, plot]) { note("delete %s.%d", d.Key, d.Object.Rev) }
	h.OnDrop = func(p plot) { note("drop %s.%d", p.Name, p.Rev) }
	must(f.in.AddHandler(h))
}

func (f *field) take() []string {
	synctest.Wait()
	return f.Take()
}

// names returns the names in the cache, in order.
func (f *field) names() []string {
	synctest.Wait()
	return slices.Sorted(f.in.Keys())
}

// hold calls Hold in a goroutine, which ends with the call.
func (f *field) hold(ctx context.Context, slot int) (result chan error) {
	result = make(chan error, 1)
	go func() { result <- f.in.Hold(ctx, slot) }()
	synctest.Wait()
	return result
}

func (f *field) mustHold(slots ...int) {
	f.t.Helper()
	for _, slot := range slots {
		require.NoError(f.t, f.in.Hold(f.t.Context(), slot))
	}
}

// returned returns the result of a Hold that has returned.
func (f *field) returned(result chan error) error {
	f.t.Helper()
	synctest.Wait()
	select {
	case err := <-result:
		return err
	default:
		f.t.Error("Hold has not returned")
		return nil
	}
}

func pending(t *testing.T, result chan error) {
	t.Helper()
	synctest.Wait()
	assert.Empty(t, result, "Hold has returned")
}

// kinds are the kinds of handlers that must get the same calls when they are not slow.
var kinds = map[string]informer.Handler[string, plot]{"merging": {}, "every": {EveryEvent: true}, "inline": {Inline: true}}

func TestShareAfterRunPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := must(informer.New(informer.Divide(newPlotSource(1).kind(0), plotShard), plotName, informer.Config{}))
		defer looptest.StartInBubble(t, in.Run)()
		assert.Panics(t, func() { in.Share(slotOf, nil) })
	})
}

func TestShareDoesNothingWithoutDivide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newPlotSource(1)
		s.commit(false, plot{Name: "a", Shard: "1"})
		in := must(informer.New(s.kind(0), plotName, informer.Config{}))
		assert.False(t, in.Divided())
		in.Share(slotNumber, nil)
		defer looptest.StartInBubble(t, in.Run)()
		_, ok := in.Get("a")
		assert.True(t, ok)
		assert.Panics(t, func() { in.Share(nil, nil) })
	})
}

func TestWithoutShareInformerOfDivideHoldsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newPlotSource(1)
		s.commit(false, plot{Name: "a", Shard: "1"}, plot{Name: "b", Shard: "2"})
		in := must(informer.New(informer.Divide(s.kind(0), plotShard), plotName, informer.Config{}))
		assert.True(t, in.Divided())
		defer looptest.StartInBubble(t, in.Run)()
		require.NoError(t, in.Hold(t.Context(), 1))
		in.Drop(1)
		s.commit(false, plot{Name: "c", Shard: "3"})
		synctest.Wait()
		assert.Equal(t, []string{"a", "b", "c"}, slices.Sorted(in.Keys()))
		assert.Empty(t, in.Held())
		assert.Empty(t, maps.Collect(in.InSlot(1)))
		_, ok := in.Slot(plot{Name: "a", Shard: "1"})
		assert.False(t, ok)
	})
}

func TestNewRefusesFilterOrMapAroundDivide(t *testing.T) {
	divided := informer.Divide(newPlotSource(1).kind(0), plotShard)
	for name, src := range map[string]informer.ListWatcher[plot]{
		"Filter": informer.Filter(divided, func(plot) bool { return true }),
		"Map":    informer.Map(divided, func(p plot) plot { return p }),
		"both":   informer.Map(informer.Filter(divided, func(plot) bool { return true }), func(p plot) plot { return p }),
	} {
		_, err := informer.New(src, plotName, informer.Config{})
		assert.ErrorContains(t, err, "Divide", name)
	}
	inside := informer.Filter(newPlotSource(1).kind(0), func(plot) bool { return true })
	in, err := informer.New(informer.Divide(inside, plotShard), plotName, informer.Config{})
	require.NoError(t, err)
	assert.True(t, in.Divided())
}

func TestHoldWhoseContextEndsLeavesNothingBehind(t *testing.T) {
	for name, h := range kinds {
		looptest.Bubble(t, name, func(t *testing.T) {
			f := startField(t, h)
			f.mustHold(1)
			f.take()
			f.s.slow = time.Second
			ctx, cancel := context.WithCancel(t.Context())
			result := f.hold(ctx, 0)
			cancel()
			require.ErrorIs(t, f.returned(result), context.Canceled)
			time.Sleep(time.Minute)
			assert.Equal(t, []string{"b"}, f.names())
			assert.Equal(t, []int{1}, f.in.Held())
			f.put("a", 0)
			f.put("b", 1)
			assert.Equal(t, []string{"b"}, f.names())
			calls := slices.DeleteFunc(f.take(), func(call string) bool { return call == "add a.1 initial=true" || call == "drop a.1" })
			assert.Equal(t, []string{"update b.2 6"}, calls, "slot 1 loses nothing")
		})
	}
}

func TestDropDuringHoldMakesHoldReturnError(t *testing.T) {
	for name, down := range map[string]bool{"list in flight": false, "source down": true} {
		looptest.Bubble(t, name, func(t *testing.T) {
			f := startField(t, informer.Handler[string, plot]{})
			f.mustHold(1)
			f.s.slow = time.Second
			f.s.set(func() { f.s.down = down })
			result := f.hold(t.Context(), 0)
			pending(t, result)
			f.in.Drop(0)
			time.Sleep(time.Hour)
			assert.Error(t, f.returned(result))
			assert.Equal(t, []string{"b"}, f.names())
			assert.Equal(t, []int{1}, f.in.Held())
		})
	}
}

func TestTwoHoldsOfOneSlotOneOfWhichFails(t *testing.T) {
	for name, first := range map[string]bool{"the first": true, "the second": false} {
		looptest.Bubble(t, name, func(t *testing.T) {
			f := startField(t, informer.Handler[string, plot]{})
			f.s.slow = time.Second
			ctx, cancel := context.WithCancel(t.Context())
			ctxs := []context.Context{t.Context(), ctx}
			if first {
				slices.Reverse(ctxs)
			}
			a, b := f.hold(ctxs[0], 0), f.hold(ctxs[1], 0)
			cancel()
			time.Sleep(time.Minute)
			if first {
				a, b = b, a
			}
			require.NoError(t, f.returned(a))
			require.ErrorIs(t, f.returned(b), context.Canceled)
			assert.Equal(t, []string{"a"}, f.names())
			assert.Equal(t, []string{"add a.1 initial=true"}, f.take())

			late := f.hold(t.Context(), 0)
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			require.Error(t, f.in.Hold(ended, 0))
			time.Sleep(time.Minute)
			require.NoError(t, f.returned(late))
			assert.Equal(t, []int{0}, f.in.Held(), "another call has succeeded")
			assert.Empty(t, f.take())
		})
	}
}

func TestManyHoldsAtOnceShareLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newField(t)
		looptest.StartInBubble(t, f.in.Run)
		for slot := range 64 {
			f.put(fmt.Sprint("plot ", slot), slot)
		}
		before, _ := f.s.reads()
		f.s.slow = time.Second
		var results []chan error
		for slot := range 64 {
			result := make(chan error, 1)
			results = append(results, result)
			go func() { result <- f.in.Hold(t.Context(), slot) }()
		}
		time.Sleep(time.Minute)
		for _, result := range results {
			require.NoError(t, f.returned(result))
		}
		lists, _ := f.s.reads()
		assert.LessOrEqual(t, lists-before, 3)
		assert.Len(t, f.in.Held(), 64)
		assert.Len(t, f.names(), 68)
	})
}

func TestObjectsOfHeldSlotAreInitialAndLaterOnesAreNot(t *testing.T) {
	for name, h := range kinds {
		looptest.Bubble(t, name, func(t *testing.T) {
			f := startField(t, h)
			f.mustHold(0)
			assert.Equal(t, []string{"add a.1 initial=true"}, f.take())
			f.put("e", 0)
			assert.Equal(t, []string{"add e.5 initial=false"}, f.take())
			f.put("b", 0)
			assert.Equal(t, []string{"add b.6 initial=false"}, f.take())
		})
	}
}

// A slow handler gets both calls late, and the object has still come with its slot.
func TestObjectThatComesWithItsSlotIsInitialForSlowHandler(t *testing.T) {
	leave := map[string]func(*field){
		"moved away": func(f *field) { f.put("a", 1) },
		"dropped":    func(f *field) { f.in.Drop(0); f.put("a", 1) },
		"deleted":    func(f *field) { f.delete("a"); f.put("a", 1) },
	}
	for name, leave := range leave {
		for kind, h := range map[string]informer.Handler[string, plot]{"merging": {}, "every": {EveryEvent: true}} {
			looptest.Bubble(t, name+" "+kind, func(t *testing.T) {
				f := newField(t)
				f.gate = make(chan struct{}, 1)
				f.add(h)
				looptest.StartInBubble(t, f.in.Run)
				f.mustHold(0, 2)
				f.gate <- struct{}{}
				assert.Equal(t, []string{"add a.1 initial=true", "add c.3 initial=true"}, f.take())
				leave(f) // the handler is busy with c
				synctest.Wait()
				f.mustHold(1)
				close(f.gate)
				calls := f.take()
				last := calls[len(calls)-1]
				if i := slices.Index(calls, "update a.1 5"); i < 0 {
					assert.Contains(t, calls, "add a.5 initial=true", last)
				}
			})
		}
	}
}

func TestDropThenHoldIsOnDropThenOnAdd(t *testing.T) {
	for name, h := range kinds {
		looptest.Bubble(t, name, func(t *testing.T) {
			f := startField(t, h)
			f.mustHold(0, 1)
			f.take()
			f.in.Drop(0)
			f.in.Drop(0)
			assert.Equal(t, []string{"drop a.1"}, f.take())
			assert.Equal(t, []string{"b"}, f.names())
			f.put("a", 0)
			assert.Empty(t, f.take())
			f.mustHold(0)
			assert.Equal(t, []string{"add a.5 initial=true"}, f.take())
		})
	}
}

func TestDeletionWhileSlotIsNotHeldIsNotReported(t *testing.T) {
	for name, h := range kinds {
		looptest.Bubble(t, name, func(t *testing.T) {
			f := startField(t, h)
			f.mustHold(0)
			f.in.Drop(0)
			f.take()
			f.delete("a")
			f.delete("b") // never held
			f.mustHold(0)
			assert.Empty(t, f.take())
			assert.Empty(t, f.names())
		})
	}
}

func TestMoveToSlotThatIsNotHeldIsDeletion(t *testing.T) {
	for name, h := range kinds {
		looptest.Bubble(t, name, func(t *testing.T) {
			f := startField(t, h)
			f.mustHold(0, 1)
			f.take()
			f.put("a", 1)
			assert.Equal(t, []string{"update a.1 5"}, f.take())
			f.put("a", 2)
			assert.Equal(t, []string{"delete a.5"}, f.take(), "its last state in a slot that is held")
			assert.Equal(t, []string{"b"}, f.names())
		})
	}
}

func TestDropDoesNotEndListInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startField(t, informer.Handler[string, plot]{})
		f.mustHold(1)
		f.s.slow = time.Minute
		before, _ := f.s.reads()
		result := f.hold(t.Context(), 0)
		f.in.Drop(1)
		time.Sleep(time.Hour)
		require.NoError(t, f.returned(result))
		lists, _ := f.s.reads()
		assert.Equal(t, 1, lists-before)
		assert.Equal(t, []string{"a"}, f.names())
		assert.Equal(t, []int{0}, f.in.Held())
	})
}

func TestHoldWaitsForRunAndFailsWhenItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newField(t)
		early := f.hold(t.Context(), 0)
		pending(t, early)
		stop := looptest.StartInBubble(t, f.in.Run)
		require.NoError(t, f.returned(early))
		f.s.set(func() { f.s.down = true })
		late := f.hold(t.Context(), 1)
		pending(t, late)
		stop()
		assert.ErrorIs(t, f.returned(late), informer.ErrEnded)
		assert.Error(t, f.in.Hold(t.Context(), 2))
	})
}

func TestDivideStepByStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newField(t)
		f.add(informer.Handler[string, plot]{})
		steps, err := f.in.Steps(t.Context())
		require.NoError(t, err)
		defer steps.Stop()
		// drive makes all steps that are possible.
		drive := func() {
			for {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				read := steps.Read(ctx)
				cancel()
				applied := steps.Apply()
				for _, handler := range steps.Handlers() {
					for steps.Deliver(handler) {
					}
				}
				if !read && !applied {
					return
				}
			}
		}
		drive()
		assert.Empty(t, f.names())
		result := f.hold(t.Context(), 0)
		pending(t, result)
		drive()
		require.NoError(t, f.returned(result))
		assert.Equal(t, []string{"add a.1 initial=true"}, f.take())
		f.put("e", 0)
		drive()
		assert.Equal(t, []string{"add e.5 initial=false"}, f.take())
		f.in.Drop(0)
		drive()
		assert.ElementsMatch(t, []string{"drop a.1", "drop e.5"}, f.take())
		assert.Empty(t, f.names())
		assert.Empty(t, f.in.Held())

		result = f.hold(t.Context(), 1)
		f.in.Drop(1)
		drive()
		assert.Error(t, f.returned(result))
		assert.Empty(t, f.take())
	})
}

func TestVersionedSourceIsNotListedBeforeSlotIsHeld(t *testing.T) {
	for _, kind := range []int{2, 3} {
		looptest.Bubble(t, fmt.Sprint(kind), func(t *testing.T) {
			s := newPlotSource(1)
			s.commit(false, plot{Name: "a", Shard: "0"})
			in := must(informer.New(informer.Divide(s.kind(kind), plotShard), plotName, informer.Config{}))
			in.Share(slotNumber, nil)
			defer looptest.StartInBubble(t, in.Run)()
			require.NoError(t, informer.WaitForSync(t.Context(), in))
			s.commit(false, plot{Name: "b", Shard: "1"})
			require.NoError(t, in.CatchUp(t.Context()))
			lists, _ := s.reads()
			assert.Zero(t, lists)
			assert.Equal(t, s.version, in.Version())
			require.NoError(t, in.Hold(t.Context(), 0))
			lists, _ = s.reads()
			assert.Equal(t, 1, lists)
			_, ok := in.Get("a")
			assert.True(t, ok)
		})
	}
}

func TestSlotsLoseNothingWhenHoldOfAnotherFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startField(t, informer.Handler[string, plot]{EveryEvent: true})
		f.mustHold(1)
		f.take()
		f.s.slow = time.Second
		for range 5 {
			ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, errors.New("enough"))
			require.Error(t, f.in.Hold(ctx, 0))
			cancel()
			f.put("b", 1)
			time.Sleep(time.Minute)
		}
		updates := slices.DeleteFunc(f.take(), func(call string) bool { return !strings.HasPrefix(call, "update b") })
		require.Len(t, updates, 5)
		assert.Equal(t, []string{"b"}, f.names())
	})
}

// A handler that is behind gets the last of what has happened: the object left with its slot, came back, and was deleted.
func TestSlowHandlerGetsDeletionAfterDrop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newField(t)
		f.gate = make(chan struct{})
		f.add(informer.Handler[string, plot]{})
		looptest.StartInBubble(t, f.in.Run)
		f.mustHold(1)
		assert.Equal(t, []string{"add b.2 initial=true"}, f.take())
		f.in.Drop(1) // while the handler is in its call
		synctest.Wait()
		f.mustHold(1)
		f.delete("b")
		synctest.Wait()
		close(f.gate)
		assert.Equal(t, []string{"delete b.2"}, f.take())
	})
}

// ranged is a source that selects by hash: the hash of a shard is its number.
type ranged struct {
	informer.ListWatcher[plot]
	whole  bool // it cannot select
	hash   func(plot) int
	ranges looptest.Log[[]informer.HashRange]
}

// watched is a ranged source that watches by hash too.
type watched struct {
	*ranged
	watches looptest.Log[[]informer.HashRange]
}

func (w *watched) WatchRanges(ctx context.Context, after informer.Version, ranges []informer.HashRange) iter.Seq2[informer.Event[plot], error] {
	w.watches.Add(ranges)
	return w.Watch(ctx, after)
}

func (r *ranged) ListRanges(ctx context.Context, ranges []informer.HashRange) iter.Seq2[informer.List[plot], error] {
	r.ranges.Add(ranges)
	if r.whole {
		return nil
	}
	return func(yield func(informer.List[plot], error) bool) {
		list, err := r.List(ctx)
		list.Items = slices.DeleteFunc(slices.Clone(list.Items), func(p plot) bool {
			return !slices.ContainsFunc(ranges, func(of informer.HashRange) bool {
				h := uint64(r.hash(p))
				return of.From <= h && h < of.To
			})
		})
		yield(list, err)
	}
}

// hashRange is the range of hashes of a slot of which the hash of a shard is its number.
func hashRange(slot int) (from, to uint64) { return uint64(slot), uint64(slot + 1) }

func TestHoldListsOnlyItsRanges(t *testing.T) {
	for _, whole := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := newField(t)
			src := &ranged{ListWatcher: f.s.kind(0), whole: whole, hash: func(p plot) int { return slotNumber(p.Shard) }}
			f.in = must(informer.New(informer.Divide(src, plotShard), plotName, informer.Config{}))
			f.in.Share(slotNumber, hashRange)
			looptest.StartInBubble(t, f.in.Run)
			f.add(informer.Handler[string, plot]{})
			f.mustHold(1)
			f.mustHold(3)
			assert.Equal(t, []string{"b", "d"}, f.names())
			f.put("e", 3)
			f.put("x", 0)
			assert.Equal(t, []string{"b", "d", "e"}, f.names(), "the watch has the slots that are held")
			f.mustHold(2)
			assert.Equal(t, []string{"b", "c", "d", "e"}, f.names())
			held := slices.DeleteFunc(src.ranges.All(), func(of []informer.HashRange) bool { return len(of) == 0 }) // before the first Hold
			assert.Equal(t, [][]informer.HashRange{{{From: 1, To: 2}}, {{From: 3, To: 4}}, {{From: 2, To: 3}}}, held, "each list has only the slots that join")
		})
	}
}

// A watch has the ranges of the slots that the last list had. It may yield what is in none of them.
func TestWatchHasItsRanges(t *testing.T) {
	for _, known := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			f := newField(t)
			src := &watched{ranged: &ranged{ListWatcher: f.s.kind(0), hash: func(p plot) int { return slotNumber(p.Shard) }}}
			f.in = must(informer.New(informer.Divide(src, plotShard), plotName, informer.Config{}))
			if known {
				f.in.Share(slotNumber, hashRange)
			} else {
				f.in.Share(slotNumber, nil)
			}
			looptest.StartInBubble(t, f.in.Run)
			f.add(informer.Handler[string, plot]{})
			f.mustHold(1)
			synctest.Wait() // until the watch has begun, since a Hold that comes before has one watch with it
			f.mustHold(2)
			f.put("e", 2)
			f.put("x", 0)
			assert.Equal(t, []string{"b", "c", "e"}, f.names())
			f.in.Drop(1)
			f.put("y", 1)
			assert.Equal(t, []string{"c", "e"}, f.names())
			held := slices.DeleteFunc(src.watches.All(), func(of []informer.HashRange) bool { return len(of) == 0 }) // before the first Hold
			if known {
				assert.Equal(t, [][]informer.HashRange{{{From: 1, To: 2}}, {{From: 1, To: 3}}, {{From: 2, To: 3}}}, held)
			} else {
				assert.Empty(t, src.watches.All())
			}
		})
	}
}

// The source divides by another text than the function of Divide. The objects that it leaves out cannot be noticed, but those that it lists in the
// wrong slot can.
func TestHoldFailsIfSourceSelectsOtherSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newField(t)
		src := &ranged{ListWatcher: f.s.kind(0), hash: func(p plot) int { return (slotNumber(p.Shard) + 1) % 4 }}
		var errs looptest.Log[string]
		f.in = must(informer.New(informer.Divide(src, plotShard), plotName, informer.Config{OnError: func(err error) { errs.Add(err.Error()) }}))
		f.in.Share(slotNumber, hashRange)
		looptest.StartInBubble(t, f.in.Run)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.ErrorIs(t, f.in.Hold(ctx, 1), context.DeadlineExceeded)
		assert.Empty(t, f.names())
		require.NotEmpty(t, errs.All())
		assert.Contains(t, errs.All()[0], `the source has selected an object of another slot: its hash is not that of "0"`)
	})
}

// told is a source that does what the test says next.
type told struct {
	lists  chan informer.List[plot] // the results of the next lists
	events chan yield               // what the watches yield next
	after  looptest.Log[informer.Version]
}

type yield struct {
	event informer.Event[plot]
	err   error
}

func (s *told) List(ctx context.Context) (informer.List[plot], error) {
	select {
	case list := <-s.lists:
		return list, nil
	case <-ctx.Done():
		return informer.List[plot]{}, context.Cause(ctx)
	}
}

func (s *told) Watch(ctx context.Context, after informer.Version) iter.Seq2[informer.Event[plot], error] {
	s.after.Add(after)
	return func(next func(informer.Event[plot], error) bool) {
		for {
			select {
			case y := <-s.events:
				if !next(y.event, y.err) || y.err != nil {
					return
				}
			case <-ctx.Done():
				next(informer.Event[plot]{}, context.Cause(ctx))
				return
			}
		}
	}
}

// list is the next list, of plots with names such as "a0", which is in slot 0.
func (s *told) list(version informer.Version, names ...string) {
	list := informer.List[plot]{Version: version}
	for _, name := range names {
		list.Items = append(list.Items, plot{name[:1], name[1:], int(version)})
	}
	s.lists <- list
	synctest.Wait()
}

func (s *told) yield(typ informer.EventType, version informer.Version, name string) {
	s.events <- yield{event: informer.Event[plot]{Type: typ, Version: version, Object: plot{name[:1], name[1:], int(version)}}}
	synctest.Wait()
}

func (s *told) fail(err error) {
	s.events <- yield{err: err}
	synctest.Wait()
}

// startJoin starts an informer that holds slot 0 with a plot at version 1, and slot 1 with another one at version 9. Its watch has yielded nothing.
func startJoin(t *testing.T) (f *field, src *told) {
	src = &told{lists: make(chan informer.List[plot]), events: make(chan yield)}
	f = &field{t: t}
	f.in = must(informer.New(informer.Divide[plot](src, plotShard), plotName, informer.Config{OnError: func(err error) { f.Add(err.Error()) }}))
	f.in.Share(slotNumber, nil)
	looptest.StartInBubble(t, f.in.Run)
	f.add(informer.Handler[string, plot]{})
	src.list(1, "a0", "b1")
	first := f.hold(t.Context(), 0)
	src.list(1, "a0", "b1")
	require.NoError(t, f.returned(first))
	second := f.hold(t.Context(), 1)
	src.list(9, "a2", "b1")
	require.NoError(t, f.returned(second))
	require.Equal(t, []string{"add a.1 initial=true", "add b.9 initial=true"}, f.take())
	require.EqualValues(t, 1, f.in.Version())
	return f, src
}

func TestEventBeforeListOfItsSlotIsIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, src := startJoin(t)
		src.yield(informer.Modified, 4, "b1")
		src.yield(informer.Deleted, 4, "b1")
		src.yield(informer.Added, 5, "c1")
		assert.Empty(t, f.take(), "the list at version 9 is newer")
		src.yield(informer.Modified, 6, "a1")
		assert.Equal(t, []string{"delete a.1"}, f.take(), "it has left slot 0, and is not in slot 1 at version 9")
		src.yield(informer.Modified, 8, "d0")
		src.yield(informer.Modified, 9, "b1")
		src.yield(informer.Modified, 10, "b1")
		src.yield(informer.Modified, 11, "a1")
		assert.Equal(t, []string{"add d.8 initial=false", "update b.9 9", "update b.9 10", "add a.11 initial=false"}, f.take())
		assert.Equal(t, []informer.Version{1, 1, 1}, src.after.All())
	})
}

// A whole list that is older than that of one slot would take the objects of the slot back.
func TestListBeforeListOfSlotIsRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, src := startJoin(t)
		src.fail(informer.ErrExpired)
		src.list(8, "a0", "b1")
		require.Len(t, f.take(), 1, "an error")
		assert.Equal(t, []string{"a", "b"}, f.names())
		src.fail(errors.New("no answer"))
		time.Sleep(time.Minute)
		src.list(9, "a0", "b1")
		assert.Equal(t, []string{"update a.1 9"}, f.take())
	})
}

// After an outage, the source may have another history. Between the versions of the watch and of the list of the slot, it cannot tell.
func TestWatchThatFailsBeforeListOfSlotIsFollowedByList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, src := startJoin(t)
		src.fail(errors.New("connection reset"))
		require.Len(t, f.take(), 1, "an error")
		time.Sleep(time.Minute)
		src.list(9, "b1")
		assert.Equal(t, []string{"delete a.1"}, f.take())
	})
}

func TestListOfSlotIsForgottenInNewHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, src := startJoin(t)
		src.fail(informer.ErrNewHistory)
		src.list(3, "b1")
		f.take()
		src.yield(informer.Modified, 4, "b1")
		assert.Equal(t, []string{"update b.3 4"}, f.take())
	})
}

// An object that cannot be read may be in any slot.
func TestUnreadObjectWhileSlotJoins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, src := startJoin(t)
		result := f.hold(t.Context(), 2)
		bad := informer.Unread[plot]{Object: plot{Name: "a"}, Err: errors.New("no plot")}
		src.lists <- informer.List[plot]{Version: 10, Unread: []informer.Unread[plot]{bad}}
		pending(t, result)
		src.lists <- informer.List[plot]{Version: 11, Unread: []informer.Unread[plot]{bad}, Items: []plot{{"b", "1", 11}, {"c", "2", 11}}}
		require.NoError(t, f.returned(result))
		assert.Equal(t, []string{"a", "b", "c"}, f.names())
		require.Error(t, f.in.Unread("a"))
		assert.EqualValues(t, 11, f.in.Version())
	})
}

// A Hold is a request: the next attempt begins at once, also if the source has ended the goroutine of the reflector meanwhile.
func TestHoldDoesNotWaitForBackoffAfterGoexit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &exits{plotSource: newPlotSource(1), during: make(chan func(), 1)}
		in := must(informer.New(informer.Divide[plot](src, plotShard), plotName, informer.Config{
			OnError: func(error) {}, Backoff: wait.Backoff{Duration: time.Hour},
		}))
		in.Share(slotNumber, nil)
		looptest.StartInBubble(t, in.Run)
		require.NoError(t, in.Hold(t.Context(), 0))
		began, result := time.Now(), make(chan error, 1)
		src.during <- func() { go func() { result <- in.Hold(t.Context(), 1) }() }
		src.set(func() { src.cut, src.cutErr = 1, nil })
		src.commit(false, plot{Name: "a", Shard: "0"}) // the watch ends after it, and the next one exits
		require.NoError(t, <-result)
		assert.Less(t, time.Since(began), time.Minute)
	})
}

// exits is a source whose watch ends the goroutine, after it has called a function and a second has passed.
type exits struct {
	*plotSource
	during chan func()
}

func (s *exits) List(ctx context.Context) (informer.List[plot], error) {
	return informer.Collect(s.pages(ctx))
}

func (s *exits) Watch(ctx context.Context, after informer.Version) iter.Seq2[informer.Event[plot], error] {
	select {
	case f := <-s.during:
		f()
		time.Sleep(time.Second)
		runtime.Goexit()
	default:
	}
	return s.watch(ctx, after)
}
