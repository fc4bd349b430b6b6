package informer_test

import (
	"context"
	"fmt"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/poll"
)

// A source that promises to say something can be found silent, although its watch is open.
func ExampleBookmarker() {
	list := func(context.Context) ([]string, error) { return []string{"sda", "sdb"}, nil }
	name := func(disk string) string { return disk }
	disks, err := poll.New(list, name, poll.Config[string]{Interval: 10 * time.Second, Jitter: -1})
	if err != nil {
		fmt.Println(err)
		return
	}
	var promise informer.Bookmarker = disks
	fmt.Println("a word every", promise.BookmarkPeriod())
	// Output: a word every 10s
}
