package poll_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/setpoint-go/setpoint/informer/poll"
)

// Polled objects carry an ETag, so nothing else is compared. One of the rows is half written: it keeps its last good state.
func ExampleConfig() {
	type row struct{ Name, ETag string }
	rows := []row{{Name: "ulm", ETag: "1"}, {Name: "kiel", ETag: "1"}}
	src, err := poll.New(func(context.Context) ([]row, error) { return rows, nil }, func(r row) string { return r.Name },
		poll.Config[row]{
			Equal: func(a, b row) bool { return a.ETag == b.ETag },
			Valid: func(r row) error {
				if r.ETag == "" {
					return errors.New("it has no ETag")
				}
				return nil
			},
		})
	if err != nil {
		fmt.Println(err)
		return
	}
	show := func() {
		list, err := src.List(context.Background())
		for _, r := range list.Items {
			fmt.Printf("%s/%s ", r.Name, r.ETag)
		}
		fmt.Println("at version", list.Version, err)
		for _, u := range list.Unread {
			fmt.Printf("%s: %v\n", u.Object.Name, u.Err)
		}
	}
	show()
	rows = []row{{Name: "ulm"}, {Name: "kiel", ETag: "2"}}
	show()
	// Output:
	// ulm/1 kiel/1 at version 2 <nil>
	// ulm/1 kiel/2 at version 4 <nil>
	// ulm: it has no ETag
}
