package simtest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/events"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/manager"
	"github.com/setpoint-go/setpoint/simtest"
	"github.com/setpoint-go/setpoint/store"
)

// inMode returns the world in a mode.
func inMode(mode string, world func() simtest.World) func() simtest.World {
	return func() simtest.World {
		w := world()
		w.Mode = mode
		return w
	}
}

// told is the world of a copier that has a leader, and reports its copies.
func told() simtest.World {
	return worldOf(simtest.System{Lease: "main"}, func(ctx context.Context, s stores, key string) error {
		o, ok := s.from.Get(key)
		if !ok {
			return nil
		}
		if err := s.env.Effect(ctx, "tell", func(context.Context) error { return nil }); err != nil {
			return err
		}
		_, err := store.CreateOrUpdate(ctx, s.to, nil, key, func(c *store.Object[number]) error {
			c.Value = o.Value
			return nil
		})
		return err
	})
}

func TestEachFaultInRunMode(t *testing.T) {
	world := inMode("run", told)
	for plan, want := range map[string][]string{
		"crash-before(s create to/a#1)": {"STEP create", "CRASH", "s.2 starts", "s.2 create to/a", "STEP change", "s.2 update"},
		"crash-after(s create to/a#1)":  {"s.1 create to/a", "CRASH", "s.2 starts", "s.2 copy: reconcile", "STEP change", "s.2 update"},
		"down(s create to/a#1)":         {"s.1 create to/a", "CRASH", "STEP change", "s.2 starts", "s.2 update to/a"},
		"lose-request(s create to/a#1)": {"FAULT the request is lost", "s.1 copy: reconcile a", "s.1 create to/a"},
		"lose-reply(s create to/a#1)":   {"s.1 create to/a", "FAULT the reply is lost", "s.1 copy: reconcile a", "STEP change"},
		"conflict(s update to/a#1)":     {"STEP change", "other update to/a @4 only its version", "refused: to/a", "s.1 update to/a @5 N: 1 -> 2"},
		"slow(s create to/a#1)":         {"FAULT the call takes 1m7s", "1m7s s.1 create to/a", "STEP change"},
		"zombie(s create to/a#1)":       {"FAULT it hangs", "s.2 create to/a", "s.1 continues", "s.1 refused: to/a", "s.1 ends", "STEP change", "s.2 update"},
		"lose-lease(s create to/a#1)": {
			"s.1 FAULT it loses its lease", "s.2 create to/a", "s.1 its call continues", "s.1 refused: to/a", "STEP change", "s.2 update", "s.1 learns",
		},
		"regain(s create to/a#1)": {
			"s.1 FAULT it loses its lease", "s.2 create to/a", "s.1 learns that it has lost its lease, and stands by", "s.1 leads again",
			"s.1 copy: reconcile", "STEP change", "s.1 update to/a", "s.1 refused: to/a", "s.1 its call \"create to/a\" arrives",
		},
		"late(s effect tell#1 by 2)":   {"s.1 FAULT its call \"tell\" is on its way", "CRASH", "s.2 create to/a", "STEP change", "s.1 its call \"tell\" arrives"},
		"lag(s create to/a#1 of from)": {"FAULT its cache of from lags", "create to/a", "its caches catch up", "STEP change", "update to/a"},
		"travel(s update to/a#1 back 2)": {
			"s.1 update to/a @4", "CRASH", "s.2 FAULT it starts, and its caches begin at version 2", "seeing from@2 of 4",
			"s.2 update to/a @5 N: 2 -> 1", "its caches catch up", "s.2 update to/a @6 N: 1 -> 2",
		},
		"gap(s from/a#1 to 2)":     {"STEP create", "FAULT its watch of from breaks", "STEP change", "s.1 create to/a @3 {\"N\":2}"},
		"read-fails(s get to/a#1)": {"FAULT get to/a fails", "s.1 copy: reconcile a", "s.1 create to/a"},
		"restart(s step#1)":        {"STEP create", "s.1 FAULT it is told to stop", "s.2 starts", "s.2 create to/a"},
	} {
		t.Run(plan, func(t *testing.T) {
			text := simtest.Timeline(t, world, plan)
			t.Log("\n" + text)
			inOrder(t, text, want...)
			require.Equal(t, 1, strings.Count(text, "create to/a @"), "one process creates it")
			parsed, err := simtest.ParsePlan(plan)
			require.NoError(t, err)
			if f := simtest.Replay(t, world, parsed); f != nil {
				t.Error(f)
			}
		})
	}
}

