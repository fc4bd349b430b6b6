package owner_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/owner"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/interceptor"
)

// town is a crew in which others do what they like. It remembers each state of each child, so that its cache can be behind by as
// much as the test likes, for each key by another.
type town struct {
	*crew
	r      *rand.Rand
	states map[string][]store.Object[Worker] // by key; a zero object where there was none
	moves  int
}

var townKeys = []string{"a", "b", "c", "d"}

func newTown(t *testing.T, seed uint64) *town {
	w := &town{crew: newCrew(t), r: rand.New(rand.NewPCG(seed, 1)), states: map[string][]store.Object[Worker]{}}
	w.look()
	return w
}

// look remembers what there is.
func (w *town) look() {
	for _, key := range townKeys {
		now, err := w.workers.Get(context.Background(), key)
		if errors.Is(err, store.ErrNotFound) {
			now = store.Object[Worker]{}
		} else {
			require.NoError(w.t, err)
		}
		if all := w.states[key]; len(all) == 0 || all[len(all)-1].Version != now.Version {
			w.states[key] = append(all, now)
		}
	}
}

// show makes the cache show a state of each key: one of the last few, or the last.
func (w *town) show(behind int) {
	var shown []store.Object[Worker]
	for _, key := range townKeys {
		all := w.states[key]
		if o := all[len(all)-1-w.r.IntN(min(behind, len(all)-1)+1)]; o.Key != "" {
			shown = append(shown, o)
		}
	}
	w.children.Informer().Indexer().Replace(shown)
}

// move is a change to a child by another writer.
func (w *town) move() {
	w.moves++
	ctx, key := context.Background(), townKeys[w.r.IntN(len(townKeys))]
	image := []string{"v1", "v2"}[w.r.IntN(2)]
	o := store.Object[Worker]{Key: key, Value: Worker{Image: image}}
	switch w.r.IntN(9) {
	case 0:
		_, _ = w.workers.Create(ctx, o)
	case 1, 2:
		o.Owners = []store.OwnerRef{controlling([]store.Ref{w.web, w.shop}[w.r.IntN(2)])}
		o.Finalizers = [][]string{nil, {"disk"}}[w.r.IntN(2)]
		_, _ = w.workers.Create(ctx, o)
	case 3:
		_, _ = w.workers.Delete(ctx, key)
	default:
		do := []func(*store.Object[Worker]){
			func(o *store.Object[Worker]) { o.Value.Image = image },
			func(o *store.Object[Worker]) { o.Owners = nil },
			func(o *store.Object[Worker]) { o.Owners = []store.OwnerRef{controlling(w.shop)} },
			func(o *store.Object[Worker]) { o.Owners = []store.OwnerRef{controlling(w.web), plain(w.shop)} },
			func(o *store.Object[Worker]) { o.Labels = map[string]string{"by": fmt.Sprint(w.moves)} },
			func(o *store.Object[Worker]) { o.Finalizers = nil },
			func(o *store.Object[Worker]) { o.Finalizers = []string{"disk"} },
		}[w.r.IntN(7)]
		_, _ = store.Patch(ctx, w.workers, key, func(o *store.Object[Worker]) error {
			if o.Deleting.IsZero() || len(o.Finalizers) > 0 {
				do(o)
			}
			return nil
		})
		if w.r.IntN(3) == 0 {
			_, _ = store.PatchStatus(ctx, w.workers, key, func(o *store.Object[Worker]) error { o.Value.Ready = !o.Value.Ready; return nil })
		}
	}
	w.look()
}

// judged is a store that compares each write of Apply with the state right before it.
type judged struct {
	store.Store[Worker]
	*town
	want map[string]Worker
	busy func() // what others do before each call
}

func (j judged) Get(ctx context.Context, key string) (store.Object[Worker], error) {
	j.busy()
	return j.Store.Get(ctx, key)
}

