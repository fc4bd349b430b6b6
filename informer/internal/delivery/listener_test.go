package delivery_test

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

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
	if !l.Enter() {
		t.Fatal("l.Enter() is false")
	}
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
	if !closed(l.Synced()) {
		t.Error("there is none: closed(l.Synced()) is false")
	}

	c.put(1)
	c.put(2)
	var calls []string
	l = c.listener(log(&calls), noError(t))
	begin(t, c, l)
	if closed(l.Synced()) {
		t.Error("closed(l.Synced()) is true")
	}
	gone, _ := c.remove(2, true)
	l.Tell(changes(gone, c.put(3)))
	if !l.Deliver() {
		t.Error("l.Deliver() is false")
	}
	if closed(l.Synced()) {
		t.Error("its turn has not come: closed(l.Synced()) is true")
	}
	if !l.Deliver() {
		t.Error("l.Deliver() is false")
	}
	if !closed(l.Synced()) {
		t.Error("closed(l.Synced()) is false")
	}
	if l.Deliver() {
		t.Error("l.Deliver() is true")
	}
	if want := ([]string{"add 1.1 true", "add 3.3 false"}); !slices.Equal(calls, want) {
		t.Errorf("calls = %q, want %q", calls, want)
	}
}

func TestSyncedAfterLastInitialObject(t *testing.T) {
	c := newChanged()
	c.put(1)
	l := c.listener(delivery.Handler[int, object]{OnAdd: func(object, bool) {}}, noError(t))
	begin(t, c, l)
	if !l.Deliver() {
		t.Error("l.Deliver() is false")
	}
	if !closed(l.Synced()) {
		t.Error("closed(l.Synced()) is false")
	}
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
	if l.Deliver() {
		t.Error("of an add: l.Deliver() is true")
	}

	c = newChanged()
	l = c.listener(h, noError(t))
	begin(t, c, l)
	l.Tell(changes(c.put(1)))
	if !l.Deliver() {
		t.Error("l.Deliver() is false")
	}
	l.Tell(changes(c.put(1)))
	if l.Deliver() {
		t.Error("of an update: l.Deliver() is true")
	}

	c = newChanged()
	l = c.listener(h, noError(t))
	begin(t, c, l)
	l.Tell(changes(c.put(1)))
	if !l.Deliver() {
		t.Error("l.Deliver() is false")
	}
	gone, _ := c.remove(1, false)
	l.Tell(changes(gone))
	if l.Deliver() {
		t.Error("of a deletion: l.Deliver() is true")
	}
	if want := ([]string{"add 1.1 false", "add 1.1 false"}); !slices.Equal(calls, want) {
		t.Errorf("calls = %q, want %q", calls, want)
	}
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
	if got := l.Waiting(); got != 2 {
		t.Errorf("l.Waiting() = %v, want 2", got)
	}
	for l.Deliver() {
	}
	if diff := cmp.Diff([]string{"add 1.1 true", "add 2.5 false", "delete 1.2 false", "add 1.6 false"}, calls); diff != "" {
		t.Errorf("calls mismatch (-want +got):\n%s", diff)
	}
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
	if !l.Deliver() {
		t.Error("l.Deliver() is false")
	}
	if len(errs) != 1 {
		t.Fatalf("len(errs) = %d, want 1: %v", len(errs), errs)
	}
	if got, want := fmt.Sprint(errs[0]), "informer: call OnDelete of test handler: wait: recover from panic: oh dear"; got != want {
		t.Errorf("errs[0] = %q, want %q", got, want)
	}
	if !errors.As(errs[0], new(*wait.PanicError)) {
		t.Errorf("errs[0] = %v, want one of type *wait.PanicError", errs[0])
	}
	if !l.Owes() {
		t.Error("the call of OnAdd: l.Owes() is false")
	}
	if !l.Deliver() {
		t.Error("l.Deliver() is false")
	}
	if want := ([]string{"add 1.1 true", "add 1.2 false"}); !slices.Equal(calls, want) {
		t.Errorf("calls = %q, want %q", calls, want)
	}
}

