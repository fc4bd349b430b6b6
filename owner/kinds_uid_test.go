package owner_test

import (
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/owner"
	"github.com/setpoint-go/setpoint/store"
)

// counted returns a NewUID that counts, as the ids of a table do. Those of two kinds have the same UIDs.
func counted() func() string {
	var n atomic.Int64
	return func() string { return strconv.FormatInt(n.Add(1), 10) }
}

// sameUIDs has an app and a site with the same UID, and a child of each.
type sameUIDs struct {
	apps, sites           store.Store[App]
	app, site             store.Object[App]
	replicas              store.Store[Replica]
	children              *owner.Children[Replica]
	ofApp, ofSite, ofBoth store.Object[Replica]
}

func newSameUIDs(t *testing.T) *sameUIDs {
	db := store.NewMemory(store.MemoryConfig{})
	w := &sameUIDs{
		apps:     must(store.Open(db, "app", store.Config[App]{NewUID: counted()})),
		sites:    must(store.Open(db, "site", store.Config[App]{NewUID: counted()})),
		replicas: must(store.Open(db, "replica", store.Config[Replica]{NewUID: counted()})),
	}
	w.app = must(w.apps.Create(t.Context(), store.Object[App]{Key: "web"}))
	w.site = must(w.sites.Create(t.Context(), store.Object[App]{Key: "web"}))
	require.Equal(t, w.app.UID, w.site.UID)
	child := func(key string, owners ...store.OwnerRef) store.Object[Replica] {
		return must(w.replicas.Create(t.Context(), store.Object[Replica]{Key: key, Owners: owners}))
	}
	w.ofApp = child("of-app", store.OwnerRef{Ref: w.app.Ref(), Controller: true})
	w.ofSite = child("of-site", store.OwnerRef{Ref: w.site.Ref(), Controller: true})
	w.ofBoth = child("of-both", store.OwnerRef{Ref: w.app.Ref()}, store.OwnerRef{Ref: w.site.Ref()})
	seen := must(informer.New(w.replicas, store.Key, informer.Config{}))
	w.children = owner.NewChildren(w.replicas, seen)
	steps := must(seen.Steps(t.Context()))
	t.Cleanup(steps.Stop)
	require.True(t, steps.Read(t.Context()))
	for steps.Apply() {
	}
	return w
}

// owners returns the kinds of the owners of a child, or nothing if it is gone.
func (w *sameUIDs) owners(t *testing.T, key string) (kinds []string) {
	o, err := w.replicas.Get(t.Context(), key)
	if err != nil {
		require.ErrorIs(t, err, store.ErrNotFound)
	}
	for _, ref := range o.Owners {
		kinds = append(kinds, ref.Kind)
	}
	return kinds
}

func TestOwnersOfTwoKindsMayHaveTheSameUID(t *testing.T) {
	t.Run("Of and Keys", func(t *testing.T) {
		w := newSameUIDs(t)
		of := w.children.Of(w.app.Ref())
		require.Len(t, of, 1)
		assert.Equal(t, "of-app", of[0].Key)
		assert.Equal(t, []string{"of-app", "of-both"}, w.children.Keys(w.app.Ref()))
	})
	t.Run("Apply", func(t *testing.T) {
		w := newSameUIDs(t)
		_, err := w.children.Apply(t.Context(), w.app.Ref(), nil)
		require.NoError(t, err)
		assert.Empty(t, w.owners(t, "of-app"))
		assert.Equal(t, []string{"site"}, w.owners(t, "of-site"), "Apply changes only children that its owner controls")
		_, err = w.children.Apply(t.Context(), w.app.Ref(), map[string]Replica{"of-site": {}})
		require.ErrorIs(t, err, owner.ErrOwned)
	})
	t.Run("Claim", func(t *testing.T) {
		w := newSameUIDs(t)
		mine, err := w.children.Claim(t.Context(), w.app.Ref(), owner.In(w.apps), func(o store.Object[Replica]) bool { return o.Key == "of-both" })
		require.NoError(t, err)
		require.Len(t, mine, 1)
		assert.Empty(t, w.owners(t, "of-app"), "it is released")
		assert.Equal(t, []string{"site"}, w.owners(t, "of-site"))
		assert.Equal(t, []string{"app", "site"}, w.owners(t, "of-both"))
	})
	t.Run("Collect", func(t *testing.T) {
		w := newSameUIDs(t)
		require.NoError(t, errOf(w.apps.Delete(t.Context(), "web")))
		for _, key := range []string{"of-app", "of-site", "of-both"} {
			_, err := w.children.Collect(t.Context(), key, owner.In(w.apps), owner.In(w.sites))
			require.NoError(t, err)
		}
		assert.Empty(t, w.owners(t, "of-app"))
		assert.Equal(t, []string{"site"}, w.owners(t, "of-site"))
		assert.Equal(t, []string{"site"}, w.owners(t, "of-both"), "Collect deletes a child only if all its owners are gone")
	})
	for _, how := range []owner.Policy{owner.Foreground, owner.Orphan} {
		t.Run("Cascade "+string(how), func(t *testing.T) {
			w := newSameUIDs(t)
			require.NoError(t, owner.Delete(t.Context(), w.apps, "web", how))
			left, err := owner.Cascade(t.Context(), w.apps, "web", w.children)
			require.NoError(t, err)
			assert.Zero(t, left)
			assert.Empty(t, w.owners(t, "of-app"))
			assert.Equal(t, []string{"site"}, w.owners(t, "of-site"))
			want := map[owner.Policy][]string{owner.Foreground: {"app", "site"}, owner.Orphan: {"site"}}[how]
			assert.Equal(t, want, w.owners(t, "of-both"))
		})
	}
}
