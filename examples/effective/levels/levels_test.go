package levels_test

import (
	"testing"

	"github.com/setpoint-go/setpoint/examples/effective/chapter"
	"github.com/setpoint-go/setpoint/examples/effective/levels"
	"github.com/setpoint-go/setpoint/simtest"
)

func TestTheChapterOnLevelsHolds(t *testing.T) {
	chapter.Test(t, chapter.Chapter{
		Page: "01-levels.md", Wrong: wrong, Right: right,
		Rule: "end-state", Plan: "skip(step#3) down(sites create server/a-1#1)",
	})
}

func wrong() simtest.World {
	return world(func(env *simtest.Env) ([]simtest.Part, error) {
		c, err := levels.NewWrong(simtest.Open[levels.Site](env, "site"), simtest.Open[levels.Server](env, "server"))
		return []simtest.Part{simtest.Loop(c)}, err
	})
}

func right() simtest.World {
	return world(func(env *simtest.Env) ([]simtest.Part, error) {
		c, err := levels.NewRight(simtest.Open[levels.Site](env, "site"), simtest.Open[levels.Server](env, "server"))
		return []simtest.Part{simtest.Loop(c)}, err
	})
}

// world is a site that shrinks, and then goes.
func world(sites func(*simtest.Env) ([]simtest.Part, error)) simtest.World {
	return simtest.World{
		Systems: []simtest.System{{Name: "sites", New: sites}},
		Steps: []simtest.Step{
			chapter.Create("site", "a", levels.Site{Servers: 2}),
			chapter.Change("scale to 1", "site", "a", func(s *levels.Site) { s.Servers = 1 }),
			chapter.Delete[levels.Site]("site", "a"),
		},
	}
}
