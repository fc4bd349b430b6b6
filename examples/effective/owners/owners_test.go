package owners_test

import (
	"context"
	"errors"
	"testing"

	"github.com/setpoint-go/setpoint/examples/effective/chapter"
	"github.com/setpoint-go/setpoint/examples/effective/owners"
	"github.com/setpoint-go/setpoint/simtest"
	"github.com/setpoint-go/setpoint/store"
)

func TestTheChapterOnOwnersHolds(t *testing.T) {
	chapter.Test(t, chapter.Chapter{
		Page: "06-owners.md", Wrong: wrong, Right: right,
		Rule: "lost-write", Plan: "travel(clusters update volume/db#1 back 6)",
		More: []chapter.Chapter{{Wrong: wrongSizes, Right: rightSizes, Rule: "churn"}},
	})
}

func wrong() simtest.World {
	return world(func(env *simtest.Env) ([]simtest.Part, error) {
		c, err := owners.NewWrong(simtest.Open[owners.Cluster](env, "cluster"), simtest.Open[owners.Volume](env, "volume"))
		return []simtest.Part{simtest.Loop(c)}, err
	}, owners.Cleanup)
}

func right() simtest.World {
	return world(func(env *simtest.Env) ([]simtest.Part, error) {
		c, collector, err := owners.NewRight(simtest.Open[owners.Cluster](env, "cluster"), simtest.Open[owners.Volume](env, "volume"))
		return []simtest.Part{simtest.Loop(c), simtest.Loop(collector)}, err
	})
}

// world is a cluster that is deleted and created again. The database of the second one writes.
func world(clusters func(*simtest.Env) ([]simtest.Part, error), finalizers ...string) simtest.World {
	return simtest.World{
		Systems: []simtest.System{{Name: "clusters", New: clusters}},
		Steps: []simtest.Step{
			chapter.Create("cluster", "db", owners.Cluster{Size: 1}, finalizers...),
			chapter.Delete[owners.Cluster]("cluster", "db"),
			chapter.Create("cluster", "db", owners.Cluster{Size: 1}, finalizers...),
			{Name: "write to volume/db", Do: write},
			chapter.Change("grow", "cluster", "db", func(c *owners.Cluster) { c.Size = 2 }),
		},
	}
}

// write is what the database of the second cluster does. It waits until the volume is not that of the first one.
func write(ctx context.Context, user *simtest.User) error {
	cluster, err := simtest.Open[owners.Cluster](user, "cluster").Get(ctx, "db")
	if err != nil {
		return err
	}
	_, err = store.PatchStatus(ctx, simtest.Open[owners.Volume](user, "volume"), "db", func(o *store.Object[owners.Volume]) error {
		if len(o.Owners) > 0 && o.Owners[0].Ref != cluster.Ref() {
			return simtest.ErrNotYet
		}
		o.Value.Data = "orders of 2026"
		return nil
	})
	if errors.Is(err, store.ErrNotFound) {
		return simtest.ErrNotYet
	}
	return err
}

func wrongSizes() simtest.World {
	return sizes(
		simtest.System{Name: "scaler", New: func(env *simtest.Env) ([]simtest.Part, error) {
			scaler, _, err := owners.NewWrongSizes(simtest.Open[owners.Pool](env, "pool"))
			return []simtest.Part{simtest.Loop(scaler)}, err
		}},
		simtest.System{Name: "budget", New: func(env *simtest.Env) ([]simtest.Part, error) {
			_, budget, err := owners.NewWrongSizes(simtest.Open[owners.Pool](env, "pool"))
			return []simtest.Part{simtest.Loop(budget)}, err
		}},
	)
}

func rightSizes() simtest.World {
	return sizes(simtest.System{Name: "sizes", New: func(env *simtest.Env) ([]simtest.Part, error) {
		c, err := owners.NewRightSizes(simtest.Open[owners.Pool](env, "pool"))
		return []simtest.Part{simtest.Loop(c)}, err
	}})
}

// sizes is a pool that needs more than its budget.
func sizes(systems ...simtest.System) simtest.World {
	return simtest.World{
		Systems:       systems,
		Steps:         []simtest.Step{chapter.Create("pool", "web", owners.Pool{Demand: 5, Budget: 3})},
		MaxReconciles: 20,
	}
}
