package workqueue_test

import (
	"fmt"
	"time"

	"github.com/setpoint-go/setpoint/workqueue"
)

// A certificate that is renewed by hand needs no renewal tomorrow. No code needs to remember that and check at the time.
func ExampleQueue_Cancel() {
	queue, err := workqueue.New(workqueue.Config[string]{})
	if err != nil {
		fmt.Println(err)
		return
	}
	queue.AddAfter("example.com", 24*time.Hour)
	fmt.Println("waiting:", len(queue.Snapshot()))
	fmt.Println("canceled:", queue.Cancel("example.com"))
	fmt.Println("waiting:", len(queue.Snapshot()))
	fmt.Println("canceled:", queue.Cancel("example.com"))
	// Output:
	// waiting: 1
	// canceled: true
	// waiting: 0
	// canceled: false
}