func (j judged) Create(ctx context.Context, o store.Object[Worker], pre ...store.Precondition) (store.Object[Worker], error) {
	j.busy()
	require.Equal(j.t, store.Object[Worker]{Key: o.Key, Value: j.want[o.Key], Owners: []store.OwnerRef{controlling(j.web)}}, o)
	require.Contains(j.t, j.want, o.Key)
	stored, err := j.Store.Create(ctx, o, pre...)
	j.look()
	return stored, err
}

func (j judged) Update(ctx context.Context, o store.Object[Worker], pre ...store.Precondition) (store.Object[Worker], error) {
	j.busy()
	before, getErr := j.workers.Get(context.Background(), o.Key)
	stored, err := j.Store.Update(ctx, o, pre...)
	if err == nil {
		require.NoError(j.t, getErr)
		require.True(j.t, slices.Contains(before.Owners, controlling(j.web)), "it updates %v", before)
		require.Zero(j.t, before.Deleting, "it updates what is being deleted")
		require.Contains(j.t, j.want, o.Key)
		before.Value.Image, before.Version, before.Generation = j.want[o.Key].Image, stored.Version, stored.Generation
		require.Equal(j.t, before, stored, "it changes more than the value")
	}
	j.look()
	return stored, err
}

func (j judged) Delete(ctx context.Context, key string, pre ...store.Precondition) (store.Object[Worker], error) {
	j.busy()
	before, getErr := j.workers.Get(context.Background(), key)
	require.True(j.t, slices.ContainsFunc(pre, func(p store.Precondition) bool { _, ok := p.UID(); return ok }), "a deletion names the UID")
	stored, err := j.Store.Delete(ctx, key, pre...)
	if err == nil {
		require.NoError(j.t, getErr)
		require.True(j.t, slices.Contains(before.Owners, controlling(j.web)), "it deletes %v", before)
		require.Zero(j.t, before.Deleting, "it deletes twice")
		require.NotContains(j.t, j.want, key)
	}
	j.look()
	return stored, err
}

// With a stale cache, and with concurrent writers between any two steps, Apply changes only children of its owner,
// and only their values. Once undisturbed with a fresh cache, it reaches the wanted state.
func TestApplyWithStaleCacheTouchesOnlyOwnChildren(t *testing.T) {
	const histories, rounds = 150, 12
	taken, written, conflicts := 0, 0, 0
	for seed := range uint64(histories) {
		w := newTown(t, seed)
		j := judged{Store: w.workers, town: w}
		busy := false
		j.busy = func() {
			if busy && w.r.IntN(3) == 0 {
				w.move()
			}
		}
		want := map[string]Worker{}
		children := owner.NewChildren[Worker](&j, w.children.Informer())
		for range rounds {
			for range w.r.IntN(4) {
				w.move()
			}
			want = map[string]Worker{}
			for _, key := range townKeys {
				if w.r.IntN(3) > 0 {
					want[key] = Worker{Image: []string{"v1", "v2"}[w.r.IntN(2)]}
				}
			}
			j.want, busy = want, w.r.IntN(2) == 0
			w.show(3)
			version := must(w.workers.List(context.Background())).Version
			have, err := children.Apply(t.Context(), w.web, want)
			if must(w.workers.List(context.Background())).Version > version {
				written++
			}
			if errors.Is(err, owner.ErrOwned) {
				taken++
			}
			if errors.Is(err, store.ErrConflict) {
				conflicts++
			}
			require.True(t, slices.IsSortedFunc(have, func(a, b store.Object[Worker]) int { return int(a.Key[0]) - int(b.Key[0]) }))
			for _, child := range have {
				require.Contains(t, want, child.Key)
				require.Zero(t, child.Deleting)
				require.Contains(t, child.Owners, controlling(w.web))
				require.Equal(t, want[child.Key].Image, child.Value.Image)
			}
		}
		busy = false
		for _, key := range townKeys { // whatever holds a child lets it go, and what others have goes too
			_, _ = store.Patch(context.Background(), w.workers, key, func(o *store.Object[Worker]) error { o.Finalizers = nil; return nil })
			if o, err := w.workers.Get(context.Background(), key); err == nil && !slices.Contains(o.Owners, controlling(w.web)) {
				must(w.workers.Delete(context.Background(), key))
			}
		}
		w.look()
		w.show(0)
		have, err := children.Apply(t.Context(), w.web, want)
		require.NoError(t, err)
		require.Equal(t, slices.Sorted(maps.Keys(want)), keysOf(have))
		require.ElementsMatch(t, w.all(), have)
		for _, child := range have {
			require.Equal(t, want[child.Key].Image, child.Value.Image)
		}
	}
	assert.Greater(t, taken, 50)
	assert.Greater(t, written, 500)
	assert.Zero(t, conflicts, "it tries again")
}

