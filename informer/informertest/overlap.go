package informertest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/broadcast"
	"github.com/setpoint-go/setpoint/wait"
)

// Change is one write to the source under test: a Put of a revision, or a Delete.
type Change struct {
	Name   string
	Rev    int // of a Put
	Delete bool
}

func (c Change) String() string {
	if c.Delete {
		return "Delete " + c.Name
	}
	return fmt.Sprintf("Put %s.%d", c.Name, c.Rev)
}

// change applies c to s.
func (s state) change(c Change) {
	if c.Delete {
		delete(s, c.Name)
		return
	}
	s[c.Name] = c.Rev
}

func overlapCases[T any]() []testCase[T] {
	var all []testCase[T]
	for _, o := range []struct {
		name          string
		first, second Change
	}{
		{"a creation that commits late is not missed", Change{Name: "late", Rev: 101}, Change{Name: "early", Rev: 102}},
		{"an update that commits late is not missed", Change{Name: "a", Rev: 101}, Change{Name: "b", Rev: 102}},
		{"a deletion that commits late is not missed", Change{Name: "a", Delete: true}, Change{Name: "b", Rev: 102}},
		{"a creation that commits after a deletion is not missed", Change{Name: "late", Rev: 101}, Change{Name: "b", Delete: true}},
	} {
		all = append(all, testCase[T]{o.name, func(t testing.TB, s Subject[T]) {
			newWorld(t, s).overlap(o.first, o.second)
		}})
	}
	return append(all,
		testCase[T]{"caches following many writers converge", func(t testing.TB, s Subject[T]) { newWorld(t, s).manyWriters(6, 5, 8) }},
		testCase[T]{"caches following a burst of new objects converge", func(t testing.TB, s Subject[T]) { newWorld(t, s).manyWriters(4, 50, 1) }},
	)
}

// overlap makes first begin before second and commit after it. Three caches follow the source: one that listed before both, one that lists
// while first is open, and one that lists after both.
func (w *world[T]) overlap(first, second Change) {
	w.t.Helper()
	if w.Overlap == nil {
		w.t.Skip("the subject has no Overlap, so this suite does not show that the source yields changes in the order of their commits")
	}
	w.put("a")
	w.put("b")
	caches := w.caches()
	caches.follow("a cache that listed before both changes began")
	var once sync.Once
	look := func() {
		once.Do(func() {
			caches.follow(fmt.Sprintf("a cache that listed when %q had begun and %q had ended", first, second))
		})
	}
	w.must(w.Overlap(first, second, look))
	w.truth.change(first)
	w.truth.change(second)
	look() // a subject whose source makes writers wait may never call look
	caches.follow("a cache that listed after both changes")
	caches.converge()
	w.revs = max(w.revs, first.Rev, second.Rev)
	w.put("a")
	w.put("z")
	caches.converge() // later changes arrive as well
}

// manyWriters runs several writers, with several objects each, while new caches list and follow.
func (w *world[T]) manyWriters(writers, objects, rounds int) {
	w.t.Helper()
	caches := w.caches()
	caches.follow("a cache that listed before the writers began")
	group, errs := sync.WaitGroup{}, make([]error, writers)
	for i := range writers {
		group.Go(func() { // writes concurrently with the others; ends by itself; the Wait below waits for it
			errs[i] = w.writes(i, objects, rounds)
		})
	}
	for i := range 3 {
		caches.follow(fmt.Sprintf("cache %d of those that listed while the writers wrote", i+1))
	}
	group.Wait()
	w.must(errors.Join(errs...))
	for i := range writers {
		for j := range objects {
			if (i+j)%3 > 0 {
				w.truth[fmt.Sprintf("w%d-%d", i, j)] = (i*rounds+rounds-1)*objects + j + 1
			}
		}
	}
	w.listsTruth()
	caches.converge()
}

// writes is one writer: it puts each of its objects in every round, and deletes a third of them in the last.
func (w *world[T]) writes(i, objects, rounds int) error {
	for r := range rounds {
		for j := range objects {
			if err := w.Put(fmt.Sprintf("w%d-%d", i, j), (i*rounds+r)*objects+j+1); err != nil {
				return err
			}
		}
	}
	for j := range objects {
		if (i+j)%3 == 0 {
			if err := w.Delete(fmt.Sprintf("w%d-%d", i, j)); err != nil {
				return err
			}
		}
	}
	return nil
}

// caches are consumers that follow a source as an informer does.
type caches[T any] struct {
	w     *world[T]
	all   []*follower
	ctx   context.Context
	group *sync.WaitGroup
}

// follower is one cache.
type follower struct {
	name    string
	changed broadcast.Signal // woken after each change of the following

	mu sync.Mutex
	// mu guards the following.
	now  state
	seen informer.Version
	err  error
}

func (f *follower) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	f.changed.Wake()
}

