package cache_test

import (
	"fmt"
	"time"

	"github.com/setpoint-go/setpoint/cache"
)

// An expiring store remembers what need not be asked for again, for a while.
func ExampleExpiring() {
	seen := cache.NewExpiring(func(j job) int { return j.id }, time.Hour)
	for _, j := range []job{{1, "acme", nil}, {2, "zeta", nil}, {1, "acme", nil}} {
		if _, again := seen.Upsert(j); again {
			fmt.Println("seen in the last hour:", j.id)
		}
	}
	fmt.Println(seen.Len())
	// Output:
	// seen in the last hour: 1
	// 2
}

// An overlay reads the caller's own writes before the cache has heard of them.
func ExampleOverlay() {
	type site struct {
		name    string
		version uint64
	}
	key := func(s site) string { return s.name }
	sites := cache.NewIndexer(key) // an informer writes to it
	var base cache.Getter[string, site] = sites
	mine, err := cache.NewOverlay(base, key, func(s site) uint64 { return s.version }, cache.OverlayConfig{TTL: time.Minute})
	if err != nil {
		panic(err)
	}

	sites.Upsert(site{"a", 1})
	mine.Wrote(site{"a", 2}) // what the store returned
	fmt.Println(mine.Get("a"))
	sites.Upsert(site{"a", 3}) // somebody else has written since
	fmt.Println(mine.Get("a"))
	fmt.Println(mine.Len())
	// Output:
	// {a 2} true
	// {a 3} true
	// 0
}
