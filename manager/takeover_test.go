package manager_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
	"github.com/setpoint-go/setpoint/leaderelect/shard"
	"github.com/setpoint-go/setpoint/manager"
	"github.com/setpoint-go/setpoint/store"
)

// lagging is a source whose watches yield each event some time after they have received it.
type lagging[T any] struct {
	informer.ListWatcher[T]
	by func() time.Duration
}

func (l *lagging[T]) Source() any { return l.ListWatcher }

func (l *lagging[T]) Watch(ctx context.Context, after informer.Version) iter.Seq2[informer.Event[T], error] {
	type late struct {
		ev  informer.Event[T]
		err error
		due time.Time
	}
	return func(yield func(informer.Event[T], error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		events := make(chan late, 1000)
		var reading sync.WaitGroup
		defer reading.Wait()
		defer cancel()
		reading.Go(func() { // ends with ctx
			defer close(events)
			for ev, err := range l.ListWatcher.Watch(ctx, after) {
				select {
				case events <- late{ev, err, time.Now().Add(l.by())}:
				case <-ctx.Done():
					return
				}
			}
		})
		for e := range events {
			select {
			case <-time.After(time.Until(e.due)):
			case <-ctx.Done():
			}
			if !yield(e.ev, e.err) {
				return
			}
		}
	}
}

// unversioned hides everything about a source but its two methods.
type unversioned[T any] struct{ informer.ListWatcher[T] }

// count is an object of takeovers, and the term of its last writer.
type count struct {
	N    int
	Term uint64
}

// takeovers is what replicas do to objects that each of them has in a warm cache. A reconcile counts an object up, and creates a child that
// is named after the count.
type takeovers struct {
	t       *testing.T
	leases  *memlease.Store
	objects store.Store[count]
	mode    takeoverMode
	bare    bool // the caches mirror a source without versions

	mu sync.Mutex
	// mu guards the following.
	stale []string
	begun map[string]int // reconciles, by replica
}

func newTakeovers(t *testing.T, mode takeoverMode) *takeovers {
	db := store.NewMemory(store.MemoryConfig{})
	w := &takeovers{
		t: t, mode: mode, leases: memlease.New(), objects: must(store.Open[count](db, "object", store.Config[count]{})), begun: make(map[string]int),
	}
	for i := range 3 {
		must(w.objects.Create(t.Context(), store.Object[count]{Key: fmt.Sprint("k", i)}))
	}
	return w
}

// begin checks that a reconcile sees everything that was written in earlier terms.
func (w *takeovers) begin(ctx context.Context, name, key string, cache *store.Informer[count]) {
	l, _ := leaderelect.FromContext(ctx)
	list := must(w.objects.Select(context.WithoutCancel(ctx), store.Selector{Prefix: key}))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begun[name]++
	for _, now := range list.Items {
		if now.Value.Term >= l.Term() {
			continue
		}
		where := fmt.Sprintf("%s is at version %d since term %d, and %s begins with it in term %d of %s",
			now.Key, now.Version, now.Value.Term, name, l.Term(), l.Key())
		if seen, ok := cache.Get(now.Key); !ok {
			w.stale = append(w.stale, where+" without it")
		} else if seen.Version < now.Version {
			w.stale = append(w.stale, fmt.Sprintf("%s at version %d", where, seen.Version))
		}
	}
}

// check fails the test if a reconcile began on a cache that was older than its term, or if a replica never worked.
func (w *takeovers) check(replicas ...*taker) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.stale) > 0 {
		w.t.Errorf("%d objects were stale; the first: %s", len(w.stale), w.stale[0])
	}
	if len(w.begun) == 0 {
		w.t.Error("nothing was reconciled")
	}
	for _, r := range replicas {
		if w.begun[r.name] == 0 {
			w.t.Errorf("%s has reconciled nothing", r.name)
		}
	}
}

// taker is a replica.
type taker struct {
	*looptest.Running
	name    string
	w       *takeovers
	manager *manager.Manager
	cache   *store.Informer[count]
	leases  *leases

	mu sync.Mutex
	// mu guards the following.
	lag    time.Duration
	paused chan struct{} // closed when its reconciles go on; nil if they are not held
}

