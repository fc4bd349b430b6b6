package effective_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/examples/effective/blastradius"
	"github.com/setpoint-go/setpoint/manager"
	"github.com/setpoint-go/setpoint/simtest"
	"github.com/setpoint-go/setpoint/store"
)

func blastradiusChapter() chapter {
	return chapter{
		dir: "blastradius", page: "09-blast-radius.md", wrong: blastradiusWorld(blastradius.NewWrong), right: blastradiusWorld(blastradius.NewRight),
		rule: "always", plan: "crash-after(racks update machine/a1#1)",
	}
}

func TestMachinesWaitForApproval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := store.NewMemory(store.MemoryConfig{})
		racks, err := store.Open(db, "rack", store.Config[blastradius.Rack]{})
		require.NoError(t, err)
		machines, err := store.Open(db, "machine", store.Config[blastradius.Machine]{})
		require.NoError(t, err)
		for i := range 10 {
			_, err := machines.Create(t.Context(), inRack(fmt.Sprintf("a%d", i), "a"))
			require.NoError(t, err)
		}
		rack, err := racks.Create(t.Context(), store.Object[blastradius.Rack]{Key: "a", Value: blastradius.Rack{TakeDown: true}})
		require.NoError(t, err)
		wiped := 0
		c, err := blastradius.NewRight(racks, machines, func(_ context.Context, names ...string) error {
			wiped += len(names)
			return nil
		})
		require.NoError(t, err)
		m, err := manager.New(manager.Config{Logger: slog.New(slog.DiscardHandler)}, c)
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		// Runs the manager, and ends after stop.
		go func() { ended <- m.Run(ctx) }()

		require.ErrorContains(t, c.WaitReconciled(ctx, "a", rack), "rack a has 10 machines to wipe, and 4 are allowed")
		require.Zero(t, wiped)
		synctest.Wait() // the error may arrive before the key is parked
		require.Len(t, c.Parked(), 1)

		rack.Value.MayWipe = 10
		rack, err = racks.Update(ctx, rack)
		require.NoError(t, err)
		require.NoError(t, c.WaitReconciled(ctx, "a", rack))
		require.Equal(t, 10, wiped)
		stop()
		require.NoError(t, <-ended)
	})
}

// inRack returns a machine of a rack.
func inRack(name, rack string) store.Object[blastradius.Machine] {
	return store.Object[blastradius.Machine]{Key: name, Value: blastradius.Machine{Rack: rack}}
}

type blastradiusConstructor = func(
	store.Store[blastradius.Rack], store.Store[blastradius.Machine], blastradius.Wiper,
) (*controller.Controller[string], error)

// blastradiusWorld has two racks, of which one is taken down.
func blastradiusWorld(racks blastradiusConstructor) func() simtest.World {
	return func() simtest.World {
		wiped := make(map[string]bool)
		return simtest.World{
			Systems: []simtest.System{{Name: "racks", New: func(env *simtest.Env) ([]simtest.Part, error) {
				wipe := func(ctx context.Context, names ...string) error {
					return env.Effect(ctx, "wipe "+strings.Join(names, " "), func(context.Context) error {
						if len(names) == 0 {
							names = []string{"a1", "b1"} // all machines
						}
						for _, name := range names {
							wiped[name] = true
						}
						return nil
					})
				}
				c, err := racks(simtest.Open[blastradius.Rack](env, "rack"), simtest.Open[blastradius.Machine](env, "machine"), wipe)
				return []simtest.Part{simtest.Loop(c)}, err
			}}},
			Steps: []simtest.Step{
				{Name: "set up the machines", Do: func(ctx context.Context, user *simtest.User) error {
					machines := simtest.Open[blastradius.Machine](user, "machine")
					_, err1 := machines.Create(ctx, inRack("a1", "a"))
					_, err2 := machines.Create(ctx, inRack("b1", "b"))
					return errors.Join(err1, err2)
				}},
				simtest.Create("rack", store.Object[blastradius.Rack]{Key: "a", Value: blastradius.Rack{TakeDown: true}}),
			},
			Always: func(*simtest.View) error {
				if wiped["b1"] {
					return fmt.Errorf("%v are wiped, and rack b is in use", slices.Sorted(maps.Keys(wiped)))
				}
				return nil
			},
		}
	}
}
