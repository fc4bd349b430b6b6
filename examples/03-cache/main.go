// Command 03-cache keeps machines in an indexed cache, reads its own writes before the cache has them, and queues changes
// until a consumer takes them.
package main

import (
	"fmt"
	"log"
	"slices"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/cache/mutation"
)

// Machine is a cached object. Readers of a cache must not modify it.
type Machine struct {
	Name    string
	Site    string
	Tags    []string
	Version uint64
}

func nameOf(m Machine) string { return m.Name }

func main() {
	machines := cache.NewIndexer(nameOf)
	bySite := cache.AddIndex(machines, func(m Machine) []string { return []string{m.Site} })
	byTag := cache.AddIndex(machines, func(m Machine) []string { return m.Tags }) // one entry per tag

	machines.Replace([]Machine{
		{Name: "m1", Site: "berlin", Tags: []string{"gpu", "fast"}, Version: 1},
		{Name: "m2", Site: "berlin", Version: 2},
		{Name: "m3", Site: "paris", Tags: []string{"gpu"}, Version: 3},
	})
	machines.Upsert(Machine{Name: "m2", Site: "paris", Version: 4}) // moves, in the indexes as well
	fmt.Println("in paris:", names(bySite, "paris"), "with gpu:", names(byTag, "gpu"))

	// The cache lags behind the writes of this process. A mutation cache shows own writes until the cache has caught up.
	own, err := mutation.New(machines, nameOf, func(m Machine) uint64 { return m.Version }, mutation.Config{})
	check(err)
	own.Wrote(Machine{Name: "m1", Site: "rome", Version: 5})
	ours, _ := own.Get("m1")
	theirs, _ := machines.Get("m1")
	fmt.Println("m1 is in", ours.Site, "as we wrote, in", theirs.Site, "as the cache knows")

	// Changes wait in a queue that merges them per key. A list reveals objects that were deleted while no watch was open.
	changes, err := cache.NewDeltaFIFO(nameOf, cache.DeltaFIFOConfig[string, Machine]{KnownObjects: machines})
	check(err)
	check(changes.Replace([]Machine{{Name: "m1", Site: "rome", Version: 5}, {Name: "m3", Site: "paris", Version: 6}}, 6))
	check(changes.Update(Machine{Name: "m3", Site: "oslo", Version: 7}, 7))
	for popped := true; popped; {
		popped, err = changes.TryPop(func(name string, deltas cache.Deltas[Machine], _ bool) error {
			last := deltas.Newest()
			fmt.Println(name, last.Type, last.Object.Site)
			if last.Type == cache.Deleted {
				machines.Delete(name)
			} else {
				machines.Upsert(last.Object)
			}
			return nil
		})
		check(err)
	}
	fmt.Println("the cache has all up to version", changes.Version())
	theirs, _ = machines.Get("m1")
	fmt.Println("m1 is in", theirs.Site)
}

func names(x *cache.Index[string, string, Machine], value string) []string {
	var names []string
	for name := range x.All(value) {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
