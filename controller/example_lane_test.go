package controller_test

import (
	"context"
	"fmt"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/informertest"
)

// A row of a table of the user, with a column that names who has changed it.
type plan struct {
	Tenant    string
	Price     int
	ChangedBy string
}

// A job raises the prices of all tenants. While their keys wait, Ann changes one of them by hand, and Bob another. Their keys do not wait for the rest
// of the job, which takes turns with them.
func ExampleWatch_ChangedBy() {
	source := informertest.NewSource(func(p plan) string { return p.Tenant })
	plans, err := informer.New(source, func(p plan) string { return p.Tenant }, informer.Config{Name: "plans"})
	if err != nil {
		fmt.Println(err)
		return
	}
	c, err := controller.New("billing", func(_ context.Context, tenant string) (controller.Result, error) {
		p, _ := plans.Get(tenant)
		fmt.Println(tenant, "pays", p.Price)
		return controller.Result{}, nil
	}, controller.Config[string]{},
		controller.For(plans).ChangedBy(func(p plan) string { return p.ChangedBy }),
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { _ = plans.Run(ctx) }() // ends with ctx
	disconnect, err := c.Connect(ctx)  // without workers, so that the keys wait
	if err != nil {
		fmt.Println(err)
		return
	}
	defer disconnect()
	if err := informer.WaitForSync(ctx, plans); err != nil {
		fmt.Println(err)
		return
	}
	change := func(p plan) { _ = plans.WaitForVersion(ctx, source.Put(p)) }
	for _, tenant := range []string{"acme", "dyno", "initech", "umbrella"} {
		change(plan{tenant, 12, "price job"})
	}
	change(plan{"initech", 10, "ann"})
	change(plan{"umbrella", 11, "bob"})
	for _, tenant := range c.Ready() {
		c.Step(ctx, tenant)
	}
	// Output:
	// acme pays 12
	// initech pays 10
	// umbrella pays 11
	// dyno pays 12
}
