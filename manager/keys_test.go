package manager_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
	"github.com/setpoint-go/setpoint/manager"
)

// Controllers outlive their managers, which stop at all kinds of moments, with or without an election, while keys are added all the time and
// reconciles fail. In the end, each key was reconciled after it was last added.
func TestNoKeyIsLostAcrossManagers(t *testing.T) {
	looptest.Lanes(t, 40, func(t *testing.T, seed int) {
		var mu sync.Mutex
		r, calm := rand.New(rand.NewPCG(uint64(seed), 3)), false
		added, seen := map[string]int{}, map[string]int{} // by controller and key; what was added when the last good reconcile began
		intN := func(n int) int {
			mu.Lock()
			defer mu.Unlock()
			return r.IntN(n)
		}
		controllers := make([]*controller.Controller[string], 4)
		for i := range controllers {
			c, err := controller.New(fmt.Sprint("c", i), func(ctx context.Context, key string) (controller.Result, error) {
				id := fmt.Sprint(i, key)
				mu.Lock()
				was, how := added[id], r.IntN(8)
				if calm {
					how = 7
				}
				mu.Unlock()
				switch how {
				case 0:
					return controller.Result{}, errBoom
				case 1, 2:
					select {
					case <-time.After(time.Second):
					case <-ctx.Done():
						return controller.Result{}, ctx.Err()
					}
				}
				mu.Lock()
				defer mu.Unlock()
				seen[id] = was
				return controller.Result{}, nil
			}, controller.Config[string]{Workers: 1 + i/3, Logger: quiet})
			require.NoError(t, err)
			controllers[i] = c
		}
		add := func() {
			i, key := intN(len(controllers)), fmt.Sprint("k", intN(5))
			mu.Lock()
			added[fmt.Sprint(i, key)]++
			mu.Unlock()
			controllers[i].Add(key)
		}
		round := func(elected bool, work func()) {
			cfg := manager.Config{Logger: quiet}
			if elected {
				cfg.Election = election(memlease.New())
			}
			m, err := manager.New(cfg)
			require.NoError(t, err)
			for i, c := range controllers {
				if i%2 == 0 {
					require.NoError(t, m.Add(c))
				} else {
					require.NoError(t, m.Add(manager.At(manager.Always, c)))
				}
			}
			running := looptest.Start(t, m.Run)
			work()
			require.NoError(t, running.Stop())
		}
		for range 15 {
			round(intN(2) == 0, func() {
				for range intN(12) {
					add()
					if intN(3) == 0 {
						synctest.Wait()
					}
				}
				time.Sleep(time.Duration(intN(4)) * 500 * time.Millisecond)
			})
			add()
		}
		mu.Lock()
		calm = true
		mu.Unlock()
		round(false, func() { time.Sleep(time.Hour) })
		assert.Equal(t, added, seen)
	})
}
