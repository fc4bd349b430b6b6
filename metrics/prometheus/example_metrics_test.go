package prometheus_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/manager"
	setpointprom "github.com/setpoint-go/setpoint/metrics/prometheus"
	"github.com/setpoint-go/setpoint/workqueue"
)

// New finds the controllers of a manager, and everything else that it runs. promhttp.HandlerFor serves the registry.
func ExampleNew() {
	reconcile := func(context.Context, string) (controller.Result, error) { return controller.Result{}, nil }
	c, err := controller.New("sites", reconcile, controller.Config[string]{})
	if err != nil {
		panic(err)
	}
	m, err := manager.New(manager.Config{}, c)
	if err != nil {
		panic(err)
	}
	reg := prometheus.NewRegistry()
	metrics, err := setpointprom.New(reg, m)
	if err != nil {
		panic(err)
	}
	c.Add("berlin")
	c.Add("oslo")

	orders, err := workqueue.New(workqueue.Config[int]{Timestamps: true}) // a queue that the manager does not know
	if err != nil {
		panic(err)
	}
	if err := metrics.Add("orders", orders); err != nil {
		panic(err)
	}
	orders.Add(7)

	err = testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP workqueue_depth Current depth of workqueue by workqueue and priority
# TYPE workqueue_depth gauge
workqueue_depth{controller="orders",name="orders",priority="0"} 1
workqueue_depth{controller="sites",name="sites",priority="0"} 2
`), "workqueue_depth")
	fmt.Println("the scrape differs:", err)
	n, err := testutil.GatherAndCount(reg, "workqueue_depth", "controller_runtime_reconcile_total")
	fmt.Println("series:", n, err)

	// Output:
	// the scrape differs: <nil>
	// series: 6 <nil>
}
