package informer_test

import (
	"context"
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