// A lost reply does no harm, whatever the cache shows at the next attempt.
func TestApplyConvergesAfterLostReplyOrCrash(t *testing.T) {
	steps := 0
	for nth := 1; ; nth++ {
		hit := false
		for _, fault := range []interceptor.Fault{interceptor.LoseReply(), interceptor.LoseRequest()} {
			for _, seen := range []bool{true, false} {
				c := newCrew(t)
				c.create("a", "v1", c.web)
				c.create("b", "v1", c.web, "disk")
				c.create("x", "v1", c.web)
				c.create("y", "v1", c.web)
				c.sync()
				lost := c.calls.Inject(interceptor.Rule{Nth: nth, Fault: fault})
				_, err := c.apply("v2", "a", "b", "c", "d")
				require.Equal(t, lost.Hits() > 0, err != nil, "a lost reply is an error")
				hit = hit || lost.Hits() > 0
				lost.Remove()
				if seen {
					c.sync()
				}
				have, err := c.apply("v2", "a", "b", "c", "d")
				require.NoError(t, err, "call %d", nth)
				require.Equal(t, []string{"a", "b", "c", "d"}, have)
				require.Equal(t, have, keysOf(c.all()))
				for _, child := range c.all() {
					require.Equal(t, "v2", child.Value.Image)
				}
			}
		}
		if !hit {
			break
		}
		steps++
	}
	require.Equal(t, 6, steps, "two updates, two creations, two deletions")
}

// Two owners want the same keys concurrently. Each ends up with the keys that it created first.
func TestConcurrentApplyNeverTouchesOthersChildren(t *testing.T) {
	for round := range 20 {
		synctest.Test(t, func(t *testing.T) {
			c := newCrew(t)
			inf := mirror(t, c.workers)
			children := owner.NewChildren[Worker](c.calls, inf)
			var g sync.WaitGroup
			for i, by := range []store.Ref{c.web, c.shop} {
				g.Go(func() { // one owner; ends with its loop
					r := rand.New(rand.NewPCG(uint64(round), uint64(i)))
					for range 30 {
						want := map[string]Worker{}
						for _, key := range townKeys {
							if r.IntN(2) == 0 {
								want[key] = Worker{Image: by.Key}
							}
						}
						have, err := children.Apply(t.Context(), by, want)
						for _, child := range have {
							assert.Contains(t, child.Owners, controlling(by))
							assert.Equal(t, by.Key, child.Value.Image)
						}
						if err != nil {
							assert.ErrorIs(t, err, owner.ErrOwned)
						}
					}
				})
			}
			g.Wait()
			synctest.Wait()
			for _, child := range c.all() {
				has, _ := owner.ControllerOf(child)
				assert.Equal(t, has.Key, child.Value.Image, "neither wrote to a child of the other")
			}
			for _, by := range []store.Ref{c.web, c.shop} {
				must(children.Apply(t.Context(), by, nil))
			}
			assert.Empty(t, c.all())
		})
	}
}
