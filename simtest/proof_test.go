package simtest_test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer/informertest"
	"github.com/setpoint-go/setpoint/simtest"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/storetest"
)

// Without faults, the stores of a simulation keep the contract of a store and of a source.

func TestSimulatedStoresKeepTheContract(t *testing.T) {
	storetest.RunInBubbles(t, func(*testing.T) storetest.Database {
		handles, expire := simtest.Handles(2)
		return storetest.Database{Handles: handles, Remembers: 1000, Expire: expire}
	})
}

func TestSimulatedSourcesKeepTheContract(t *testing.T) {
	informertest.Run(t, func(t *testing.T) informertest.Subject[store.Object[number]] {
		handles, expire := simtest.Handles(1)
		numbers, err := store.Open[number](handles[0], "number", store.Config[number]{})
		require.NoError(t, err)
		others, err := store.Open[number](handles[0], "other", store.Config[number]{})
		require.NoError(t, err)
		ctx := context.Background()
		created := 0
		return informertest.Subject[store.Object[number]]{
			Source: numbers,
			Put: func(name string, rev int) error {
				o, err := numbers.Get(ctx, name)
				switch {
				case errors.Is(err, store.ErrNotFound):
					_, err = numbers.Create(ctx, store.Object[number]{Key: name, Value: number{rev}})
				case err == nil:
					o.Value.N = rev
					_, err = numbers.Update(ctx, o)
				}
				return err
			},
			Delete: func(name string) error {
				_, err := numbers.Delete(ctx, name)
				return err
			},
			Read:    func(o store.Object[number]) (string, int) { return o.Key, o.Value.N },
			History: 1000,
			Expire:  func() error { return expire("number") },
			Bookmark: func() error {
				created++
				_, err := others.Create(ctx, store.Object[number]{Key: fmt.Sprint(created)})
				return err
			},
		}
	})
}

// runsFlag is for the long form of tests: go test ./simtest -run 'SamePlan|Owners' -runs 1000
var runsFlag = flag.Int("runs", 0, "how often a plan is run to see that every run is the same; defaults to 10; other tests have more steps")

// The lines of the timeline are the trace. Their times are left out: pauses between attempts are random.
func TestSamePlanGivesSameRun(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4)) // so that goroutines which do not wait for their turn run at once
	runs := cmp.Or(*runsFlag, 10)
	for _, mode := range []string{"step", "run"} {
		for _, plan := range []string{
			"crash-after(s create to/a#1)",
			"lose-lease(s effect report#1) gap(s from/a#1 to 2)",
			"regain(s create to/a#1) lag(s update to/a#1 of from)",
			"zombie(s create to/a#1) late(s effect report#2 by 2)",
		} {
			t.Run(mode+" "+plan, func(t *testing.T) {
				world := inMode(mode, led)
				first := sha256.Sum256([]byte(simtest.Order(t, world, plan)))
				for i := range runs - 1 {
					text := simtest.Order(t, world, plan)
					require.Equal(t, first, sha256.Sum256([]byte(text)), "run %d differs:\n%s", i+2, text)
				}
			})
		}
	}
}
