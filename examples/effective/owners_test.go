package effective_test

import (
	"context"
	"errors"

	"github.com/setpoint-go/setpoint/examples/effective/owners"
	"github.com/setpoint-go/setpoint/simtest"
	"github.com/setpoint-go/setpoint/store"
)

func ownersChapter() chapter {
	return chapter{
		dir: "owners", page: "06-owners.md", wrong: wrongOwners, right: rightOwners,
		rule: "lost-write", plan: "travel(clusters update volume/db#1 back 6)",
		more: []chapter{{wrong: wrongSizes, right: rightSizes, rule: "churn"}},
	}
}

func wrongOwners() simtest.World {
	return ownersWorld(func(env *simtest.Env) ([]simtest.Part, error) {
		c, err := owners.NewWrong(simtest.Open[owners.Cluster](env, "cluster"), simtest.Open[owners.Volume](env, "volume"))
		return []simtest.Part{simtest.Loop(c)}, err
	}, owners.Cleanup)
}

func rightOwners() simtest.World {
	return ownersWorld(func(env *simtest.Env) ([]simtest.Part, error) {
		c, collector, err := owners.NewRight(simtest.Open[owners.Cluster](env, "cluster"), simtest.Open[owners.Volume](env, "volume"))
		return []simtest.Part{simtest.Loop(c), simtest.Loop(collector)}, err
	})
}

// ownersWorld is a cluster that is deleted and created again. The database of the second one writes.
func ownersWorld(clusters func(*simtest.Env) ([]simtest.Part, error), finalizers ...string) simtest.World {
	return simtest.World{
		Systems: []simtest.System{{Name: "clusters", New: clusters}},
		Steps: []simtest.Step{
			simtest.Create("cluster", store.Object[owners.Cluster]{Key: "db", Value: owners.Cluster{Size: 1}, Finalizers: finalizers}),
			simtest.Delete[owners.Cluster]("cluster", "db"),
			simtest.Create("cluster", store.Object[owners.Cluster]{Key: "db", Value: owners.Cluster{Size: 1}, Finalizers: finalizers}),
			{Name: "write to volume/db", Do: write},
			simtest.Update("cluster", "db", func(c *owners.Cluster) { c.Size = 2 }).Named("grow"),
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
		Steps:         []simtest.Step{simtest.Create("pool", store.Object[owners.Pool]{Key: "web", Value: owners.Pool{Demand: 5, Budget: 3}})},
		MaxReconciles: 50, // more than a retry after a conflict makes while a cache lags
	}
}
