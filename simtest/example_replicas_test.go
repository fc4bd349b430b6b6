package simtest_test

import (
	"fmt"

	"github.com/setpoint-go/setpoint/simtest"
)

// Two replicas of a program share its keys: each key belongs to one of four slots, and each slot to one of them. The names are those of plans, such
// as crash-after(sites-b update site/a#1).
func ExampleReplicas() {
	program := simtest.System{
		Name: "sites", Lease: "sites", Slots: 4,
		New: func(env *simtest.Env) ([]simtest.Part, error) {
			c, err := NewSites(simtest.Open[Site](env, "site"), simtest.Open[Server](env, "server"))
			return []simtest.Part{simtest.Loop(c)}, err
		},
	}
	world := simtest.World{Systems: simtest.Replicas(2, program)}
	for _, s := range world.Systems {
		fmt.Println(s.Name, s.Lease, s.Slots)
	}

	// Output:
	// sites-a sites 4
	// sites-b sites 4
}
