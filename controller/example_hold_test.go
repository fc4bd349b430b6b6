package controller_test

import (
	"context"
	"fmt"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/expectations"
)

// A key that has created something waits until the cache shows it. Here the cache lags behind, and an event that comes
// meanwhile does not make the controller create it again.
func ExampleExpectations() {
	versions := expectations.NewVersions[string](expectations.Config[string]{})
	inCache := false
	c, err := controller.New("jobs", func(_ context.Context, job string) (controller.Result, error) {
		if !inCache {
			fmt.Println("creating a pod for", job)
			versions.ExpectVersion(job, 7) // the version of the write
		} else {
			fmt.Println("there is a pod for", job)
		}
		return controller.Result{}, nil
	}, controller.Config[string]{Expectations: []controller.Expectations[string]{versions}})
	if err != nil {
		fmt.Println(err)
		return
	}
	step := func() {
		if _, ok := c.Step(context.Background(), "backup"); !ok {
			fmt.Println("nothing to do,", c.Stats().Held, "held")
		}
	}
	c.Add("backup")
	step()
	c.Add("backup") // an event
	step()

	inCache = true
	versions.VersionObserved(7) // an informer has OnVersion for that
	step()
	// Output:
	// creating a pod for backup
	// nothing to do, 1 held
	// there is a pod for backup
}

// A key that an operator works on by hand is left alone.
func ExampleController_PauseKey() {
	c, err := controller.New("hosts", func(_ context.Context, host string) (controller.Result, error) {
		fmt.Println("reconciling", host)
		return controller.Result{}, nil
	}, controller.Config[string]{})
	if err != nil {
		fmt.Println(err)
		return
	}
	c.PauseKey("db1")
	c.Add("db1")
	c.Add("db2")
	_, ok := c.Step(context.Background(), "db1")
	fmt.Println(ok)
	c.Step(context.Background(), "db2")
	c.ResumeKey("db1")
	c.Step(context.Background(), "db1")
	// Output:
	// false
	// reconciling db2
	// reconciling db1
}
