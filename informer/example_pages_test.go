package informer_test

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/setpoint-go/setpoint/informer"
)

// siteTable stands for a table in a database, with too many rows for one slice. It never changes.
type siteTable struct {
	rows    []Site
	version informer.Version
}

// ListPages implements [informer.Pager]. A database would read all pages in one transaction, or as of one version.
func (t *siteTable) ListPages(context.Context) iter.Seq2[informer.List[Site], error] {
	return func(yield func(informer.List[Site], error) bool) {
		for rows := range slices.Chunk(t.rows, 2) {
			fmt.Println("a page of", len(rows))
			if !yield(informer.List[Site]{Items: rows, Version: t.version}, nil) {
				return
			}
		}
	}
}

// List implements [informer.ListWatcher].
func (t *siteTable) List(ctx context.Context) (informer.List[Site], error) {
	return informer.Collect(t.ListPages(ctx))
}

// Watch implements [informer.ListWatcher].
func (t *siteTable) Watch(ctx context.Context, _ informer.Version) iter.Seq2[informer.Event[Site], error] {
	return func(yield func(informer.Event[Site], error) bool) {
		<-ctx.Done() // nothing will come
		yield(informer.Event[Site]{}, context.Cause(ctx))
	}
}

// A source whose list is long gives it in pages.
func ExamplePager() {
	src := &siteTable{rows: []Site{{"ulm", "south"}, {"kiel", "north"}, {"jena", "east"}}, version: 7}
	sites, err := informer.New(src, siteName, informer.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- sites.Run(ctx) }()

	err = informer.WaitForSync(ctx, sites)
	fmt.Println(sites.Indexer().Len(), "sites at version", sites.Version(), err)

	cancel()
	<-ended
	// Output:
	// a page of 2
	// a page of 1
	// 3 sites at version 7 <nil>
}
