package workqueue_test

import (
	"context"
	"fmt"
	"time"

	"github.com/setpoint-go/setpoint/workqueue"
)

// A burst of events about one object is one piece of work, which begins when the burst is over.
func ExampleConfig_debounce() {
	queue, err := workqueue.New(workqueue.Config[string]{
		Debounce:      20 * time.Millisecond, // the quiet time
		DebounceLimit: time.Minute,           // a burst that never ends does not delay the key for longer
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 100 {
		queue.Add("ulm")
	}
	item, err := queue.Take(context.Background())
	fmt.Println(item.Key, err)
	queue.Done(item.Key)
	fmt.Println("ready:", queue.Len())
	// Output:
	// ulm <nil>
	// ready: 0
}
