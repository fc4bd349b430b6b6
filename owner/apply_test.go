package owner_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/owner"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/interceptor"
)

// Worker is a child with a status.
type Worker struct {
	Image string
	Args  []string
	Ready bool `store:"status"`
}

// crew is a database with workers of two owners, behind an interceptor. The test writes the cache of children.
type crew struct {
	t         *testing.T
	workers   store.Store[Worker]
	calls     *interceptor.Store[Worker]
	children  *owner.Children[Worker]
	web, shop store.Ref
}

func newCrew(t *testing.T) *crew {
	var n atomic.Int64
	uid := func() string { return "w" + string(rune('a'+n.Add(1))) }
	workers := must(store.Open(store.NewMemory(store.MemoryConfig{}), "worker", store.Config[Worker]{NewUID: uid}))
	calls := interceptor.New(workers)
	return &crew{
		t: t, workers: workers, calls: calls,
		children: owner.NewChildren[Worker](calls, must(informer.New(workers, store.Key, informer.Config{}))),
		web:      store.Ref{Kind: "app", Key: "web", UID: "u1"}, shop: store.Ref{Kind: "app", Key: "shop", UID: "u2"},
	}
}

// sync brings the cache up to date.
func (c *crew) sync() { c.children.Informer().Indexer().Replace(c.all()) }

func (c *crew) all() []store.Object[Worker] {
	return must(c.workers.List(context.Background())).Items
}

func (c *crew) create(key, image string, by store.Ref, finalizers ...string) store.Object[Worker] {
	o := store.Object[Worker]{Key: key, Value: Worker{Image: image, Ready: true}, Finalizers: finalizers}
	if by.UID != "" {
		o.Owners = []store.OwnerRef{controlling(by)}
	}
	return must(c.workers.Create(context.Background(), o))
}

func (c *crew) now(key string) store.Object[Worker] {
	return must(c.workers.Get(context.Background(), key))
}

func (c *crew) change(key string, do func(*store.Object[Worker])) {
	must(store.Patch(context.Background(), c.workers, key, func(o *store.Object[Worker]) error { do(o); return nil }))
}

// apply calls Apply for web, for workers that all have the same image.
func (c *crew) apply(image string, keys ...string) (have []string, err error) {
	want := map[string]Worker{}
	for _, key := range keys {
		want[key] = Worker{Image: image}
	}
	children, err := c.children.Apply(c.t.Context(), c.web, want)
	return keysOf(children), err
}

func keysOf(children []store.Object[Worker]) (keys []string) {
	for _, child := range children {
		keys = append(keys, child.Key)
	}
	return keys
}

func TestApplyCreatesUpdatesAndDeletes(t *testing.T) {
	c := newCrew(t)
	c.create("change", "v1", c.web, "disk")
	c.create("keep", "v2", c.web)
	c.create("surplus", "v2", c.web)
	other, orphan := c.create("other", "v1", c.shop), c.create("orphan", "v1", store.Ref{})
	c.change("change", func(o *store.Object[Worker]) { o.Labels = map[string]string{"tier": "front"} })
	kept, changed := c.now("keep"), c.now("change")
	c.sync()
	have, err := c.apply("v2", "new", "keep", "change")
	require.NoError(t, err)
	assert.Equal(t, []string{"change", "keep", "new"}, have)
	assert.Equal(t, []string{"change", "keep", "new", "orphan", "other"}, keysOf(c.all()))
	assert.Equal(t, []store.Object[Worker]{kept, orphan, other}, []store.Object[Worker]{c.now("keep"), c.now("orphan"), c.now("other")})
	now := c.now("change")
	changed.Value.Image, changed.Version, changed.Generation = "v2", now.Version, 2
	assert.Equal(t, changed, now, "the value changed, and neither the status nor the metadata")
	created := c.now("new")
	assert.Equal(t, []store.OwnerRef{controlling(c.web)}, created.Owners)
	assert.Equal(t, Worker{Image: "v2"}, created.Value)
}

