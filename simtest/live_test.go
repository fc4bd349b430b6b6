package simtest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/events"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/manager"
	"github.com/setpoint-go/setpoint/simtest"
	"github.com/setpoint-go/setpoint/store"
)

// Each election gives the next term, and each worker gets its own key.
func TestRunModeHasElectionsAndWorkers(t *testing.T) {
	var mu sync.Mutex
	var terms []uint64
	most, now := 0, 0
	world := func() simtest.World {
		system := systemOf(func(env *simtest.Env) []simtest.Part {
			_, from := simtest.Mirror[number](env, "from")
			return []simtest.Part{simtest.Loop(newController("c", controller.Config[string]{Workers: 3}, just(func(ctx context.Context, key string) error {
				l, ok := leaderelect.FromContext(ctx)
				require.True(t, ok)
				require.NoError(t, l.Err())
				return env.Effect(ctx, "work on "+key, func(ctx context.Context) error {
					mu.Lock()
					terms = append(terms, l.Term())
					now++
					most = max(most, now)
					mu.Unlock()
					time.Sleep(time.Second)
					mu.Lock()
					defer mu.Unlock()
					now--
					return nil
				})
			}), controller.For(from)))}
		})
		system.Lease = "main"
		w := worldWith("run", system)
		w.Steps = []simtest.Step{create("from", "a b c d", 0)}
		return w
	}
	text := simtest.Timeline(t, world, `crash-after(s effect "work on b"#1)`)
	t.Log("\n" + text)
	require.Equal(t, 3, most, "workers of one process work concurrently")
	require.Contains(t, terms, uint64(1))
	require.Contains(t, terms, uint64(2))
	require.NotContains(t, terms, uint64(3))
}

func TestBadlyStoppingPartIsReported(t *testing.T) {
	ends := func(after time.Duration, err error) runs {
		return func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(after)
			return err
		}
	}
	full := errors.New("disk full")
	for name, c := range map[string]struct {
		part  runs
		mode  string
		wants string
	}{
		"it stops at once":                {ends(0, nil), "run", ""},
		"it stops with an error":          {ends(0, full), "run", "s.1 stops with an error: manager: run part \"part\": disk full"},
		"it does not stop in time":        {ends(2*time.Minute, nil), "run", "it has not returned: not stopped in time"},
		"it ends by itself":               {func(context.Context) error { return nil }, "run", "s.1 has ended by itself"},
		"it ends by itself, step by step": {func(context.Context) error { return full }, "step", "s.1: part has ended by itself: disk full"},
	} {
		f := simtest.Replay(t, func() simtest.World {
			return simtest.World{Mode: c.mode, Systems: []simtest.System{systemOf(func(*simtest.Env) []simtest.Part {
				return []simtest.Part{simtest.Background(c.part)}
			})}}
		}, nil)
		if c.wants == "" {
			require.Nil(t, f, name)
			continue
		}
		require.NotNil(t, f, name)
		require.Contains(t, f.Problem, c.wants, name)
	}
}

func TestUnknownModeIsNamed(t *testing.T) {
	f := simtest.Replay(t, inMode("fast", copier), nil)
	require.NotNil(t, f)
	require.Contains(t, f.Problem, `there is no mode "fast"`)
}

// recorded is a world whose controller records an event for each number that it sees, and copies it.
func recorded() simtest.World {
	system := systemOf(func(env *simtest.Env) []simtest.Part {
		recorder, err := events.NewRecorder(events.Config{Name: "events", Store: env.Backend(), Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			panic(err)
		}
		_, from := simtest.Mirror[number](env, "from")
		tos := simtest.Open[number](env, "to")
		c := loopOf("c", from, just(func(ctx context.Context, key string) error {
			o, ok := from.Get(key)
			if !ok {
				return nil
			}
			recorder.Normal(store.Ref{Kind: "from", Key: key}, "Seen", fmt.Sprint(o.Value.N))
			return put(ctx, tos, key, o.Value.N)
		}))
		return []simtest.Part{simtest.Background(manager.At(manager.Outer, recorder)), c}
	})
	system.Lease = "main"
	w := worldWith("", system)
	w.Pairs = -1
	w.Same = func(kind, key string, value any) any {
		if kind == "Event" {
			return nil // a count, and times
		}
		return value
	}
	w.Goal = func(v *simtest.View) error {
		if len(simtest.List[events.Event](v, "Event")) == 0 {
			return errors.New("no event was kept")
		}
		return nil
	}
	return w
}

// Events reach the store under every fault, and their writes never disturb the controller.
func TestStoredEventsSurviveEveryFault(t *testing.T) {
	inModes(t, func(t *testing.T, mode string) {
		report := simtest.Explore(t, inMode(mode, recorded))
		none(t, report.Failures)
		require.Greater(t, report.Plans, 20)
	})
}
