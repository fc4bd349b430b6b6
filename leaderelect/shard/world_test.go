package shard_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
	"github.com/setpoint-go/setpoint/leaderelect/shard"
	"github.com/setpoint-go/setpoint/wait"
)

// shards is a world of replicas that share slots. It watches them, and remembers what must not have happened.
type world struct {
	store    *memlease.Store
	slots    int
	replicas []*replica

	mu sync.Mutex
	// mu guards the following.
	at         []*replica          // the replicas that work on a slot, by slot
	busy       map[string]*replica // the replica that works on a key, by key
	terms      []uint64            // the last term, by slot
	acquired   int
	writes     int
	lists      int
	gets       int
	violations []string
}

// replica is one process.
type replica struct {
	*shard.Slots
	world  *world
	name   string
	stray  bool // it has another number of slots than the others
	cancel context.CancelFunc
	done   chan struct{}
	err    error

	// world.mu guards the following.
	dark       time.Time       // until then its calls stall
	drain      time.Duration   // how long work continues after it was revoked
	inner      map[int]int     // work that has begun, by slot
	fails      map[int]bool    // slots for which OnAcquired fails
	unwritable map[string]bool // keys of records that it cannot write
}

func newWorld(t testing.TB, slots int) *world {
	w := &world{store: memlease.New(), slots: slots, busy: make(map[string]*replica), at: make([]*replica, slots), terms: make([]uint64, slots)}
	t.Cleanup(func() {
		for _, r := range w.replicas {
			r.cancel()
		}
		for _, r := range w.replicas {
			<-r.done
		}
	})
	return w
}

// inWorld runs a test in a bubble, with a world of so many slots, and checks at the end that nothing has happened that must not.
func inWorld(t *testing.T, slots int, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slots)
		f(t, w)
		w.checkNow(t)
	})
}

// subWorld is inWorld for a subtest.
func subWorld(t *testing.T, name string, slots int, f func(t *testing.T, w *world)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { inWorld(t, slots, f) })
}

// join adds a replica and runs it.
func (w *world) join(t testing.TB, name string, change func(*shard.Config)) *replica {
	t.Helper()
	r := &replica{world: w, name: name, inner: make(map[int]int)}
	cfg := shard.Config{
		Lease: leaderelect.Config{
			Store: shardLink{replica: r}, Key: "shards", Identity: name,
			Rand: func() float64 { return 0.5 }, Logger: slog.New(slog.DiscardHandler),
		},
		Slots:      w.slots,
		OnAcquired: r.onAcquired,
		OnRevoked:  r.onRevoked,
	}
	if change != nil {
		change(&cfg)
	}
	r.stray = cfg.Slots != w.slots
	s, err := shard.New(cfg)
	require.NoError(t, err)
	r.Slots = s
	w.replicas = append(w.replicas, r)
	r.start()
	return r
}

// watching makes a replica watch.
func watching(cfg *shard.Config) {
	cfg.Lease.Store = watchingLink{cfg.Lease.Store.(shardLink)}
}

func (r *replica) start() {
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel, r.done = cancel, make(chan struct{})
	go func() {
		defer close(r.done)
		r.err = r.Run(ctx)
	}()
}

func (r *replica) stop() error {
	r.cancel()
	<-r.done
	return r.err
}

// cut makes every call of r stall for d.
func (r *replica) cut(d time.Duration) {
	r.world.mu.Lock()
	defer r.world.mu.Unlock()
	r.dark = time.Now().Add(d)
}

func (w *world) violateLocked(format string, args ...any) {
	w.violations = append(w.violations, time.Now().Format("04:05.000 ")+fmt.Sprintf(format, args...))
}

func (r *replica) onAcquired(ctx context.Context, slot int) error {
	w := r.world
	if r.stray {
		return nil
	}
	term := termOf(ctx)
	w.mu.Lock()
	if w.at[slot] != nil {
		w.violateLocked("%s acquires slot %d, in which %s works", r.name, slot, w.at[slot].name)
	}
	if term <= w.terms[slot] {
		w.violateLocked("%s acquires slot %d in term %d after term %d", r.name, slot, term, w.terms[slot])
	}
	w.at[slot], w.terms[slot] = r, term
	w.acquired++
	drain, fails := r.drain, r.fails[slot]
	w.mu.Unlock()
	if fails {
		return errExpected
	}
	if drain > 0 {
		<-ctx.Done()
		l, _ := leaderelect.FromContext(ctx)
		_ = wait.Sleep(l.Context(), drain)
	}
	return nil
}

func (r *replica) onRevoked(slot int, _ error) {
	if r.stray {
		return
	}
	w := r.world
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.at[slot] != r {
		w.violateLocked("%s revokes slot %d, which it did not have", r.name, slot)
	}
	if r.inner[slot] > 0 {
		w.violateLocked("%s revokes slot %d during its work", r.name, slot)
	}
	w.at[slot] = nil
}

// work works on keys of all slots, one after the other, for as long as ctx lasts.
func (r *replica) work(ctx context.Context, took time.Duration) {
	for n := 0; ctx.Err() == nil; n++ {
		key := fmt.Sprint("key", n%40) // so that replicas meet at the same keys
		slot := r.Slot(key)
		inner, done, ok := r.Begin(ctx, key)
		if !ok {
			_ = wait.Sleep(ctx, took)
			continue
		}
		w := r.world
		w.mu.Lock()
		if !r.stray && w.at[slot] != nil && w.at[slot] != r {
			w.violateLocked("%s works in slot %d of %s", r.name, slot, w.at[slot].name)
		}
		if other := w.busy[key]; other != nil {
			w.violateLocked("%s works on %q, on which %s works", r.name, key, other.name)
		}
		w.busy[key] = r
		r.inner[slot]++
		w.mu.Unlock()
		_ = wait.Sleep(inner, took)
		w.mu.Lock()
		delete(w.busy, key)
		r.inner[slot]--
		w.mu.Unlock()
		done()
	}
}

