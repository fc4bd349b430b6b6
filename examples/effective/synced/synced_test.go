package synced_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/examples/effective/chapter"
	"github.com/setpoint-go/setpoint/examples/effective/synced"
	"github.com/setpoint-go/setpoint/simtest"
	"github.com/setpoint-go/setpoint/store"
)

func TestTheChapterOnSyncHolds(t *testing.T) {
	chapter.Test(t, chapter.Chapter{
		Page: "02-sync.md", Rule: "always", Plan: "skip(step#2) crash-after(sites create server/a#1)",
		Wrong: func() simtest.World { return world(synced.NewWrong) },
		Right: func() simtest.World { return harder(world(synced.NewRight)) },
	})
}

// harder adds a second copy of the program, and a site that comes back: a copy whose cache of sites lags sees the server of the new
// site before it sees the site.
func harder(w simtest.World) simtest.World {
	w.Systems = append(w.Systems, simtest.System{Name: "copy", New: w.Systems[0].New})
	w.Steps = append(w.Steps, chapter.Create("site", "a", synced.Site{}))
	return w
}

type constructor func(store.Store[synced.Site], store.Store[synced.Server]) (janitor, c *controller.Controller[string], err error)

// world is a site that comes and goes. While it is there, nobody may delete its server.
func world(newControllers constructor) simtest.World {
	served := false // the site has its server
	return simtest.World{
		Systems: []simtest.System{{Name: "sites", New: func(env *simtest.Env) ([]simtest.Part, error) {
			janitor, c, err := newControllers(simtest.Open[synced.Site](env, "site"), simtest.Open[synced.Server](env, "server"))
			return []simtest.Part{simtest.Loop(janitor), simtest.Loop(c)}, err
		}}},
		Steps: []simtest.Step{
			chapter.Create("site", "a", synced.Site{}),
			chapter.Delete[synced.Site]("site", "a"),
		},
		Always: func(v *simtest.View) error {
			_, gone := simtest.Open[synced.Site](v, "site").Get(context.Background(), "a")
			_, lost := simtest.Open[synced.Server](v, "server").Get(context.Background(), "a")
			if gone == nil && lost != nil && served {
				return fmt.Errorf("the server of site a is gone, with its data")
			}
			served = gone == nil && lost == nil
			return nil
		},
	}
}
