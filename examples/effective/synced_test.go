package effective_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/examples/effective/synced"
	"github.com/setpoint-go/setpoint/simtest"
	"github.com/setpoint-go/setpoint/store"
)

func syncedChapter() chapter {
	return chapter{
		dir: "synced", page: "02-sync.md", rule: "always", plan: "skip(step#2) crash-after(sites create server/a#1)",
		wrong: func() simtest.World { return syncedWorld(synced.NewWrong) },
		right: func() simtest.World { return harder(syncedWorld(synced.NewRight)) },
	}
}

// If the janitor starts last, it finds the map full after every crash. But no order of controllers is guaranteed.
func TestMistakeIsFoundInAnyOrder(t *testing.T) {
	for name, newControllers := range map[string]syncedConstructor{"wrong": synced.NewWrong, "right": synced.NewRight} {
		report := simtest.Explore(t, func() simtest.World {
			w := syncedWorld(newControllers)
			make := w.Systems[0].New
			w.Systems[0].New = func(env *simtest.Env) ([]simtest.Part, error) {
				parts, err := make(env)
				slices.Reverse(parts)
				return parts, err
			}
			w.Pairs = -1
			return w
		})
		if name == "right" {
			require.Empty(t, report.Failures)
			continue
		}
		require.Len(t, report.Failures, 1)
		require.EqualValues(t, "always", report.Failures[0].Rule)
		require.Equal(t, "skip(step#2) cold(sites create server/a#1 of site)", report.Failures[0].Plan.String())
	}
}

// harder adds a second copy of the program, and a site that comes back: a copy whose cache of sites lags sees the server of the new
// site before it sees the site.
func harder(w simtest.World) simtest.World {
	w.Systems = append(w.Systems, simtest.System{Name: "copy", New: w.Systems[0].New})
	w.Steps = append(w.Steps, simtest.Create("site", store.Object[synced.Site]{Key: "a", Value: synced.Site{}}))
	return w
}

type syncedConstructor func(store.Store[synced.Site], store.Store[synced.Server]) (janitor, c *controller.Controller[string], err error)

// syncedWorld is a site that comes and goes. While it exists, its server must not be deleted.
func syncedWorld(newControllers syncedConstructor) simtest.World {
	served := false // the site has its server
	return simtest.World{
		Systems: []simtest.System{{Name: "sites", New: func(env *simtest.Env) ([]simtest.Part, error) {
			janitor, c, err := newControllers(simtest.Open[synced.Site](env, "site"), simtest.Open[synced.Server](env, "server"))
			return []simtest.Part{simtest.Loop(janitor), simtest.Loop(c)}, err
		}}},
		Steps: []simtest.Step{
			simtest.Create("site", store.Object[synced.Site]{Key: "a", Value: synced.Site{}}),
			simtest.Delete[synced.Site]("site", "a"),
		},
		Always: func(v *simtest.View) error {
			site, gone := simtest.Open[synced.Site](v, "site").Get(context.Background(), "a")
			server, lost := simtest.Open[synced.Server](v, "server").Get(context.Background(), "a")
			if gone == nil && lost != nil && served {
				return fmt.Errorf("the server of site a is gone, with its data")
			}
			served = gone == nil && lost == nil && !server.Created.Before(site.Created) // else it is that of a former site
			return nil
		},
	}
}
