package effective_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/examples/effective/crash"
	"github.com/setpoint-go/setpoint/simtest"
	"github.com/setpoint-go/setpoint/store"
)

func crashChapter() chapter {
	return chapter{
		dir: "crash", page: "05-crash.md", rule: "goal", plan: "crash-after(networks effect create-network#1)",
		also:  []string{"crash-after(networks update network/front#1)"},
		wrong: func() simtest.World { return crashWorld(crash.NewWrong) },
		right: func() simtest.World { return crashWorld(crash.NewRight) },
	}
}

// cloud has networks.
type cloud struct {
	ids     []string
	byToken map[string]string
}

func (c *cloud) create(token string) string {
	if id, ok := c.byToken[token]; ok {
		return id
	}
	id := fmt.Sprintf("net-%d", len(c.ids)+1)
	c.ids = append(c.ids, id)
	if token != "" {
		c.byToken[token] = id
	}
	return id
}

// crashClient is the cloud, as one process sees it.
type crashClient struct {
	*cloud
	env *simtest.Env
}

func (c crashClient) Create(ctx context.Context, _, token string) (id string, err error) {
	err = c.env.Effect(ctx, "create-network", func(context.Context) error {
		id = c.create(token)
		return nil
	})
	return id, err
}

type crashConstructor func(store.Store[crash.Network], store.Store[crash.Record], crash.Cloud) (*controller.Controller[string], error)

// crashWorld is one network, which has to exist once, with a record. Its status may only move forward.
func crashWorld(newNetworks crashConstructor) simtest.World {
	aws := &cloud{byToken: make(map[string]string)}
	var last crash.Status
	return simtest.World{
		Systems: []simtest.System{{Name: "networks", New: func(env *simtest.Env) ([]simtest.Part, error) {
			networks, records := simtest.Open[crash.Network](env, "network"), simtest.Open[crash.Record](env, "record")
			c, err := newNetworks(networks, records, crashClient{aws, env})
			return []simtest.Part{simtest.Loop(c)}, err
		}}},
		Steps: []simtest.Step{simtest.Create("network", store.Object[crash.Network]{Key: "front", Value: crash.Network{CIDR: "10.0.0.0/8"}})},
		Always: func(v *simtest.View) error {
			network, err := simtest.Open[crash.Network](v, "network").Get(context.Background(), "front")
			now := network.Value.Status
			if err == nil && (last.ID != "" && now.ID != last.ID || last.Ready && !now.Ready) {
				return fmt.Errorf("the status has moved back from %v to %v", last, now)
			}
			last = now
			return nil
		},
		Goal: func(v *simtest.View) error {
			if len(aws.ids) != 1 {
				return fmt.Errorf("the cloud has %v, and the user pays for each", aws.ids)
			}
			record, err := simtest.Open[crash.Record](v, "record").Get(context.Background(), "front")
			if errors.Is(err, store.ErrNotFound) {
				return errors.New("the network is ready, and there is no record of it")
			} else if err == nil && record.Value.ID != aws.ids[0] {
				return fmt.Errorf("the record says %q", record.Value.ID)
			}
			return err
		},
	}
}
