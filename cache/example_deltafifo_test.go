package cache_test

import (
	"fmt"
	"maps"

	"github.com/setpoint-go/setpoint/cache"
)

type site struct{ host, state string }

// A consumer that keeps a cache of its own. The source is unavailable for a while, and the list after that reveals which
// deletion was missed.
func ExampleDeltaFIFO() {
	key := func(s site) string { return s.host }
	sites := cache.NewIndexer(key)
	changes, err := cache.NewDeltaFIFO(key, cache.DeltaFIFOConfig[string, site]{KnownObjects: sites})
	if err != nil {
		fmt.Println(err)
		return
	}

	apply := func(host string, deltas cache.Deltas[site], initial bool) error {
		for d := range deltas.All() {
			fmt.Println(host, d.Type, d.Object.state, "initial:", initial)
			if d.Type == cache.Deleted {
				sites.Delete(host)
				onDelete(cache.Tombstone[string, site]{Key: host, Object: d.Object, FinalStateUnknown: d.FinalStateUnknown})
			} else {
				sites.Upsert(d.Object)
			}
		}
		return nil
	}
	drain := func() {
		for popped := true; popped; {
			popped, _ = changes.TryPop(apply)
		}
		fmt.Println("version", changes.Version(), "synced", changes.HasSynced())
	}

	_ = changes.Replace([]site{{"a", "up"}, {"b", "up"}}, 10)
	drain()
	_ = changes.Update(site{"a", "slow"}, 11)
	_ = changes.Update(site{"a", "down"}, 12) // the consumer never sees the state before
	drain()
	_ = changes.Replace([]site{{"a", "up"}}, 20)
	drain()
	fmt.Println(maps.Collect(sites.All()))
	// Output:
	// a Replaced up initial: true
	// b Replaced up initial: true
	// version 10 synced true
	// a Updated down initial: false
	// version 12 synced true
	// a Replaced up initial: false
	// b Deleted up initial: false
	// b is gone; its last state was missed: true
	// version 20 synced true
	// map[a:{a up}]
}

func onDelete(t cache.Tombstone[string, site]) {
	fmt.Printf("%s is gone; its last state was missed: %v\n", t.Key, t.FinalStateUnknown)
}

// Types are printed by name, which serves for logs.
func ExampleDeltaType() {
	fmt.Println(cache.Added, cache.Updated, cache.Deleted, cache.Replaced, cache.Sync)
	// Output: Added Updated Deleted Replaced Sync
}

// Deltas that come before the consumer takes them are merged. A new object under the key of a deleted one is not.
func ExampleDelta() {
	changes, err := cache.NewDeltaFIFO(func(s site) string { return s.host }, cache.DeltaFIFOConfig[string, site]{})
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = changes.Add(site{"a", "up"}, 1)
	_ = changes.Update(site{"a", "slow"}, 2)
	_, _ = changes.TryPop(func(host string, deltas cache.Deltas[site], _ bool) error { return printAll(deltas) })
	_ = changes.Delete(site{"a", "down"}, 3)
	_ = changes.Add(site{"a", "new"}, 4)
	_, _ = changes.TryPop(func(host string, deltas cache.Deltas[site], _ bool) error { return printAll(deltas) })
	// Output:
	// {Added false {a slow}}
	// {Deleted false {a down}}
	// {Added false {a new}}
}

func printAll(deltas cache.Deltas[site]) error {
	var d cache.Delta[site]
	for d = range deltas.All() {
		fmt.Println(d)
	}
	return nil
}
