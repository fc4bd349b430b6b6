package informer_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/informertest"
)

// Rows are large, and only their tags are of interest: the cache holds those alone.
func ExampleMap() {
	src := informertest.NewSource(func(r Row) string { return r.Name })
	src.Put(Row{Name: "ulm", Tags: []string{"south", "spare"}, ETag: "1"})
	src.Put(Row{Name: "kiel", Tags: []string{"north"}, ETag: "1"})

	type tags struct {
		name  string
		count int
	}
	counts := informer.Map(src, func(r Row) tags { return tags{r.Name, len(r.Tags)} })
	tagged, err := informer.New(counts, func(t tags) string { return t.name }, informer.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- tagged.Run(ctx) }()
	_ = informer.WaitForSync(ctx, tagged)
	for name, t := range tagged.Indexer().All() {
		fmt.Println(name, t.count)
	}

	cancel()
	<-ended
	// Output:
	// ulm 2
	// kiel 1
}

// What is polled carries an ETag, so nothing else is compared. One of the rows is half written: it keeps its last good
// state.
func ExamplePollConfig() {
	rows := []Row{{Name: "ulm", ETag: "1"}, {Name: "kiel", ETag: "1"}}
	src, err := informer.Poll(func(context.Context) ([]Row, error) { return rows, nil }, func(r Row) string { return r.Name },
		informer.PollConfig[Row]{
			Equal: func(a, b Row) bool { return a.ETag == b.ETag },
			Valid: func(r Row) error {
				if r.ETag == "" {
					return errors.New("it has no ETag")
				}
				return nil
			},
			OnError: func(err error) { fmt.Println(err) },
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
	}
	show()
	rows = []Row{{Name: "ulm"}, {Name: "kiel", ETag: "2"}}
	show()
	// Output:
	// ulm/1 kiel/1 at version 2 <nil>
	// informer: poll: object ulm: it has no ETag
	// ulm/1 kiel/2 at version 3 <nil>
}
