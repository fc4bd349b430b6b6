package mutation_test

import (
	"fmt"
	"time"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/cache/mutation"
)

// A mutation cache shows the caller's own writes before the cache below it has seen them.
func ExampleCache() {
	type site struct {
		name    string
		version uint64
	}
	key := func(s site) string { return s.name }
	sites := cache.NewIndexer(key) // an informer writes to it
	own, err := mutation.New(sites, key, func(s site) uint64 { return s.version }, mutation.Config{TTL: time.Minute})
	if err != nil {
		panic(err)
	}

	sites.Upsert(site{"a", 1})
	own.Wrote(site{"a", 2}) // what the store returned
	fmt.Println(own.Get("a"))
	sites.Upsert(site{"a", 3}) // another process has written since
	fmt.Println(own.Get("a"))
	fmt.Println(own.Len())
	// Output:
	// {a 2} true
	// {a 3} true
	// 0
}
