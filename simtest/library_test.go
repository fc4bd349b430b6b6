package simtest_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/fence"
	"github.com/setpoint-go/setpoint/owner"
	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/simtest"
	"github.com/setpoint-go/setpoint/store"
)

// farm is the desired state, machine is made by the controller for it.
type (
	farm struct {
		Machines int
		Status   store.Conditions `store:"status"`
	}
	machine struct{ Size int }
)

// farms is a world with all that package owner has: children that are applied, a finalizer for what is outside of the store, and a
// collector. With a lease, the system has a leader; with fenced, what is outside of the store refuses leaders of the past.
func farms(lease string, fenced bool, policy owner.Policy) func() simtest.World {
	return func() simtest.World {
		entries := make(map[string]bool) // outside of the store
		var guard fence.Guard
		call := func(change func()) func(context.Context) error {
			return func(ctx context.Context) error {
				leads, ok := leaderelect.FromContext(ctx)
				if !ok || !fenced {
					change()
					return nil
				}
				return guard.Do(ctx, leads.Term(), func(context.Context) error { change(); return nil })
			}
		}
		open := func(env *simtest.Env) (store.Store[farm], *store.Informer[farm], *owner.Children[machine]) {
			farms, seenFarms := simtest.Mirror[farm](env, "farm")
			machines, seenMachines := simtest.Mirror[machine](env, "machine")
			return farms, seenFarms, owner.NewChildren(machines, seenMachines)
		}
		return simtest.World{
			Systems: []simtest.System{{Name: "farms", Lease: lease, New: func(env *simtest.Env) ([]simtest.Part, error) {
				farms, seen, children := open(env)
				entry := owner.Finalizer[farm]{
					Name: "example.com/entry",
					Apply: func(ctx context.Context, f store.Object[farm]) error {
						return env.Effect(ctx, "put-entry", call(func() { entries[f.Key] = true }))
					},
					Cleanup: func(ctx context.Context, f store.Object[farm]) error {
						return env.Effect(ctx, "remove-entry", call(func() { delete(entries, f.Key) }))
					},
				}
				quiet := slog.New(slog.DiscardHandler)
				c, err := controller.New("farms", func(ctx context.Context, key string) (controller.Result, error) {
					if left, err := owner.Cascade(ctx, farms, key, children); err != nil {
						return controller.Result{}, err
					} else if left > 0 {
						return controller.Result{}, retry.NotYet(fmt.Errorf("%d machines are left", left), 0)
					}
					f, live, err := entry.Reconcile(ctx, farms, key)
					if err != nil || !live {
						return controller.Result{}, err
					}
					want := make(map[string]machine)
					for i := range f.Value.Machines {
						want[fmt.Sprintf("%s-%d", key, i)] = machine{Size: 1}
					}
					have, err := children.Apply(ctx, f.Ref(), want)
					if err != nil {
						return controller.Result{}, err
					}
					f.Value.Status.Set(store.Condition{Type: "Ready", OK: len(have) == len(want)})
					_, err = farms.UpdateStatus(ctx, f)
					return controller.Result{}, err
				}, controller.Config[string]{Logger: quiet}, controller.For(seen), controller.Owns(children.Informer(), "farm"))
				if err != nil {
					return nil, err
				}
				collector, err := controller.NewCollector(children, farms, seen, controller.Config[string]{Logger: quiet})
				return []simtest.Part{simtest.Loop(c), simtest.Loop(collector)}, err
			}}},
			Steps: []simtest.Step{
				{Name: "create", Do: func(ctx context.Context, user *simtest.User) error {
					_, err := simtest.Open[farm](user, "farm").Create(ctx, store.Object[farm]{Key: "a", Value: farm{Machines: 2}})
					return err
				}},
				{Name: "scale down", Do: func(ctx context.Context, user *simtest.User) error {
					_, err := store.Patch(ctx, simtest.Open[farm](user, "farm"), "a", func(o *store.Object[farm]) error {
						o.Value.Machines = 1
						return nil
					})
					return err
				}},
				{Name: "delete", Do: func(ctx context.Context, user *simtest.User) error {
					return owner.Delete(ctx, simtest.Open[farm](user, "farm"), "a", policy)
				}},
				{Name: "create again", Do: func(ctx context.Context, user *simtest.User) error {
					_, err := simtest.Open[farm](user, "farm").Create(ctx, store.Object[farm]{Key: "a", Value: farm{Machines: 1}})
					if err != nil {
						return fmt.Errorf("%w: %w", simtest.ErrNotYet, err)
					}
					return nil
				}},
				{Name: "delete again", Do: func(ctx context.Context, user *simtest.User) error {
					return owner.Delete(ctx, simtest.Open[farm](user, "farm"), "a", policy)
				}},
			},
			Goal: func(v *simtest.View) error {
				farms, machines := len(simtest.List[farm](v, "farm")), len(simtest.List[machine](v, "machine"))
				if farms != 0 || machines != 0 || len(entries) != 0 {
					return fmt.Errorf("%d farms, %d machines and %d entries are left", farms, machines, len(entries))
				}
				return nil
			},
			Always: func(v *simtest.View) error {
				if machines := len(simtest.List[machine](v, "machine")); machines > 2 {
					return fmt.Errorf("there are %d machines", machines)
				}
				return nil
			},
		}
	}
}

// The collector once missed an owner that was deleted and created again, if a list merged the two: a gap found it.
func TestOwnersSurviveEveryFault(t *testing.T) {
	for _, c := range []struct {
		lease  string
		policy owner.Policy
		mode   string
	}{
		{"", owner.Background, "step"},
		{"main", owner.Foreground, "step"},
		{"main", owner.Foreground, "run"}, // with the real election, and a fence
	} {
		if raceEnabled && c.mode == "run" {
			continue
		}
		t.Run(fmt.Sprintf("policy=%s lease=%q mode=%s", c.policy, c.lease, c.mode), func(t *testing.T) {
			report := simtest.Explore(t, func() simtest.World {
				w := farms(c.lease, true, c.policy)()
				w.Mode, w.Pairs = c.mode, 5
				switch long := *runsFlag > 0; {
				case c.mode == "run", c.lease != "" && !long: // fewer steps, since these have many faults
					w.Steps, w.Pairs = w.Steps[3:], -1
				case c.lease != "":
					w.Steps = slices.Delete(w.Steps, 1, 2)
				case !long: // one machine instead of two
					w.Steps, w.Pairs = []simtest.Step{w.Steps[3], w.Steps[2], w.Steps[3], w.Steps[4]}, -1
				}
				return w
			})
			none(t, report.Failures)
			require.Greater(t, report.Plans, 60)
		})
	}
}

// A delayed call of a former leader may arrive after the cleanup of a finalizer. The store cannot prevent that. The
// receiver can, if it knows the term.
func TestFormerLeadersCallMayArriveAfterCleanup(t *testing.T) {
	const plan = "late(farms effect put-entry#1 by 5)" // after the last step
	failure := replay(t, farms("main", false, owner.Foreground), plan)
	require.NotNil(t, failure)
	require.Contains(t, failure.Problem, "1 entries are left")
	require.Nil(t, replay(t, farms("main", true, owner.Foreground), plan))
}
