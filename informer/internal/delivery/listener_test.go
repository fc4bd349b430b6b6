package delivery_test

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer/internal/delivery"
	"github.com/setpoint-go/setpoint/wait"
)

// object is the object of the tests. Rev is unique; Life is that of the creation.
type object struct{ Key, Life, Rev int }

func keyOf(o object) int { return o.Key }

// changed is a cache whose changes a listener is told.
type changed struct {
	cache *cache.Indexer[int, object]
	seed  maphash.Seed
	rev   int
}

func newChanged() *changed {
	return &changed{cache: cache.NewIndexer(keyOf), seed: maphash.MakeSeed()}
}

// put creates or updates an object.
func (c *changed) put(key int) delivery.Change[int, object] {
	c.rev++
	old, existed := c.cache.Get(key)
	now := object{key, c.rev, c.rev}
	if existed {
		now.Life = old.Life
	}
	c.cache.Upsert(now)
	return delivery.Change[int, object]{
		Key: key, Hash: maphash.Comparable(c.seed, key),
		Old: delivery.State[object]{Object: old, Present: existed}, New: delivery.State[object]{Object: now, Present: true},
	}
}

// remove deletes an object, whose last state the cache has not seen.
func (c *changed) remove(key int, missed bool) (change delivery.Change[int, object], existed bool) {
	old, existed := c.cache.Delete(key)
	last := old
	if !missed {
		c.rev++
		last.Rev = c.rev
	}
	return delivery.Change[int, object]{
		Key: key, Hash: maphash.Comparable(c.seed, key), Old: delivery.State[object]{Object: old, Present: existed}, Last: last, Missed: missed,
	}, existed
}

func (c *changed) listener(h delivery.Handler[int, object], onError func(error)) *delivery.Listener[int, object] {
	return delivery.New("test handler", h, c.seed, onError)
}

// changes is the argument of Tell.
func changes(c ...delivery.Change[int, object]) []delivery.Change[int, object] { return c }

// log is a handler that records its calls.
func log(calls *[]string) delivery.Handler[int, object] {
	add := func(format string, args ...any) { *calls = append(*calls, fmt.Sprintf(format, args...)) }
	return delivery.Handler[int, object]{
		OnAdd:    func(o object, initial bool) { add("add %d.%d %t", o.Key, o.Rev, initial) },
		OnUpdate: func(old, o object) { add("update %d.%d-%d", o.Key, old.Rev, o.Rev) },
		OnResync: func(o object) { add("resync %d.%d", o.Key, o.Rev) },
		OnDelete: func(d cache.Tombstone[int, object]) { add("delete %d.%d %t", d.Key, d.Object.Rev, d.FinalStateUnknown) },
	}
}

// begin lets l join, for Deliver.
func begin(t *testing.T, c *changed, l *delivery.Listener[int, object]) {
	require.True(t, l.Enter())
	l.Begin(c.cache.Snapshot())
	l.Leave()
}

func closed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

func noError(t *testing.T) func(error) {
	return func(err error) { t.Error(err) }
}

func TestSyncedWhenNoInitialObjectIsLeft(t *testing.T) {
	c := newChanged()
	l := c.listener(delivery.Handler[int, object]{}, noError(t))
	begin(t, c, l)
	assert.True(t, closed(l.Synced()), "there is none")

	c.put(1)
	c.put(2)
	var calls []string
	l = c.listener(log(&calls), noError(t))
	begin(t, c, l)
	assert.False(t, closed(l.Synced()))
	gone, _ := c.remove(2, true)
	l.Tell(changes(gone, c.put(3)))
	assert.True(t, l.Deliver())
	assert.False(t, closed(l.Synced()), "its turn has not come")
	assert.True(t, l.Deliver())
	assert.True(t, closed(l.Synced()))
	assert.False(t, l.Deliver())
	assert.Equal(t, []string{"add 1.1 true", "add 3.3 false"}, calls)
}

