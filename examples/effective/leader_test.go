package effective_test

import (
	"context"
	"fmt"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/examples/effective/leader"
	"github.com/setpoint-go/setpoint/simtest"
	"github.com/setpoint-go/setpoint/store"
)

func leaderChapter() chapter {
	return chapter{
		dir: "leader", page: "08-leader.md", wrong: leaderWorld(leader.NewWrong), right: leaderWorld(leader.NewRight),
		rule: "goal", plan: `late(sites effect "route a to blue"#1 by 2)`,
	}
}

// leaderClient is the client of a load balancer. Its calls are effects of one process.
type leaderClient struct {
	env *simtest.Env
	to  *leader.Balancer
}

func (c leaderClient) Route(ctx context.Context, site, backend string) error {
	return c.env.Effect(ctx, "route "+site+" to "+backend, func(ctx context.Context) error { return c.to.Route(ctx, site, backend) })
}

func (c leaderClient) RouteAs(ctx context.Context, term uint64, site, backend string) error {
	return c.env.Effect(ctx, "route "+site+" to "+backend, func(ctx context.Context) error {
		return c.to.RouteAs(ctx, term, site, backend)
	})
}

// leaderWorld is a site that moves to another backend, while one of several replicas leads.
func leaderWorld(sites func(store.Store[leader.Site], leader.API) (*controller.Controller[string], error)) func() simtest.World {
	return func() simtest.World {
		var balancer leader.Balancer
		return simtest.World{
			Systems: []simtest.System{{Name: "sites", Lease: "sites", New: func(env *simtest.Env) ([]simtest.Part, error) {
				c, err := sites(simtest.Open[leader.Site](env, "site"), leaderClient{env, &balancer})
				return []simtest.Part{simtest.Loop(c)}, err
			}}},
			Steps: []simtest.Step{
				simtest.Create("site", store.Object[leader.Site]{Key: "a", Value: leader.Site{Backend: "blue"}}),
				simtest.Update("site", "a", func(s *leader.Site) { s.Backend = "green" }).Named("move to green"),
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
