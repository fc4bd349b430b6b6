package owner_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/owner"
	"github.com/setpoint-go/setpoint/store"
)

func TestOnceApplyHasBegunCleanupRunsBeforeTheObjectIsGoneWhereverTheProcessStops(t *testing.T) {
	for code := range 20 * 20 * 3 {
		f := newFixture(t)
		f.app("web")
		c := &crasher{at: code % 20, others: func(now int) {
			if now == code/20%20 {
				_, _ = f.apps.Delete(t.Context(), "web")
			}
		}}
		apps := fragile[App]{f.apps, c}
		half := code / 400 // how much of apply is done when it crashes: never, none, all
		made, begun := false, false
		fin := owner.Finalizer[App]{
			Name: "dns",
			Apply: func(context.Context, store.Object[App]) error {
				begun = true
				return c.around(func() error {
					made = half != 1
					if half == 1 {
						half = 0
						return errCrash
					}
					return nil
				})
			},
			Cleanup: func(context.Context, store.Object[App]) error {
				return c.around(func() error { made = false; return nil })
			},
		}
		gone := false
		for n := range 12 { // each time as after a restart
			if n == 6 {
				_, _ = f.apps.Delete(t.Context(), "web") // if it was not before
			}
			_ = fin.Reconcile(t.Context(), apps, "web")
			_, err := f.apps.Get(t.Context(), "web")
			gone = errors.Is(err, store.ErrNotFound)
			require.False(t, gone && made, "%d: it is gone, and what it made is left (begun %v)", code, begun)
			if !gone && made {
				o, _ := f.apps.Get(t.Context(), "web")
				require.Contains(t, o.Finalizers, "dns", fmt.Sprint(code))
			}
		}
		require.True(t, gone, "%d: it goes in the end", code)
	}
}

func TestAFailedCleanupKeepsTheObjectAndOtherFinalizersStay(t *testing.T) {
	f := newFixture(t)
	_, err := f.apps.Create(t.Context(), store.Object[App]{Key: "web", Finalizers: []string{"disk"}})
	require.NoError(t, err)
	fail := errCrash
	fin := owner.Finalizer[App]{
		Name: "dns", Apply: func(context.Context, store.Object[App]) error { return nil },
		Cleanup: func(context.Context, store.Object[App]) error { return fail },
	}
	require.NoError(t, fin.Reconcile(t.Context(), f.apps, "web"))
	f.deleteApp("web")
	require.ErrorIs(t, fin.Reconcile(t.Context(), f.apps, "web"), errCrash)
	o, err := f.apps.Get(t.Context(), "web")
	require.NoError(t, err)
	require.Equal(t, []string{"disk", "dns"}, o.Finalizers)
	fail = nil
	require.NoError(t, fin.Reconcile(t.Context(), f.apps, "web"))
	o, err = f.apps.Get(t.Context(), "web")
	require.NoError(t, err)
	require.Equal(t, []string{"disk"}, o.Finalizers)
}

func TestAnObjectThatDiesWithoutTheFinalizerIsLeftAlone(t *testing.T) {
	f := newFixture(t)
	_, err := f.apps.Create(t.Context(), store.Object[App]{Key: "web", Finalizers: []string{"disk"}})
	require.NoError(t, err)
	f.deleteApp("web")
	never := func(context.Context, store.Object[App]) error { panic("called") }
	fin := owner.Finalizer[App]{Name: "dns", Apply: never, Cleanup: never}
	require.NoError(t, fin.Reconcile(t.Context(), f.apps, "web"))
	require.NoError(t, fin.Reconcile(t.Context(), f.apps, "none"))
}