func TestDismissDropsPendingEventsWithoutWaiting(t *testing.T) {
	c := newChanged()
	var l *delivery.Listener[int, object]
	var calls []string
	h := log(&calls)
	h.OnAdd = func(o object, _ bool) {
		calls = append(calls, fmt.Sprint("add ", o.Key))
		if closed(l.Dismiss()) {
			t.Error("the call runs: closed(l.Dismiss()) is true")
		}
		if !closed(l.Gone()) {
			t.Error("closed(l.Gone()) is false")
		}
		if l.Deliver() {
			t.Error("a call runs: l.Deliver() is true")
		}
	}
	l = c.listener(h, noError(t))
	begin(t, c, l)
	l.Tell(changes(c.put(1), c.put(2)))
	if !l.Deliver() {
		t.Error("l.Deliver() is false")
	}
	if !closed(l.Dismiss()) {
		t.Error("closed(l.Dismiss()) is false")
	}
	if got := l.Waiting(); got != 0 {
		t.Errorf("l.Waiting() = %v, want 0", got)
	}
	l.Tell(changes(c.put(3)))
	if got := l.Waiting(); got != 0 {
		t.Errorf("l.Waiting() = %v, want 0", got)
	}
	if l.Deliver() {
		t.Error("l.Deliver() is true")
	}
	if l.Enter() {
		t.Error("l.Enter() is true")
	}
	if want := ([]string{"add 1"}); !slices.Equal(calls, want) {
		t.Errorf("calls = %q, want %q", calls, want)
	}
	if err := l.CheckInvariants(); err != nil {
		t.Fatalf("l.CheckInvariants(): %v", err)
	}
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
				if !l.Enter() {
					t.Fatal("l.Enter() is false")
				}
				l.Begin(c.cache.Snapshot())
				go l.Run(ctx) // ends with ctx, or when it is dismissed
				synctest.Wait()
				l.Tell(changes(c.put(1)))
				synctest.Wait()
				if l.Deliver() {
					t.Error("Run makes the calls: l.Deliver() is true")
				}
				if want := ([]string{"add 1.1 true", "update 1.1-2"}); !slices.Equal(calls, want) {
					t.Errorf("calls = %q, want %q", calls, want)
				}
				end(l, cancel)
				synctest.Wait()
				if !closed(l.Dismiss()) {
					t.Error("closed(l.Dismiss()) is false")
				}
				l.Tell(changes(c.put(1)))
				synctest.Wait()
				if len(calls) != 2 {
					t.Errorf("len(calls) = %d, want 2: %v", len(calls), calls)
				}
			})
		})
	}
}

func TestHandlerCallingGoexitIsReportedAndDismissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChanged()
		var errs []error
		l := c.listener(delivery.Handler[int, object]{OnAdd: func(object, bool) { runtime.Goexit() }}, func(err error) { errs = append(errs, err) })
		if !l.Enter() {
			t.Fatal("l.Enter() is false")
		}
		l.Begin(c.cache.Snapshot())
		go l.Run(t.Context()) // the handler ends it
		l.Tell(changes(c.put(1)))
		synctest.Wait()
		if got, want := fmt.Sprint(errors.Join(errs...)), "informer: call OnAdd of test handler: it has called runtime.Goexit, and is called no more"; got != want {
			t.Errorf("errors.Join(errs...) = %q, want %q", got, want)
		}
		if !closed(l.Gone()) {
			t.Error("closed(l.Gone()) is false")
		}
		if !closed(l.Dismiss()) {
			t.Error("closed(l.Dismiss()) is false")
		}
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
	if !closed(ask()) {
		t.Error("nothing is pending: closed(ask()) is false")
	}
	l.Tell(changes(c.put(1), c.put(2)))
	two := ask()
	l.Tell(changes(c.put(3)))
	three, withdrawn := ask(), ask()
	l.Withdraw(withdrawn)
	if got := l.Asks(); got != 2 {
		t.Errorf("l.Asks() = %v, want 2", got)
	}
	l.Deliver()
	if closed(two) {
		t.Error("closed(two) is true")
	}
	l.Deliver()
	if !closed(two) {
		t.Error("closed(two) is false")
	}
	if closed(three) {
		t.Error("closed(three) is true")
	}
	l.Deliver()
	if !closed(three) {
		t.Error("closed(three) is false")
	}
	if closed(withdrawn) {
		t.Error("closed(withdrawn) is true")
	}

	l.Tell(changes(c.put(4)))
	merged := ask()
	gone, _ := c.remove(4, true)
	l.Tell(changes(gone)) // it was created and deleted: no call is due
	if l.Deliver() {
		t.Error("l.Deliver() is true")
	}
	if !closed(merged) {
		t.Error("closed(merged) is false")
	}
}

func TestPendingEventsReleaseMemory(t *testing.T) {
	c := newChanged()
	l := c.listener(delivery.Handler[int, object]{}, noError(t))
	begin(t, c, l)
	for key := range 20 * delivery.Batch {
		l.Tell(changes(c.put(key)))
	}
	if got := l.Waiting(); got != 20*delivery.Batch {
		t.Errorf("l.Waiting() = %v, want %v", got, 20*delivery.Batch)
	}
	for l.Waiting() > 0 {
		l.Deliver()
	}
	items, chains := delivery.Kept(l)
	if items > delivery.Batch {
		t.Errorf("items = %v, want at most %v", items, delivery.Batch)
	}
	if chains > 2*delivery.Batch {
		t.Errorf("chains = %v, want at most %v", chains, 2*delivery.Batch)
	}
}

func TestPendingEventsRarelyAllocate(t *testing.T) {
	allocs := testing.AllocsPerRun(3, func() { delivery.FillAndDrain(4096) })
	if allocs >= 4096./20+20 {
		t.Errorf("allocs = %v, want less than %v", allocs, 4096./20+20)
	}
}