func TestSyncedAfterLastInitialObject(t *testing.T) {
	c := newChanged()
	c.put(1)
	l := c.listener(delivery.Handler[int, object]{OnAdd: func(object, bool) {}}, noError(t))
	begin(t, c, l)
	assert.True(t, l.Deliver())
	assert.True(t, closed(l.Synced()))
}

func TestFilterMayDismissItsListener(t *testing.T) {
	c := newChanged()
	var calls []string
	h := log(&calls)
	var l *delivery.Listener[int, object]
	h.Filter = func(o object) bool {
		if o.Rev == 2 {
			l.Dismiss()
		}
		return true
	}
	l = c.listener(h, noError(t))
	for range 2 {
		c.put(1)
	}
	begin(t, c, l)
	assert.False(t, l.Deliver(), "of an add")

	c = newChanged()
	l = c.listener(h, noError(t))
	begin(t, c, l)
	l.Tell(changes(c.put(1)))
	assert.True(t, l.Deliver())
	l.Tell(changes(c.put(1)))
	assert.False(t, l.Deliver(), "of an update")

	c = newChanged()
	l = c.listener(h, noError(t))
	begin(t, c, l)
	l.Tell(changes(c.put(1)))
	assert.True(t, l.Deliver())
	gone, _ := c.remove(1, false)
	l.Tell(changes(gone))
	assert.False(t, l.Deliver(), "of a deletion")
	assert.Equal(t, []string{"add 1.1 false", "add 1.1 false"}, calls)
}

func TestDeletionAndCreationAreTwoCalls(t *testing.T) {
	c := newChanged()
	c.put(1)
	var calls []string
	l := c.listener(log(&calls), noError(t))
	begin(t, c, l)
	l.Deliver()
	gone, _ := c.remove(1, false)
	l.Tell(changes(c.put(2), gone, c.put(1), c.put(2), c.put(1)))
	assert.Equal(t, 2, l.Waiting())
	for l.Deliver() {
	}
	assert.Equal(t, []string{"add 1.1 true", "add 2.5 false", "delete 1.2 false", "add 1.6 false"}, calls)
}

func TestPanickingCallIsReportedAndCounts(t *testing.T) {
	c := newChanged()
	c.put(1)
	var errs []error
	var calls []string
	h := log(&calls)
	h.OnDelete = func(cache.Tombstone[int, object]) { panic("oh dear") }
	l := c.listener(h, func(err error) { errs = append(errs, err) })
	begin(t, c, l)
	l.Deliver()
	gone, _ := c.remove(1, true)
	l.Tell(changes(gone, c.put(1)))
	assert.True(t, l.Deliver())
	require.Len(t, errs, 1)
	assert.EqualError(t, errs[0], "informer: call OnDelete of test handler: panic: oh dear")
	assert.ErrorAs(t, errs[0], new(*wait.PanicError))
	assert.True(t, l.Owes(), "the call of OnAdd")
	assert.True(t, l.Deliver())
	assert.Equal(t, []string{"add 1.1 true", "add 1.2 false"}, calls)
}

func TestDismissDropsPendingEventsWithoutWaiting(t *testing.T) {
	c := newChanged()
	var l *delivery.Listener[int, object]
	var calls []string
	h := log(&calls)
	h.OnAdd = func(o object, _ bool) {
		calls = append(calls, fmt.Sprint("add ", o.Key))
		assert.False(t, closed(l.Dismiss()), "the call runs")
		assert.True(t, closed(l.Gone()))
		assert.False(t, l.Deliver(), "a call runs")
	}
	l = c.listener(h, noError(t))
	begin(t, c, l)
	l.Tell(changes(c.put(1), c.put(2)))
	assert.True(t, l.Deliver())
	assert.True(t, closed(l.Dismiss()))
	assert.Zero(t, l.Waiting())
	l.Tell(changes(c.put(3)))
	assert.Zero(t, l.Waiting())
	assert.False(t, l.Deliver())
	assert.False(t, l.Enter())
	assert.Equal(t, []string{"add 1"}, calls)
	require.NoError(t, l.CheckInvariants())
}

