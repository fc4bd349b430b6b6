package controller_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/retry"
)

// The last word about a key that is given up goes into its status, before the key is parked.
func ExampleConfig_gaveUp() {
	status := map[string]string{}
	c, err := controller.New("sites", func(_ context.Context, site string) (controller.Result, error) {
		return controller.Result{}, retry.Permanent(errors.New("no such region"))
	}, controller.Config[string]{
		Logger: quiet,
		GaveUp: func(ctx context.Context, site string, err error) error {
			status[site] = "given up: " + err.Error() // a write to a store carries the term of the leader
			return nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	c.Add("atlantis")
	report, _ := c.Step(context.Background(), "atlantis")
	fmt.Println(report.Outcome, c.Parked(), status["atlantis"])
	// Output: Parked [atlantis] given up: no such region
}