// checkNow requires that nothing has happened that must not.
func (w *world) checkNow(t testing.TB) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	require.Empty(t, w.violations)
}

// settle requires that soon every slot is owned by one of the given replicas, in balance.
func (w *world) settle(t testing.TB, within time.Duration, replicas ...*replica) {
	t.Helper()
	w.cover(t, within, 1, replicas...)
}

// cover requires that soon every slot is owned by one of the given replicas, with at most the given difference between any two.
func (w *world) cover(t testing.TB, within time.Duration, more int, replicas ...*replica) {
	t.Helper()
	for begin := time.Now(); ; after(100 * time.Millisecond) {
		w.checkNow(t)
		covered, least, most := 0, w.slots, 0
		for _, r := range replicas {
			n := len(r.Owned())
			covered, least, most = covered+n, min(least, n), max(most, n)
		}
		if covered == w.slots && most-least <= more {
			return
		}
		require.Less(t, time.Since(begin), within, "%d of %d slots are owned, %d to %d by each", covered, w.slots, least, most)
	}
}

// shardLink is the store as a replica reaches it. It cannot watch.
type shardLink struct{ replica *replica }

func (l shardLink) call(ctx context.Context, count *int) error {
	w := l.replica.world
	w.mu.Lock()
	*count++
	dark := time.Until(l.replica.dark)
	w.mu.Unlock()
	if dark > 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	return wait.Sleep(ctx, latency)
}

// cannotWrite reports whether the replica cannot write a record.
func (l shardLink) cannotWrite(key string) bool {
	w := l.replica.world
	w.mu.Lock()
	defer w.mu.Unlock()
	return l.replica.unwritable[key]
}

func (l shardLink) Get(ctx context.Context, key string) (leaderelect.Entry, error) {
	if err := l.call(ctx, &l.replica.world.gets); err != nil {
		return leaderelect.Entry{}, err
	}
	return l.replica.world.store.Get(ctx, key)
}

func (l shardLink) Create(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
	if l.cannotWrite(e.Key) {
		return leaderelect.Entry{}, errExpected
	}
	if err := l.call(ctx, &l.replica.world.writes); err != nil {
		return leaderelect.Entry{}, err
	}
	return l.replica.world.store.Create(ctx, e)
}

func (l shardLink) Update(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
	if l.cannotWrite(e.Key) {
		return leaderelect.Entry{}, errExpected
	}
	if err := l.call(ctx, &l.replica.world.writes); err != nil {
		return leaderelect.Entry{}, err
	}
	return l.replica.world.store.Update(ctx, e)
}

func (l shardLink) List(ctx context.Context, prefix string) ([]leaderelect.Entry, error) {
	if err := l.call(ctx, &l.replica.world.lists); err != nil {
		return nil, err
	}
	return l.replica.world.store.List(ctx, prefix)
}

// watchingLink is a shardLink that watches. It reports nothing while it is cut.
type watchingLink struct{ shardLink }

func (l watchingLink) Watch(ctx context.Context, key string) iter.Seq2[leaderelect.Entry, error] {
	return func(yield func(leaderelect.Entry, error) bool) {
		for e, err := range l.replica.world.store.Watch(ctx, key) {
			l.replica.world.mu.Lock()
			dark := time.Until(l.replica.dark)
			l.replica.world.mu.Unlock()
			if wait.Sleep(ctx, dark) != nil || !yield(e, err) {
				return
			}
		}
	}
}

// keysOf returns a key of each slot.
func keysOf(s *shard.Slots, slots int) []string {
	keys := make([]string, slots)
	for n, left := 0, slots; left > 0; n++ {
		key := fmt.Sprint("key", n)
		if slot := s.Slot(key); keys[slot] == "" {
			keys[slot] = key
			left--
		}
	}
	return keys
}

// ownedTogether returns how many slots the replicas own, and fails if two own the same.
func ownedTogether(t testing.TB, replicas ...*replica) int {
	t.Helper()
	var all []int
	for _, r := range replicas {
		all = append(all, r.Owned()...)
	}
	slices.Sort(all)
	require.Equal(t, all, slices.Compact(slices.Clone(all)), "owned twice")
	return len(all)
}

// rest waits until everything waits.
func rest() { synctest.Wait() }

// The durations of the tests: the defaults.
const (
	lease   = 15 * time.Second
	renew   = 10 * time.Second
	retry   = 2 * time.Second
	request = 2500 * time.Millisecond
	latency = 2 * time.Millisecond
)

// modelRetry is the RetryPeriod of the model: longer, so that there are fewer calls.
const modelRetry = 4 * time.Second

// modelVariable makes the model run 2,000 schedules.
const modelVariable = "LEADERELECT_MODEL"

var errExpected = errors.New("failed on purpose")

// after lets d pass.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func effort(few, all int) int { return looptest.Effort(modelVariable, few, all) }

// termOf returns the term of the leadership of ctx.
func termOf(ctx context.Context) uint64 {
	l, ok := leaderelect.FromContext(ctx)
	if !ok {
		return 0
	}
	return l.Term()
}