func TestRunEndsWithContextOrDismiss(t *testing.T) {
	for name, end := range map[string]func(*delivery.Listener[int, object], context.CancelFunc){
		"context": func(_ *delivery.Listener[int, object], cancel context.CancelFunc) { cancel() },
		"dismiss": func(l *delivery.Listener[int, object], _ context.CancelFunc) { l.Dismiss() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newChanged()
				c.put(1)
				var calls []string
				l := c.listener(log(&calls), noError(t))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				require.True(t, l.Enter())
				l.Begin(c.cache.Snapshot())
				go l.Run(ctx) // ends with ctx, or when it is dismissed
				synctest.Wait()
				l.Tell(changes(c.put(1)))
				synctest.Wait()
				assert.False(t, l.Deliver(), "Run makes the calls")
				assert.Equal(t, []string{"add 1.1 true", "update 1.1-2"}, calls)
				end(l, cancel)
				synctest.Wait()
				assert.True(t, closed(l.Dismiss()))
				l.Tell(changes(c.put(1)))
				synctest.Wait()
				assert.Len(t, calls, 2)
			})
		})
	}
}

func TestHandlerCallingGoexitIsReportedAndDismissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChanged()
		var errs []error
		l := c.listener(delivery.Handler[int, object]{OnAdd: func(object, bool) { runtime.Goexit() }}, func(err error) { errs = append(errs, err) })
		require.True(t, l.Enter())
		l.Begin(c.cache.Snapshot())
		go l.Run(t.Context()) // the handler ends it
		l.Tell(changes(c.put(1)))
		synctest.Wait()
		assert.EqualError(t, errors.Join(errs...), "informer: call OnAdd of test handler: it has called runtime.Goexit, and is called no more")
		assert.True(t, closed(l.Gone()))
		assert.True(t, closed(l.Dismiss()))
	})
}

func TestAskIsAnsweredAfterPendingCallsReturn(t *testing.T) {
	c := newChanged()
	var calls []string
	l := c.listener(log(&calls), noError(t))
	begin(t, c, l)
	ask := func() chan struct{} {
		done := make(chan struct{})
		l.Ask(done)
		return done
	}
	assert.True(t, closed(ask()), "nothing is pending")
	l.Tell(changes(c.put(1), c.put(2)))
	two := ask()
	l.Tell(changes(c.put(3)))
	three, withdrawn := ask(), ask()
	l.Withdraw(withdrawn)
	assert.Equal(t, 2, l.Asks())
	l.Deliver()
	assert.False(t, closed(two))
	l.Deliver()
	assert.True(t, closed(two))
	assert.False(t, closed(three))
	l.Deliver()
	assert.True(t, closed(three))
	assert.False(t, closed(withdrawn))

	l.Tell(changes(c.put(4)))
	merged := ask()
	gone, _ := c.remove(4, true)
	l.Tell(changes(gone)) // it was created and deleted: no call is due
	assert.False(t, l.Deliver())
	assert.True(t, closed(merged))
}

func TestPendingEventsReleaseMemory(t *testing.T) {
	c := newChanged()
	l := c.listener(delivery.Handler[int, object]{}, noError(t))
	begin(t, c, l)
	for key := range 20 * delivery.Batch {
		l.Tell(changes(c.put(key)))
	}
	assert.Equal(t, 20*delivery.Batch, l.Waiting())
	for l.Waiting() > 0 {
		l.Deliver()
	}
	items, chains := delivery.Kept(l)
	assert.LessOrEqual(t, items, delivery.Batch)
	assert.LessOrEqual(t, chains, 2*delivery.Batch)
}

func TestPendingEventsRarelyAllocate(t *testing.T) {
	allocs := testing.AllocsPerRun(3, func() { delivery.FillAndDrain(4096) })
	assert.Less(t, allocs, 4096./20+20)
}
