package controller_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/store"
)

// A controller that reconciles sites, and owns children of a kind that no informer has. The first child of a site shows the mistake.
func TestKindOfOwnsThatDiffersWhollyIsReported(t *testing.T) {
	for name, test := range map[string]struct {
		kind   string // of Owns
		of     string // the kind of the owner
		reads  bool   // an informer of kind Cluster is among the Reads
		logged bool
	}{
		"the owner is what is reconciled, and nobody knows the kind": {"Place", "Site", false, true},
		"the owner is something else":                                {"Place", "Rack", false, false},
		"the owner is of the kind":                                   {"Place", "Place", false, false},
		"an informer has the kind":                                   {"Cluster", "Site", true, false},
		"the kind is right, and another owns the child":              {"Site", "Rack", false, false},
		"the kind differs in case":                                   {"place", "Place", false, true},
	} {
		bubble(t, name, func(t *testing.T) {
			db := store.NewMemory(store.MemoryConfig{})
			open := func(kind, name string) (store.Store[int], *store.Informer[int]) {
				s := must(store.Open[int](db, kind, store.Config[int]{}))
				seen := must(informer.New(s, store.Key, informer.Config{Name: name, Logger: quiet}))
				looptest.Start(t, seen.Run)
				return s, seen
			}
			_, sites := open("Site", "sites")
			servers, seen := open("Server", "servers")
			_, clusters := open("Cluster", "clusters")
			var out looptest.Text
			cfg := controller.Config[string]{Logger: looptest.Logger(&out)}
			if test.reads {
				cfg.Reads = []controller.Informer{clusters}
			}
			c, reports := newController(t, cfg, noop, controller.For(sites), controller.Owns(seen, test.kind))
			looptest.Start(t, c.Run)
			synctest.Wait()
			for _, key := range []string{"a", "b"} {
				by := store.OwnerRef{Ref: store.Ref{Kind: test.of, Key: "rome", UID: "1"}, Controller: true}
				must(servers.Create(t.Context(), store.Object[int]{Key: key, Owners: []store.OwnerRef{by}}))
				synctest.Wait()
			}
			assert.Equal(t, test.kind == test.of, len(reports.Take()) > 0)
			want := 0
			if test.logged {
				want = 1
			}
			assert.Equal(t, want, strings.Count(out.String(), "Owns ignores children"), out.String())
			if test.logged {
				assert.Contains(t, out.String(), "controller=test watch=servers kind="+test.kind+" owner_kind="+test.of+" object=a")
			}
		})
	}
}
