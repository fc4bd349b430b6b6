package owner_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/owner"
	"github.com/setpoint-go/setpoint/store"
)

var (
	web      = store.Ref{Kind: "app", Key: "web", UID: "u1"}
	webAgain = store.Ref{Kind: "app", Key: "web", UID: "u2"}
	shop     = store.Ref{Kind: "app", Key: "shop", UID: "u3"}
	job      = store.Ref{Kind: "job", Key: "web", UID: "u4"}
)

func plain(r store.Ref) store.OwnerRef       { return store.OwnerRef{Ref: r} }
func controlling(r store.Ref) store.OwnerRef { return store.OwnerRef{Ref: r, Controller: true} }

// The result of SetController depends on an existing controller and on the other owners.
func TestSetController(t *testing.T) {
	for _, c := range []struct {
		name   string
		before []store.OwnerRef
		set    store.Ref
		after  []store.OwnerRef // nil: it is refused
	}{
		{"of an orphan", nil, web, []store.OwnerRef{controlling(web)}},
		{"a repetition changes nothing", []store.OwnerRef{controlling(web)}, web, []store.OwnerRef{controlling(web)}},
		{"keeps other owners and their order", []store.OwnerRef{plain(shop), plain(job)}, web, []store.OwnerRef{plain(shop), plain(job), controlling(web)}},
		{"promotes an owner where it stands", []store.OwnerRef{plain(shop), plain(web), plain(job)}, web, []store.OwnerRef{plain(shop), controlling(web), plain(job)}},
		{"promotes an only owner", []store.OwnerRef{plain(web)}, web, []store.OwnerRef{controlling(web)}},
		{"does not promote an earlier incarnation", []store.OwnerRef{plain(web)}, webAgain, []store.OwnerRef{plain(web), controlling(webAgain)}},
		{"of another's child", []store.OwnerRef{controlling(shop)}, web, nil},
		{"of another kind's child", []store.OwnerRef{controlling(job)}, web, nil},
		{"of an earlier incarnation's child", []store.OwnerRef{controlling(web)}, webAgain, nil},
		{"of a shared child", []store.OwnerRef{plain(web), controlling(shop)}, web, nil},
		{"without a kind", nil, store.Ref{Key: "web", UID: "u1"}, nil},
		{"without a key", nil, store.Ref{Kind: "app", UID: "u1"}, nil},
		{"without a UID", nil, store.Ref{Kind: "app", Key: "web"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			child := store.Object[Replica]{Key: "web-1", Owners: slices.Clone(c.before)}
			err := owner.SetController(&child, c.set)
			if c.after == nil {
				require.Error(t, err)
				assert.Equal(t, c.before, child.Owners)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.after, child.Owners)
			got, ok := owner.ControllerOf(child)
			assert.True(t, ok)
			assert.Equal(t, c.set, got)
		})
	}
}

func TestSetControllerNamesBothOwners(t *testing.T) {
	child := store.Object[Replica]{Key: "web-1", Owners: []store.OwnerRef{controlling(shop)}}
	err := owner.SetController(&child, web)
	require.ErrorIs(t, err, owner.ErrOwned)
	assert.EqualError(t, err, `owner: set controller of "web-1" to app "web" (UID "u1"): `+
		`it is controlled by another object: app "shop" (UID "u3")`)

	err = owner.SetController(&store.Object[Replica]{Key: "web-1"}, store.Ref{Kind: "app"})
	assert.NotErrorIs(t, err, owner.ErrOwned)
	assert.EqualError(t, err, `owner: set controller of "web-1": a reference needs kind, key and UID, `+
		`this one is to app "" (UID "")`)
}

func TestSetControllerLeavesCopiesUnchanged(t *testing.T) {
	backing := []store.OwnerRef{plain(shop), plain(web), plain(job), plain(job)}
	first := store.Object[Replica]{Owners: backing[:2]}
	copied := first
	require.NoError(t, owner.SetController(&copied, web))
	require.NoError(t, owner.SetController(&store.Object[Replica]{Owners: backing[:1]}, webAgain))
	assert.Equal(t, []store.OwnerRef{plain(shop), plain(web), plain(job), plain(job)}, backing)
}

func TestControllerOf(t *testing.T) {
	for _, owners := range [][]store.OwnerRef{nil, {plain(web)}, {plain(web), plain(shop)}} {
		child := store.Object[Replica]{Owners: owners}
		_, ok := owner.ControllerOf(child)
		assert.False(t, ok)
	}
	child := store.Object[Replica]{Owners: []store.OwnerRef{plain(web), controlling(shop), plain(job)}}
	got, ok := owner.ControllerOf(child)
	assert.True(t, ok)
	assert.Equal(t, shop, got)
}
