package informer_test

import (
	"context"
	"fmt"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/informertest"
)

// Two parts of a program need the same source: they share one informer of it.
func ExampleGroup() {
	src := informertest.NewSource(siteName)
	src.Put(Site{"ulm", "south"})
	src.Put(Site{"kiel", "north"})
	south := informer.Filter(src, func(s Site) bool { return s.Region == "south" })

	g, err := informer.NewGroup(informer.GroupConfig{Name: "caches"})
	if err != nil {
		fmt.Println(err)
		return
	}
	sites, err := informer.For(g, src, siteName, informer.Config{Name: "sites"})
	if err != nil {
		fmt.Println(err)
		return
	}
	again, _ := informer.For(g, src, siteName, informer.Config{})
	fmt.Println("the same:", sites == again)

	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- g.Run(ctx) }()
	southern, _ := informer.For(g, south, siteName, informer.Config{Name: "southern sites"}) // it starts at once
	fmt.Println("synced:", g.WaitForSync(ctx))
	fmt.Println(sites.Indexer().Len(), "sites,", southern.Indexer().Len(), "in the south")

	cancel()
	fmt.Println("ended:", <-ended)
	// Output:
	// the same: true
	// synced: <nil>
	// 2 sites, 1 in the south
	// ended: <nil>
}