func TestApplyReturnsResultingChildren(t *testing.T) {
	c := newCrew(t)
	c.create("change", "v1", c.web)
	c.create("keep", "v2", c.web)
	c.sync()
	have, err := c.children.Apply(t.Context(), c.web, map[string]Worker{"keep": {Image: "v2"}, "change": {Image: "v2"}, "new": {Image: "v2"}})
	require.NoError(t, err)
	assert.Equal(t, c.all(), have)
}

func TestApplyWritesNothingWhenUpToDate(t *testing.T) {
	c := newCrew(t)
	c.create("a", "v1", c.web) // is Ready, which is not part of the wanted value
	c.create("other", "v1", c.shop)
	c.sync()
	have, err := c.apply("v1", "a")
	require.NoError(t, err)
	assert.Equal(t, []string{"a"}, have)
	assert.Empty(t, c.calls.Calls(), "not even a read")
}

// An incomplete reference must not match every object, or objects without an owner.
func TestApplyForUnstoredOwnerDeletesNothing(t *testing.T) {
	c := newCrew(t)
	c.create("orphan", "v1", store.Ref{})
	c.create("a", "v1", c.web)
	c.sync()
	for _, ref := range []store.Ref{{}, {Kind: "app", Key: "web"}, {Kind: "app", UID: "u1"}, {Key: "web", UID: "u1"}} {
		_, err := c.children.Apply(t.Context(), ref, nil)
		require.ErrorContains(t, err, "owner: apply children: a reference needs kind, key and UID")
		_, err = c.children.Claim(t.Context(), ref, owner.Owners{}, func(store.Object[Worker]) bool { return false })
		require.ErrorContains(t, err, "owner: claim children: a reference needs kind, key and UID")
	}
	assert.Empty(t, c.children.Of(store.Ref{Kind: "app", Key: "web"}))
	assert.Empty(t, c.children.Keys(store.Ref{Kind: "app", Key: "web"}))
	assert.Empty(t, c.calls.Calls())
}

func TestApplyOfNothingDeletesOnlyOwnChildren(t *testing.T) {
	c := newCrew(t)
	c.create("a", "v1", c.web)
	c.create("b", "v1", c.web)
	plainly := c.create("plain", "v1", c.shop)
	plainly.Owners = append(plainly.Owners, plain(c.web)) // web does not control it
	must(c.workers.Update(t.Context(), plainly))
	c.create("orphan", "v1", store.Ref{})
	c.sync()
	have, err := c.apply("v1")
	require.NoError(t, err)
	assert.Empty(t, have)
	assert.Equal(t, []string{"orphan", "plain"}, keysOf(c.all()))
}

func TestApplyErrorNamesOwnerOfTakenKey(t *testing.T) {
	c := newCrew(t)
	before := []store.Object[Worker]{c.create("b", "v1", c.shop), c.create("c", "v1", store.Ref{Kind: "app", Key: "web", UID: "u0"})}
	for _, synced := range []bool{false, true} {
		if synced {
			c.sync()
		}
		have, err := c.apply("v2", "a", "b", "c", "d")
		require.ErrorIs(t, err, owner.ErrOwned)
		assert.EqualError(t, err, `owner: apply worker "b": it is controlled by another object: app "shop" (UID "u2")`+"\n"+
			`owner: apply worker "c": it is controlled by another object: app "web" (UID "u0")`)
		assert.Equal(t, []string{"a", "d"}, have, "the others are applied")
		assert.Equal(t, before, []store.Object[Worker]{c.now("b"), c.now("c")})
	}
}

func TestStaleCachedOwnerDoesNotKeepKeyTaken(t *testing.T) {
	c := newCrew(t)
	for _, key := range []string{"gone", "ours"} {
		c.create(key, "v1", store.Ref{Kind: "app", Key: "web", UID: "u0"})
	}
	c.sync()
	for _, key := range []string{"gone", "ours"} { // another process collects them, which the cache does not show yet
		must(c.workers.Delete(t.Context(), key))
	}
	c.create("ours", "v1", c.web)
	have, err := c.apply("v2", "gone", "ours")
	require.NoError(t, err)
	assert.Equal(t, []string{"gone", "ours"}, have)
	assert.Equal(t, "v2", c.now("ours").Value.Image)
}