func (r *taker) locked(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

func (r *taker) lags() (d time.Duration) {
	r.locked(func() { d = r.lag })
	return d
}

// join starts a replica of an election, or of slots.
func (w *takeovers) join(name string, lag time.Duration) *taker {
	r := &taker{name: name, w: w, lag: lag, leases: &leases{Store: w.leases}}
	var src informer.ListWatcher[store.Object[count]] = &lagging[store.Object[count]]{w.objects, r.lags}
	if w.bare {
		src = unversioned[store.Object[count]]{src}
	}
	if w.mode.divided {
		src = informer.Divide(src, func(o store.Object[count]) string { return countOf(o.Key) })
	}
	r.cache = must(informer.New(src, store.Key, informer.Config{Name: "objects", Logger: quiet}))
	c := must(controller.New("count", r.reconcile, controller.Config[string]{Logger: quiet, Workers: 2}, controller.For(r.cache).Where(
		func(o store.Object[count]) bool { return !strings.Contains(o.Key, "/") },
	)))
	shown := must(controller.New("show", func(context.Context, string) (controller.Result, error) {
		return controller.Result{}, nil
	}, controller.Config[string]{Logger: quiet}, controller.For(r.cache)))
	lease := leaderelect.Config{
		Store: r.leases, Key: "main", Identity: name, Logger: quiet, OnStepDownOverrun: func(*leaderelect.Leadership) {},
	}
	cfg := manager.Config{Logger: quiet, Election: &lease}
	if w.mode.slots > 0 {
		cfg.Election, cfg.Shards = nil, &shard.Config{Lease: lease, Slots: w.mode.slots, Members: 4}
	}
	r.manager = must(manager.New(cfg, c, manager.At(manager.Always, shown)))
	r.Running = looptest.Start(w.t, r.manager.Run)
	return r
}

// reconcile counts an object up. If the replica is paused in the meantime, it writes after that, as a process that was stopped does.
func (r *taker) reconcile(ctx context.Context, key string) (controller.Result, error) {
	r.w.begin(ctx, r.name, key, r.cache)
	obj, ok := r.cache.Get(key)
	if !ok {
		return controller.Result{}, errors.New("it was deleted")
	}
	l, _ := leaderelect.FromContext(ctx)
	time.Sleep(time.Second) // the write below brings the key back
	var paused chan struct{}
	r.locked(func() { paused = r.paused })
	if paused != nil {
		<-paused
	}
	ctx = context.WithoutCancel(ctx) // a process that was stopped notices nothing
	obj.Value.N++
	obj.Value.Term = l.Term()
	if _, err := r.w.objects.Update(ctx, obj); err != nil {
		return controller.Result{}, err
	}
	_, err := r.w.objects.Create(ctx, store.Object[count]{Key: fmt.Sprintf("%s/%d", key, obj.Value.N), Value: count{Term: l.Term()}})
	return controller.Result{}, err
}

// pause makes the reconciles that are in flight, or begin, wait until goOn. The replica also loses its leases in that time.
func (r *taker) pause() {
	r.leases.off.Store(true)
	r.locked(func() {
		if r.paused == nil {
			r.paused = make(chan struct{})
		}
	})
}

func (r *taker) goOn() {
	r.leases.off.Store(false)
	r.locked(func() {
		if r.paused != nil {
			close(r.paused)
			r.paused = nil
		}
	})
}

// takeoverMode is a kind of leadership.
type takeoverMode struct {
	slots   int  // 0 for an election
	divided bool // each cache has only the objects of the slots that its replica owns
}

var takeoverModes = map[string]takeoverMode{"election": {}, "slots": {slots: 4}, "divided slots": {4, true}}

// countOf returns the key of the count that an object is, or belongs to.
func countOf(key string) string {
	of, _, _ := strings.Cut(key, "/")
	return of
}

// A warm standby takes over while its watch lags: an object is at an old version in its cache, and a young one is missing.
func TestLeaderBeginsAfterCacheHasWhatPredecessorsWrote(t *testing.T) {
	for kind, mode := range takeoverModes {
		for name, bare := range map[string]bool{kind: false, kind + ", a source without versions": true} {
			bubble(t, name, func(t *testing.T) {
				w := newTakeovers(t, mode)
				w.bare = bare
				a := w.join("a", 0)
				time.Sleep(time.Minute)
				b := w.join("b", 2*time.Second)
				time.Sleep(time.Minute)
				a.Stop()
				time.Sleep(time.Minute)
				b.Stop()
				w.check(a, b)
			})
		}
	}
}

// The former leader is stopped in the middle of a reconcile, and writes after its successor leads. The successor has raised the fence before
// it has read.
func TestWriteOfPausedLeaderDoesNotFollowTakeover(t *testing.T) {
	for kind, mode := range takeoverModes {
		bubble(t, kind, func(t *testing.T) {
			w := newTakeovers(t, mode)
			a := w.join("a", 0)
			time.Sleep(30 * time.Second)
			a.pause()
			time.Sleep(time.Second)
			b := w.join("b", 2*time.Second)
			for range 200 { // until b leads, and then while its cache catches up
				time.Sleep(100 * time.Millisecond)
				if b.leads() {
					break
				}
			}
			a.goOn()
			time.Sleep(time.Minute)
			a.Stop()
			b.Stop()
			w.check(b)
		})
	}
}

func (r *taker) leads() bool {
	if s := r.manager.Slots(); s != nil {
		return len(s.Owned()) > 0
	}
	return r.manager.Elector().IsLeader()
}

// Random lags, stops, crashes, and pauses of replicas that take over from each other.
func TestTakeoversOfRandomSchedules(t *testing.T) {
	for kind, mode := range takeoverModes {
		t.Run(kind, func(t *testing.T) {
			looptest.Lanes(t, rounds(t, "MANAGER_TAKEOVERS", 20), func(t *testing.T, seed int) { takeoverSchedule(t, mode, uint64(seed)) })
		})
	}
}

func takeoverSchedule(t *testing.T, mode takeoverMode, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 7))
	upTo := func(d time.Duration) time.Duration { return time.Duration(random.Int64N(int64(d))) }
	w := newTakeovers(t, mode)
	w.bare = random.IntN(4) == 0
	var all []*taker
	joins := 0
	join := func() {
		joins++
		all = append(all, w.join(fmt.Sprint("r", joins), upTo(4*time.Second)))
	}
	join()
	for range 12 {
		r := all[random.IntN(len(all))]
		switch act := random.IntN(6); {
		case act == 0 && len(all) < 3, len(all) == 1:
			join()
		case act == 1:
			r.goOn()
			r.Stop()
			all = slices.DeleteFunc(all, func(other *taker) bool { return other == r })
		case act == 2: // a crash: its leases expire
			r.leases.off.Store(true)
			time.AfterFunc(upTo(time.Minute), r.goOn)
		case act == 3 && !w.bare: // nobody can raise the fence of a source that is not a store
			r.pause()
			time.AfterFunc(upTo(time.Minute), r.goOn)
		default:
			lag := upTo(4 * time.Second)
			r.locked(func() { r.lag = lag })
		}
		time.Sleep(upTo(30 * time.Second))
	}
	for _, r := range all {
		r.goOn()
	}
	time.Sleep(2 * time.Minute)
	if mode.divided {
		w.checkDivided(all)
	}
	for _, r := range all {
		r.Stop()
	}
	w.check()
}

// checkDivided fails the test unless each cache has the counts of the slots that its replica owns, and nothing else.
func (w *takeovers) checkDivided(all []*taker) {
	w.t.Helper()
	slots := all[0].manager.Slots()
	cachedBy := make(map[string][]string)
	for _, r := range all {
		owned := r.manager.Slots().Owned()
		assert.Equal(w.t, owned, r.cache.Held(), r.name)
		for key := range r.cache.Keys() {
			assert.Contains(w.t, owned, slots.Slot(countOf(key)), "%s has %s", r.name, key)
			if !strings.Contains(key, "/") {
				cachedBy[key] = append(cachedBy[key], r.name)
			}
		}
	}
	for _, o := range must(w.objects.Select(w.t.Context(), store.Selector{})).Items {
		if !strings.Contains(o.Key, "/") {
			assert.Len(w.t, cachedBy[o.Key], 1, "one replica has %s", o.Key)
		}
	}
}
