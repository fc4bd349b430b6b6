package cookbook

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/workqueue"
)

// check turns the answer of a server into the error of a reconcile.
func check(resp *http.Response) error {
	err := fmt.Errorf("the server answers %s", resp.Status)
	seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
	switch {
	case resp.StatusCode < 300:
		return nil
	case seconds > 0:
		return retry.NotYet(err, time.Duration(seconds)*time.Second) // no failure: it is tried again at that time
	case resp.StatusCode >= 400 && resp.StatusCode < 500:
		return retry.Permanent(err) // parked until the object changes
	}
	return err // tried again after a backoff
}

// fair lets no tenant have more than two workers at a time, and no more than its turn while others wait.
func fair(tenantOf func(site string) string) controller.Config[string] {
	return controller.Config[string]{Workers: 10, Queue: workqueue.Config[string]{Group: tenantOf, GroupLimit: 2}}
}

// expire removes a site at its time, also if nothing happens at that time.
func expire(ctx context.Context, s Site, remove func(context.Context, string) error) (controller.Result, error) {
	if wait := time.Until(s.Expires); wait > 0 {
		return controller.Result{RequeueAfter: wait}, nil
	}
	return controller.Result{}, remove(ctx, s.Name)
}