func TestClaimAdoptsButApplyDoesNot(t *testing.T) {
	c := newCrew(t)
	before := c.create("a", "v1", store.Ref{})
	for _, synced := range []bool{false, true} {
		if synced {
			c.sync()
		}
		have, err := c.apply("v2", "a", "b")
		require.ErrorIs(t, err, store.ErrExists)
		require.EqualError(t, err, `owner: apply worker "a": object already exists, and has no controller: adopt it with Claim`)
		assert.Equal(t, []string{"b"}, have)
		assert.Equal(t, before, c.now("a"))
	}
	owners := owner.Owners{Kind: "app", Get: func(context.Context, string) (string, bool, error) { return c.web.UID, false, nil }}
	_, err := c.children.Claim(t.Context(), c.web, owners, func(store.Object[Worker]) bool { return true })
	require.NoError(t, err)
	for range 2 { // the cache does not show the adoption yet, and then it does
		have, err := c.apply("v2", "a", "b")
		require.NoError(t, err)
		assert.Equal(t, []string{"a", "b"}, have)
		assert.Equal(t, "v2", c.now("a").Value.Image)
		c.sync()
	}
}

func TestApplyRecreatesChildAfterItsDeletion(t *testing.T) {
	c := newCrew(t)
	for _, key := range []string{"wanted", "surplus"} {
		c.create(key, "v1", c.web, "disk")
	}
	must(c.workers.Delete(t.Context(), "wanted"))
	wanted := c.now("wanted")
	c.sync()
	for range 2 {
		have, err := c.apply("v2", "wanted")
		require.NoError(t, err)
		assert.Empty(t, have, "a child that is being deleted is none of the results")
		assert.Equal(t, wanted, c.now("wanted"))
		assert.NotZero(t, c.now("surplus").Deleting)
		c.sync()
	}
	assert.Len(t, c.calls.Writes(), 1, "the deletion is requested once")
	assert.Len(t, c.children.Of(c.web), 2, "they are still children")
	for _, key := range []string{"wanted", "surplus"} {
		c.change(key, func(o *store.Object[Worker]) { o.Finalizers = nil })
	}
	have, err := c.apply("v2", "wanted")
	require.NoError(t, err)
	assert.Empty(t, have, "the cache does not show that it is gone")
	c.sync()
	have, err = c.apply("v2", "wanted")
	require.NoError(t, err)
	assert.Equal(t, []string{"wanted"}, have)
	assert.Equal(t, []string{"wanted"}, keysOf(c.all()))
}

func TestErrorOfOneChildDoesNotBlockOthers(t *testing.T) {
	down := errors.New("down")
	c := newCrew(t)
	for _, key := range []string{"delete-1", "delete-2", "update-1", "update-2"} {
		c.create(key, "v1", c.web)
	}
	c.sync()
	for _, key := range []string{"create-1", "delete-1", "update-1"} {
		c.calls.Inject(interceptor.Rule{Key: key, Fault: interceptor.Fail(down)})
	}
	have, err := c.apply("v2", "create-1", "create-2", "update-1", "update-2")
	require.ErrorIs(t, err, down)
	for _, want := range []string{`owner: apply worker "create-1": `, `owner: apply worker "update-1": `, `owner: apply worker "delete-1": `} {
		assert.ErrorContains(t, err, want)
	}
	assert.Equal(t, []string{"create-2", "update-2"}, have)
	assert.Equal(t, []string{"create-2", "delete-1", "update-1", "update-2"}, keysOf(c.all()))
	c.calls.Reset()
	c.sync()
	_, err = c.apply("v2", "create-1", "create-2", "update-1", "update-2")
	require.NoError(t, err)
	assert.Equal(t, []string{"create-1", "create-2", "update-1", "update-2"}, keysOf(c.all()))
}

