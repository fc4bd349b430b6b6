package bench_test

import (
	"fmt"

	clientgo "k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	setpointprom "github.com/setpoint-go/setpoint/metrics/prometheus"
)

// NewQueueWithMetrics is NewQueue for queues whose metrics x exports.
func NewQueueWithMetrics(x *setpointprom.Metrics) func(
	string, clientgo.TypedRateLimiter[reconcile.Request],
) clientgo.TypedRateLimitingInterface[reconcile.Request] {
	return func(name string, limiter clientgo.TypedRateLimiter[reconcile.Request]) clientgo.TypedRateLimitingInterface[reconcile.Request] {
		q := NewQueue(name, limiter).(PriorityQueue[reconcile.Request])
		if err := x.Add(name, q.Queue); err != nil {
			panic(err) // only the same queue twice is an error
		}
		return q
	}
}

// The metrics of the queue are in controller-runtime's registry, which its manager serves.
func Example_metrics() {
	x, err := setpointprom.New(ctrlmetrics.Registry, nil)
	if err != nil {
		panic(err)
	}
	defer x.Unregister()
	options := controller.Options{NewQueue: NewQueueWithMetrics(x)}

	q := options.NewQueue("pages", options.RateLimiter)
	q.Add(reconcile.Request{})
	families, err := ctrlmetrics.Registry.Gather()
	if err != nil {
		panic(err)
	}
	for _, f := range families {
		if f.GetName() != "workqueue_adds_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			labels := m.GetLabel()
			if labels[0].GetValue() != "pages" {
				continue
			}
			for _, l := range labels {
				fmt.Printf("%s=%q ", l.GetName(), l.GetValue())
			}
			fmt.Println(m.GetCounter().GetValue())
		}
	}
	// Output:
	// controller="pages" name="pages" 1
}
