package effective_test

import (
	"github.com/setpoint-go/setpoint/examples/effective/levels"
	"github.com/setpoint-go/setpoint/simtest"
	"github.com/setpoint-go/setpoint/store"
)

func levelsChapter() chapter {
	return chapter{
		dir: "levels", page: "01-levels.md", wrong: wrongLevels, right: rightLevels,
		rule: "end-state", plan: "skip(step#3) down(sites create server/a-1#1)",
	}
}

func wrongLevels() simtest.World {
	return levelsWorld(func(env *simtest.Env) ([]simtest.Part, error) {
		c, err := levels.NewWrong(simtest.Open[levels.Site](env, "site"), simtest.Open[levels.Server](env, "server"))
		return []simtest.Part{simtest.Loop(c)}, err
	})
}

func rightLevels() simtest.World {
	return levelsWorld(func(env *simtest.Env) ([]simtest.Part, error) {
		c, err := levels.NewRight(simtest.Open[levels.Site](env, "site"), simtest.Open[levels.Server](env, "server"))
		return []simtest.Part{simtest.Loop(c)}, err
	})
}

// levelsWorld is a site that shrinks, and then goes.
func levelsWorld(sites func(*simtest.Env) ([]simtest.Part, error)) simtest.World {
	return simtest.World{
		Systems: []simtest.System{{Name: "sites", New: sites}},
		Steps: []simtest.Step{
			simtest.Create("site", store.Object[levels.Site]{Key: "a", Value: levels.Site{Servers: 2}}),
			simtest.Update("site", "a", func(s *levels.Site) { s.Servers = 1 }).Named("scale to 1"),
			simtest.Delete[levels.Site]("site", "a"),
		},
	}
}