func TestApplyStopsWhenContextOrTermEnds(t *testing.T) {
	over := errors.New("the term is over")
	c := newCrew(t)
	c.create("surplus", "v1", c.web)
	c.sync()
	ctx, end := context.WithCancelCause(t.Context())
	c.calls.Inject(interceptor.Rule{Op: "create", Nth: 2, Fault: interceptor.Before(func(context.Context) error { end(over); return over })})
	want := map[string]Worker{"a": {}, "b": {}, "c": {}, "d": {}}
	have, err := c.children.Apply(ctx, c.web, want)
	require.ErrorIs(t, err, over)
	assert.ErrorContains(t, err, `owner: apply children of app "web": the term is over`)
	assert.Equal(t, []string{"a"}, keysOf(have))
	assert.Len(t, c.calls.Writes(), 2)

	must(c.workers.Create(leading(t, 3), store.Object[Worker]{Key: "x"}))
	c.calls.Reset()
	c.calls.ForgetCalls()
	have, err = c.children.Apply(leading(t, 2), c.web, want)
	require.ErrorIs(t, err, store.ErrFenced)
	assert.Empty(t, have)
	assert.Len(t, c.calls.Writes(), 1, "nothing is tried after a write was refused")
	assert.True(t, slices.Contains(keysOf(c.all()), "surplus"))
}

func TestApplyRereadsAfterEachForeignChange(t *testing.T) {
	c := newCrew(t)
	c.create("a", "v1", c.web)
	c.sync()
	c.calls.Inject(interceptor.Rule{Op: "update", Fault: interceptor.Before(func(context.Context) error {
		return errOf(c.workers.Delete(t.Context(), "a"))
	})})
	c.calls.Inject(interceptor.Rule{Op: "create", Fault: interceptor.Before(func(context.Context) error {
		c.create("a", "v1", c.web)
		return nil
	})})
	have, err := c.apply("v2", "a")
	require.NoError(t, err)
	assert.Equal(t, []string{"a"}, have)
	assert.Equal(t, "v2", c.now("a").Value.Image)
}

func TestApplyGivesUpOnChildrenChangedRepeatedly(t *testing.T) {
	c := newCrew(t)
	c.create("surplus", "v1", c.web)
	c.create("wanted", "v1", c.web)
	c.sync()
	c.calls.Inject(interceptor.Rule{Op: "update", Times: 100, Fault: interceptor.Fail(store.ErrConflict)})
	c.calls.Inject(interceptor.Rule{Op: "delete", Times: 100, Fault: interceptor.Fail(store.ErrConflict)})
	_, err := c.apply("v2", "wanted")
	require.ErrorIs(t, err, store.ErrConflict)
	assert.ErrorContains(t, err, `owner: apply worker "surplus": `)
	assert.ErrorContains(t, err, `owner: apply worker "wanted": `)
	assert.Len(t, c.calls.Writes(), 8)
}

func TestApplyReturnsReadErrors(t *testing.T) {
	down := errors.New("down")
	c := newCrew(t)
	c.create("a", "v1", c.web)
	c.sync()
	c.calls.Inject(interceptor.Rule{Op: "update", Fault: interceptor.Fail(store.ErrConflict)})
	c.calls.Inject(interceptor.Rule{Op: "get", Fault: interceptor.Fail(down)})
	have, err := c.apply("v2", "a")
	require.ErrorIs(t, err, down)
	assert.Empty(t, have)
	assert.Len(t, c.calls.Writes(), 1)
}

func TestDisappearingSurplusChildIsNoError(t *testing.T) {
	c := newCrew(t)
	c.create("surplus", "v1", c.web)
	c.sync()
	c.calls.Inject(interceptor.Rule{Op: "delete", Fault: interceptor.Before(func(context.Context) error {
		must(c.workers.Delete(t.Context(), "surplus"))
		return store.ErrConflict // as if another writer had changed it first
	})})
	_, err := c.apply("v1")
	require.NoError(t, err)
}