// Each election gives the next term, and each worker gets its own key.
func TestRunModeHasElectionsAndWorkers(t *testing.T) {
	var mu sync.Mutex
	var terms []uint64
	most, now := 0, 0
	world := func() simtest.World {
		return simtest.World{
			Mode: "run",
			Systems: []simtest.System{{Name: "s", Lease: "main", New: func(env *simtest.Env) ([]simtest.Part, error) {
				quiet := slog.New(slog.DiscardHandler)
				seen, err := informer.New(simtest.Open[number](env, "from"), store.Key, informer.Config{Name: "from", Logger: quiet})
				if err != nil {
					return nil, err
				}
				c, err := controller.New("c", func(ctx context.Context, key string) (controller.Result, error) {
					l, ok := leaderelect.FromContext(ctx)
					require.True(t, ok)
					require.NoError(t, l.Err())
					return controller.Result{}, env.Effect(ctx, "work on "+key, func(ctx context.Context) error {
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
				}, controller.Config[string]{Workers: 3, Logger: quiet}, controller.For(seen))
				return []simtest.Part{simtest.Loop(c)}, err
			}}},
			Steps: []simtest.Step{{Name: "create", Do: func(ctx context.Context, user *simtest.User) error {
				var errs []error
				for _, key := range []string{"a", "b", "c", "d"} {
					_, err := simtest.Open[number](user, "from").Create(ctx, store.Object[number]{Key: key})
					errs = append(errs, err)
				}
				return errors.Join(errs...)
			}}},
		}
	}
	text := simtest.Timeline(t, world, `crash-after(s effect "work on b"#1)`)
	t.Log("\n" + text)
	require.Equal(t, 3, most, "workers of one process work concurrently")
	require.Contains(t, terms, uint64(1))
	require.Contains(t, terms, uint64(2))
	require.NotContains(t, terms, uint64(3))
}

// stubborn is a part that continues after it was told to stop.
type stubborn struct {
	after time.Duration
	err   error
}

func (stubborn) Name() string { return "stubborn" }

func (s stubborn) Run(ctx context.Context) error {
	if s.after < 0 {
		return s.err
	}
	<-ctx.Done()
	time.Sleep(s.after)
	return s.err
}

func TestBadlyStoppingPartIsReported(t *testing.T) {
	for name, c := range map[string]struct {
		part  stubborn
		mode  string
		wants string
	}{
		"it stops at once":                {stubborn{}, "run", ""},
		"it stops with an error":          {stubborn{err: errors.New("disk full")}, "run", "s.1 stops with an error: manager: run part \"stubborn\": disk full"},
		"it does not stop in time":        {stubborn{after: 2 * time.Minute}, "run", "it has not returned: not stopped in time"},
		"it ends by itself":               {stubborn{after: -1}, "run", "s.1 has ended by itself"},
		"it ends by itself, step by step": {stubborn{after: -1, err: errors.New("disk full")}, "step", "s.1: stubborn has ended by itself: disk full"},
	} {
		t.Run(name, func(t *testing.T) {
			f := simtest.Replay(t, func() simtest.World {
				return simtest.World{Mode: c.mode, Systems: []simtest.System{{Name: "s", New: func(*simtest.Env) ([]simtest.Part, error) {
					return []simtest.Part{simtest.Background(c.part)}, nil
				}}}}
			}, nil)
			if c.wants == "" {
				require.Nil(t, f)
				return
			}
			require.NotNil(t, f)
			require.Contains(t, f.Problem, c.wants)
		})
	}
}

func TestUnknownModeIsNamed(t *testing.T) {
	f := simtest.Replay(t, inMode("fast", copier), nil)
	require.NotNil(t, f)
	require.Contains(t, f.Problem, `there is no mode "fast"`)
}

// recorded is a world whose controller records an event for each number that it sees, and counts it in the status.
func recorded() simtest.World {
	return simtest.World{
		Systems: []simtest.System{{Name: "s", Lease: "main", New: func(env *simtest.Env) ([]simtest.Part, error) {
			quiet := slog.New(slog.DiscardHandler)
			recorder, err := events.NewRecorder(events.Config{Name: "events", Store: env.Backend(), Logger: quiet})
			if err != nil {
				return nil, err
			}
			s := simtest.Open[number](env, "from")
			seen, err := informer.New(s, store.Key, informer.Config{Name: "from", Logger: quiet})
			if err != nil {
				return nil, err
			}
			to := simtest.Open[number](env, "to")
			c, err := controller.New("c", func(ctx context.Context, key string) (controller.Result, error) {
				o, ok := seen.Get(key)
				if !ok {
					return controller.Result{}, nil
				}
				recorder.Normal(store.Ref{Kind: "from", Key: key}, "Seen", fmt.Sprint(o.Value.N))
				_, err := store.CreateOrUpdate(ctx, to, nil, key, func(c *store.Object[number]) error { c.Value = o.Value; return nil })
				return controller.Result{}, err
			}, controller.Config[string]{Logger: quiet}, controller.For(seen))
			return []simtest.Part{simtest.Background(manager.At(manager.Outer, recorder)), simtest.Loop(c)}, err
		}}},
		Steps: copier().Steps,
		Same: func(kind, key, text string) string {
			if kind == "Event" {
				return "" // a count, and times
			}
			return text
		},
		Goal: func(v *simtest.View) error {
			all, err := simtest.Open[events.Event](v, "Event").List(context.Background())
			if err == nil && len(all.Items) == 0 {
				err = errors.New("no event was kept")
			}
			return err
		},
	}
}

// Events reach the store under every fault, and their writes never disturb the controller.
func TestStoredEventsSurviveEveryFault(t *testing.T) {
	for _, mode := range []string{"step", "run"} {
		t.Run(mode, func(t *testing.T) {
			report := simtest.Explore(t, inMode(mode, func() simtest.World {
				w := recorded()
				w.Pairs = -1
				return w
			}))
			for _, f := range report.Failures {
				t.Error(f)
			}
			require.Greater(t, report.Plans, 20)
			require.NotEmpty(t, simtest.Singles(t, recorded))
		})
	}
}