func (w *world[T]) caches() *caches[T] {
	ctx, cancel := context.WithCancel(w.t.Context())
	c := &caches[T]{w: w, ctx: ctx, group: new(sync.WaitGroup)}
	w.t.Cleanup(func() {
		cancel()
		c.group.Wait()
	})
	return c
}

// follow starts a cache, and returns when it has listed.
func (c *caches[T]) follow(name string) {
	c.w.t.Helper()
	f := &follower{name: name, now: state{}}
	c.all = append(c.all, f)
	listed := make(chan error, 1)
	c.group.Go(func() { // follows the source, which blocks; ends with ctx; the cleanup waits for it
		err := wait.Call(c.ctx, func(ctx context.Context) error {
			return c.w.keep(ctx, f, func() {
				select {
				case listed <- nil:
				default:
				}
			})
		})
		f.set(func() { f.err = err })
		select {
		case listed <- err:
		default:
		}
	})
	c.w.must(within(c.ctx, c.w.t, "the list of "+name, func(context.Context) error { return <-listed }))
}

// keep keeps f up to date until ctx ends or the source breaks its contract.
func (w *world[T]) keep(ctx context.Context, f *follower, listed func()) error {
	for again := 0; ctx.Err() == nil; again++ { // consecutive lists of the same version
		list, err := w.Source.List(ctx)
		if err != nil {
			return err
		}
		now, err := w.read(list)
		if err != nil {
			return err
		}
		f.mu.Lock()
		seen := f.seen
		f.mu.Unlock()
		if list.Version < seen {
			return fmt.Errorf("the list is of version %d, but version %d was seen", list.Version, seen)
		}
		if list.Version > seen {
			again = 0
		}
		if again > 100 { // it would never end, and no time would pass in a bubble
			return fmt.Errorf("the watch from version %d of a list expires each time", list.Version)
		}
		f.set(func() { f.now, f.seen = now, list.Version })
		listed()
		for stops := 0; ; {
			before := f.seen // no other goroutine changes it
			err := w.keepWatching(ctx, f)
			if errors.Is(err, informer.ErrExpired) {
				break
			}
			if stops++; f.seen > before {
				stops = 0
			}
			if err == nil && stops > 100 {
				err = fmt.Errorf("the watch from version %d stops each time, without an event or an error", before)
			}
			if err != nil {
				return err
			}
		}
	}
	return context.Cause(ctx)
}

// keepWatching applies one watch to f. It returns nil if the watch stops and may be resumed. An event says only which state an object now
// has: the source may repeat what the list has already shown.
func (w *world[T]) keepWatching(ctx context.Context, f *follower) error {
	for ev, err := range w.changes(ctx, f.seen) { // no other goroutine changes seen
		if err != nil {
			return err
		}
		if ev.Version < f.seen { // equal if a version changes several objects, as with a poll: see informer.Event
			return fmt.Errorf("an event is of version %d, but version %d was seen", ev.Version, f.seen)
		}
		c := Change{Delete: ev.Type == informer.Deleted}
		if ev.Type != informer.Bookmark {
			c.Name, c.Rev = w.Read(ev.Object)
		}
		f.set(func() {
			if f.seen = ev.Version; ev.Type != informer.Bookmark {
				f.now.change(c)
			}
		})
	}
	return context.Cause(ctx)
}

// converge fails unless each cache reaches the true state.
func (c *caches[T]) converge() {
	c.w.t.Helper()
	ctx, cancel := context.WithTimeout(c.ctx, Patience)
	defer cancel()
	for _, f := range c.all {
		for {
			f.mu.Lock()
			now, seen, err, changed := maps.Clone(f.now), f.seen, f.err, f.changed.Next()
			f.mu.Unlock()
			if maps.Equal(now, c.w.truth) {
				break
			}
			if err != nil {
				c.w.t.Fatalf("%s has ended: %v", f.name, err)
			}
			select {
			case <-changed:
				continue
			case <-ctx.Done():
			}
			c.w.t.Fatalf("%s has reached version %d and differs from the source, %v later:\n%s", f.name, seen, Patience, differences(now, c.w.truth))
		}
	}
}

// differences describes how a cache differs from the true state, for at most ten objects.
func differences(have, want state) string {
	names := map[string]bool{}
	for name := range have {
		names[name] = true
	}
	for name := range want {
		names[name] = true
	}
	text, more := "", 0
	for _, name := range slices.Sorted(maps.Keys(names)) {
		h, has := have[name]
		v, wants := want[name]
		switch {
		case has && wants && h == v:
			continue
		case more >= 10:
		case !has:
			text += fmt.Sprintf("  %s.%d is missing\n", name, v)
		case !wants:
			text += fmt.Sprintf("  %s.%d was deleted\n", name, h)
		default:
			text += fmt.Sprintf("  %s.%d is stale, the source has %s.%d\n", name, h, name, v)
		}
		more++
	}
	if more > 10 {
		text += fmt.Sprintf("  and %d more\n", more-10)
	}
	return text
}
