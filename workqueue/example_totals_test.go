package workqueue_test

import (
	"fmt"

	"github.com/setpoint-go/setpoint/workqueue"
)

// Totals are what a queue has done since it was made, for an adapter to a monitoring system.
func ExampleQueue_Totals() {
	q, err := workqueue.New(workqueue.Config[string]{Timestamps: true})
	if err != nil {
		panic(err)
	}
	q.Add("berlin")
	q.Add("berlin") // is ready already
	q.Add("rome")
	item, _ := q.TryTake()
	item.Done()

	var totals workqueue.Totals = q.Totals()
	var waited workqueue.Histogram = totals.Waited
	fmt.Println(totals.Added, "added,", waited.Count(), "dispatched,", totals.Worked.Count(), "done")
	fmt.Println("bounds from", waited.Bounds[0], "to", waited.Bounds[len(waited.Bounds)-1])

	// Output:
	// 2 added, 1 dispatched, 1 done
	// bounds from 10ns to 16m40s
}
