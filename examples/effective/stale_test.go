package effective_test

import (
	"context"
	"fmt"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/examples/effective/stale"
	"github.com/setpoint-go/setpoint/simtest"
	"github.com/setpoint-go/setpoint/store"
)

func staleChapter() chapter {
	return chapter{
		dir: "stale", page: "03-stale.md", rule: "goal", plan: "travel(north update pod/db#2 back 2)",
		wrong: func() simtest.World { return staleWorld(stale.NewWrong) },
		right: func() simtest.World { return staleWorld(stale.NewRight) },
	}
}

// machines are what the nodes run.
type machines struct {
	runs  map[string]bool // by node
	twice bool            // the pod has run on both at once
}

// machine is one of them, as its agent sees it.
type machine struct {
	*machines
	env  *simtest.Env
	node string
}

func (m machine) Start(ctx context.Context, pod string) error {
	return m.env.Effect(ctx, "start "+pod, func(context.Context) error {
		m.runs[m.node] = true
		m.twice = m.twice || m.runs["north"] && m.runs["south"]
		return nil
	})
}

func (m machine) Stop(ctx context.Context, pod string) error {
	return m.env.Effect(ctx, "stop "+pod, func(context.Context) error {
		m.runs[m.node] = false
		return nil
	})
}

type staleConstructor func(node string, pods store.Store[stale.Pod], machine stale.Machine) (*controller.Controller[string], error)

// staleWorld is a pod that moves from one node to another.
func staleWorld(newAgent staleConstructor) simtest.World {
	all := &machines{runs: make(map[string]bool)}
	agent := func(node string) simtest.System {
		return simtest.System{Name: node, New: func(env *simtest.Env) ([]simtest.Part, error) {
			c, err := newAgent(node, simtest.Open[stale.Pod](env, "pod"), machine{all, env, node})
			return []simtest.Part{simtest.Loop(c)}, err
		}}
	}
	return simtest.World{
		Systems: []simtest.System{agent("north"), agent("south")},
		Steps: []simtest.Step{
			simtest.Create("pod", store.Object[stale.Pod]{Key: "db", Value: stale.Pod{Node: "north"}}),
			simtest.Update("pod", "db", func(p *stale.Pod) { p.Node = "south" }).Named("move to south"),
		},
		Goal: func(*simtest.View) error {
			switch {
			case all.twice:
				return fmt.Errorf("pod db has run on both nodes at once")
			case all.runs["north"] || !all.runs["south"]:
				return fmt.Errorf("pod db runs on the wrong node: %v", all.runs)
			}
			return nil
		},
	}
}
