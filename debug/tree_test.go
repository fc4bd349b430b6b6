package debug_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/manager"
	"github.com/setpoint-go/setpoint/store"
)

// sizeOf returns the number of nodes of a tree, and the number of levels.
func sizeOf(tree any) (nodes, levels int) {
	children, _ := step(tree, "children").([]any)
	for _, child := range children {
		n, l := sizeOf(child)
		nodes, levels = nodes+n, max(levels, l)
	}
	return nodes + 1, levels + 1
}

func TestTreeIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, err := store.NewMemory(store.MemoryConfig{})
		require.NoError(t, err)
		things, err := store.Open(db, "Thing", store.Config[int]{Logger: quiet})
		require.NoError(t, err)
		create := func(key string, owners ...store.OwnerRef) store.OwnerRef {
			o, err := things.Create(t.Context(), store.Object[int]{Key: key, Owners: owners})
			require.NoError(t, err)
			return store.OwnerRef{Ref: o.Ref()}
		}
		wide, large, deep := create("wide"), create("large"), create("deep-0")
		for i := range 60 {
			create(fmt.Sprintf("wide-%02d", i), wide)
		}
		for i := range 10 {
			child := create(fmt.Sprintf("large-%d", i), large)
			for n := range 30 {
				create(fmt.Sprintf("large-%d-%02d", i, n), child)
			}
		}
		for i := range 9 {
			deep = create(fmt.Sprintf("deep-%d", i+1), deep)
		}
		seen, err := informer.New(things, store.Key, informer.Config{Name: "things", Logger: quiet})
		require.NoError(t, err)
		_, m, h := plain(t, manager.Config{}, idle, controller.Config[string]{}, controller.For(seen))
		running(t, m)
		for _, tt := range []struct {
			key           string
			nodes, levels int
			more          map[string]string // by path
		}{
			{"wide", 51, 2, map[string]string{"more": "10", "children.49.key": "wide-49"}},
			{"large", 200, 3, map[string]string{"more": "3", "children.5.more": "", "children.6.more": "18"}},
			{"deep-0", 7, 7, map[string]string{"children.0.children.0.children.0.children.0.children.0.children.0.more": "1"}},
			{"deep-9", 7, 7, map[string]string{"key": "deep-3"}},
		} {
			tree := step(step(readJSON(t, h, "key?queue=sites&key="+tt.key), "tree"), "0")
			nodes, levels := sizeOf(tree)
			assert.Equal(t, tt.nodes, nodes, tt.key)
			assert.Equal(t, tt.levels, levels, tt.key)
			for path, want := range tt.more {
				assert.Equal(t, want, at(tree, path), "%s: %s", tt.key, path)
			}
		}
	})
}
