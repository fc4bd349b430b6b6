package leader_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/examples/effective/chapter"
	"github.com/setpoint-go/setpoint/examples/effective/leader"
	"github.com/setpoint-go/setpoint/simtest"
	"github.com/setpoint-go/setpoint/store"
)

func TestTheChapterOnLeadersHolds(t *testing.T) {
	chapter.Test(t, chapter.Chapter{
		Page: "08-leader.md", Wrong: world(leader.NewWrong), Right: world(leader.NewRight),
		Rule: "goal", Plan: `late(sites effect "route a to blue"#1 by 2)`,
	})
}

// client is the client of a load balancer. Its calls are effects of one process.
type client struct {
	env *simtest.Env
	to  *leader.Balancer
}

func (c client) Route(ctx context.Context, site, backend string) error {
	return c.env.Effect(ctx, "route "+site+" to "+backend, func(ctx context.Context) error { return c.to.Route(ctx, site, backend) })
}

func (c client) RouteAs(ctx context.Context, term uint64, site, backend string) error {
	return c.env.Effect(ctx, "route "+site+" to "+backend, func(ctx context.Context) error {
		return c.to.RouteAs(ctx, term, site, backend)
	})
}

// world is a site that moves to another backend, while one of several replicas leads.
func world(sites func(store.Store[leader.Site], leader.API) (*controller.Controller[string], error)) func() simtest.World {
	return func() simtest.World {
		var balancer leader.Balancer
		return simtest.World{
			Systems: []simtest.System{{Name: "sites", Lease: "sites", New: func(env *simtest.Env) ([]simtest.Part, error) {
				c, err := sites(simtest.Open[leader.Site](env, "site"), client{env, &balancer})
				return []simtest.Part{simtest.Loop(c)}, err
			}}},
			Steps: []simtest.Step{
				chapter.Create("site", "a", leader.Site{Backend: "blue"}),
				chapter.Change("move to green", "site", "a", func(s *leader.Site) { s.Backend = "green" }),
			},
			Goal: func(v *simtest.View) error {
				site, err := simtest.Open[leader.Site](v, "site").Get(context.Background(), "a")
				if have := balancer.Backend("a"); err == nil && (have != site.Value.Backend || have != site.Value.Status.Routed) {
					err = fmt.Errorf("site a wants %s, has the status %s, and its users are sent to %s",
						site.Value.Backend, site.Value.Status.Routed, have)
				}
				return err
			},
		}
	}
}
