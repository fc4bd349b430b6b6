package effective_test

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/examples/effective/deletion"
	"github.com/setpoint-go/setpoint/simtest"
	"github.com/setpoint-go/setpoint/store"
)

func deletionChapter() chapter {
	return chapter{
		dir: "deletion", page: "07-deletion.md", wrong: deletionWorld(deletion.NewStuck), right: deletionWorld(deletion.NewRight),
		rule: "finalizer", plan: "down(sites update site/a#1)",
		more: []chapter{{
			wrong: deletionWorld(deletion.NewForgetful), right: deletionWorld(deletion.NewRight), rule: "goal", plan: `down(sites effect "put a"#1)`,
		}},
	}
}

// dns is a DNS with entries in memory. Its calls are effects of one process.
type dns struct {
	env     *simtest.Env
	entries map[string]string
}

func (d dns) Put(ctx context.Context, name, address string) error {
	return d.env.Effect(ctx, "put "+name, func(context.Context) error {
		d.entries[name] = address
		return nil
	})
}

func (d dns) Remove(ctx context.Context, name string) error {
	return d.env.Effect(ctx, "remove "+name, func(context.Context) error {
		if _, ok := d.entries[name]; !ok {
			return deletion.ErrNoEntry
		}
		delete(d.entries, name)
		return nil
	})
}

// deletionWorld is a site that is created and deleted. In the end, the DNS has no entry of it.
func deletionWorld(sites func(store.Store[deletion.Site], deletion.DNS) (*controller.Controller[string], error)) func() simtest.World {
	return func() simtest.World {
		entries := make(map[string]string)
		return simtest.World{
			Systems: []simtest.System{{Name: "sites", New: func(env *simtest.Env) ([]simtest.Part, error) {
				c, err := sites(simtest.Open[deletion.Site](env, "site"), dns{env, entries})
				return []simtest.Part{simtest.Loop(c)}, err
			}}},
			Steps: []simtest.Step{
				simtest.Create("site", store.Object[deletion.Site]{Key: "a", Value: deletion.Site{Address: "10.0.0.1"}}),
				simtest.Delete[deletion.Site]("site", "a"),
			},
			Goal: func(*simtest.View) error {
				if len(entries) > 0 {
					return fmt.Errorf("the DNS still has the entries of %v", slices.Sorted(maps.Keys(entries)))
				}
				return nil
			},
		}
	}
}
