package controller_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/retry"
)

// An Inspector names keys of any type by their text, as a page or a command line needs it.
func ExampleInspector() {
	type tenant struct{ Region, Name string }
	c, err := controller.New("tenants", func(context.Context, tenant) (controller.Result, error) {
		return controller.Result{}, retry.Permanent(errors.New("the name is taken"))
	}, controller.Config[tenant]{Logger: quiet})
	if err != nil {
		fmt.Println(err)
		return
	}
	c.Add(tenant{"eu", "acme"})
	c.Step(context.Background(), tenant{"eu", "acme"})

	keys := c.Inspect()
	var info controller.KeyInfo
	for info = range keys.Keys() {
		fmt.Println(info.Key, info.State, info.Reasons[0].Text)
	}
	fmt.Println(keys.Retry("{eu acme}"))
	info, _ = keys.Key("{eu acme}")
	fmt.Println(info.State)
	fmt.Println(keys.Retry("{eu nobody}"))
	// Output:
	// {eu acme} Parked the name is taken
	// true
	// Ready
	// false
}
