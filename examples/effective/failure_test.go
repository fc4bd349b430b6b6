package effective_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/examples/effective/failure"
	"github.com/setpoint-go/setpoint/simtest"
	"github.com/setpoint-go/setpoint/store"
)

func failureChapter() chapter {
	return chapter{
		dir: "failure", page: "04-failure.md", rule: "always", plan: "",
		wrong: func() simtest.World { return failureWorld(failure.NewWrong) },
		right: func() simtest.World { return failureWorld(failure.NewRight) },
	}
}

// authority refuses every domain but one. It allows five refused orders an hour.
type authority struct {
	orders  int
	refused []time.Time
}

const allowed = 5

func (a *authority) order(domain string) error {
	a.orders++
	if domain == "shop.example" {
		return nil
	}
	a.refused = append(a.refused, time.Now())
	return fmt.Errorf("order %d: no such domain", a.orders)
}

func (a *authority) check() error {
	for i := allowed; i < len(a.refused); i++ {
		if a.refused[i].Sub(a.refused[i-allowed]) < time.Hour {
			return errors.New("more than five refused orders within an hour: the authority blocks the account")
		}
	}
	return nil
}

// failureClient is the authority, as one process sees it.
type failureClient struct {
	*authority
	env *simtest.Env
}

func (c failureClient) Order(ctx context.Context, domain string) error {
	return c.env.Effect(ctx, "order "+domain, func(context.Context) error { return c.order(domain) })
}

type failureConstructor func(store.Store[failure.Certificate], failure.Authority) (*controller.Controller[string], error)

// failureWorld is a user who makes a typing error, and corrects it later.
func failureWorld(newCerts failureConstructor) simtest.World {
	ca := &authority{}
	return simtest.World{
		Systems: []simtest.System{{Name: "certs", New: func(env *simtest.Env) ([]simtest.Part, error) {
			c, err := newCerts(simtest.Open[failure.Certificate](env, "cert"), failureClient{ca, env})
			return []simtest.Part{simtest.Loop(c)}, err
		}}},
		Steps: []simtest.Step{
			simtest.Create("cert", store.Object[failure.Certificate]{Key: "shop", Value: failure.Certificate{Domain: "shp.example"}}),
			simtest.Update("cert", "shop", func(c *failure.Certificate) { c.Domain = "shop.example" }).Named("correct the domain"),
		},
		Always: func(*simtest.View) error { return ca.check() },
		Goal: func(v *simtest.View) error {
			cert, err := simtest.Open[failure.Certificate](v, "cert").Get(context.Background(), "shop")
			if err == nil && cert.Value.Status.Issued != "shop.example" {
				err = errors.New("there is no certificate for shop.example")
			}
			return errors.Join(err, ca.check())
		},
		Horizon: 150 * time.Minute, // longer than the first two pauses of the controller
	}
}
