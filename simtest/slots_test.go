package simtest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/fence"
	"github.com/setpoint-go/setpoint/simtest"
	"github.com/setpoint-go/setpoint/store"
)

// depot is an owner, and crate its child. The size of all crates is a number, whose informer is not divided.
type (
	depot struct{ Crates int }
	crate struct {
		Depot string
		Size  int
	}
)

// depots is one process of a replica, which makes the crates of the depots in its slots.
type depots struct {
	env    *simtest.Env
	depots *store.Informer[depot]
	crates *store.Informer[crate]
	sizes  *store.Informer[number]
	store  store.Store[crate]

	// What a test may change.
	sizesDivided, cratesByOwnKey bool
	write                        func(ctx context.Context) context.Context // returns the context of each write
	made                         map[string]bool                           // if not nil, the process remembers the crates that it has made
	remove                       []store.Precondition                      // of each deletion, instead of its version
	report                       func(ctx context.Context, key string, crates int) error
	reads                        []controller.Informer
	others                       []simtest.Part
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// informerOf returns an informer that is divided by the text that shardKey returns; not if that is nil.
func informerOf[T any](env *simtest.Env, kind string, shardKey func(store.Object[T]) string) *store.Informer[T] {
	var src informer.ListWatcher[store.Object[T]] = simtest.Open[T](env, kind)
	if shardKey != nil {
		src = informer.Divide(src, shardKey)
	}
	return must(informer.New(src, store.Key, informer.Config{Name: kind, Logger: slog.New(slog.DiscardHandler)}))
}

// parts returns the parts of the process.
func (d *depots) parts() []simtest.Part {
	depotOf := func(c store.Object[crate]) string { return c.Value.Depot }
	if d.cratesByOwnKey {
		depotOf = store.Key
	}
	var sizeOf func(store.Object[number]) string
	if d.sizesDivided {
		sizeOf = store.Key
	}
	d.store = simtest.Open[crate](d.env, "crate")
	d.depots, d.crates = informerOf(d.env, "depot", store.Key[depot]), informerOf(d.env, "crate", depotOf)
	d.sizes = informerOf(d.env, "size", sizeOf)
	return append(d.others, simtest.Loop(newController("crates", controller.Config[string]{Reads: d.reads}, just(d.reconcile), controller.For(d.depots),
		controller.Watches(d.crates, func(_ context.Context, c store.Object[crate]) ([]string, error) { return []string{c.Value.Depot}, nil }),
		controller.Watches(d.sizes, func(context.Context, store.Object[number]) (keys []string, _ error) {
			for key := range d.depots.All() {
				keys = append(keys, key)
			}
			return keys, nil
		}))))
}

// reconcile makes the crates of a depot what they should be.
func (d *depots) reconcile(ctx context.Context, key string) error {
	o, _ := d.depots.Get(key)
	if d.report != nil {
		if err := d.report(ctx, key, o.Value.Crates); err != nil {
			return err
		}
	}
	if d.write != nil {
		ctx = d.write(ctx)
	}
	size, _ := d.sizes.Get("all")
	want := make(map[string]bool)
	for i := range o.Value.Crates {
		name := fmt.Sprintf("%s-%d", key, i)
		want[name] = true
		c, ok := d.crates.Get(name)
		switch {
		case !ok && !d.made[name]:
			_, err := d.store.Create(ctx, store.Object[crate]{Key: name, Value: crate{key, size.Value.N}})
			if ignore(err, store.ErrExists) != nil {
				return err
			}
			if d.made != nil {
				d.made[name] = true
			}
		case ok && c.Value.Size != size.Value.N:
			c.Value.Size = size.Value.N
			if _, err := d.store.Update(ctx, c); err != nil {
				return err
			}
		}
	}
	for name, c := range d.crates.All() {
		if c.Value.Depot == key && !want[name] {
			pre := d.remove
			if pre == nil {
				pre = []store.Precondition{store.IfVersion(c.Version)}
			}
			if _, err := d.store.Delete(ctx, name, pre...); ignore(err, store.ErrNotFound) != nil {
				return err
			}
			delete(d.made, name)
		}
	}
	return nil
}

// fleetOf returns a world of n replicas that share the depots. With two slots, a and c are in slot 0, and b is in slot 1. change changes each
// process; it may be nil.
func fleetOf(n, slots int, change func(d *depots)) simtest.World {
	return simtest.World{
		Systems: simtest.Replicas(n, simtest.System{Name: "s", Lease: "depots", Slots: slots, New: func(env *simtest.Env) ([]simtest.Part, error) {
			d := &depots{env: env}
			if change != nil {
				change(d)
			}
			return d.parts(), nil
		}}),
		Steps: []simtest.Step{
			{Name: "create", Do: func(ctx context.Context, user *simtest.User) error {
				all := simtest.Open[depot](user, "depot")
				_, err := simtest.Open[number](user, "size").Create(ctx, store.Object[number]{Key: "all", Value: number{1}})
				for _, key := range []string{"a", "b", "c"} {
					_, e := all.Create(ctx, store.Object[depot]{Key: key, Value: depot{1}})
					err = errors.Join(err, e)
				}
				return err
			}},
			simtest.Update("depot", "a", func(d *depot) { d.Crates = 2 }),
			simtest.Update("size", "all", func(n *number) { n.N = 2 }),
			simtest.Delete[depot]("depot", "b"),
			simtest.Create("depot", store.Object[depot]{Key: "b", Value: depot{1}}),
		},
		Goal: stocked,
	}
}

// stocked requires that each depot has its crates, and that there are no others.
func stocked(v *simtest.View) error {
	want, have := map[string]crate{}, map[string]crate{}
	for _, d := range simtest.List[depot](v, "depot") {
		for i := range d.Value.Crates {
			want[fmt.Sprintf("%s-%d", d.Key, i)] = crate{d.Key, 2}
		}
	}
	for _, c := range simtest.List[crate](v, "crate") {
		have[c.Key] = c.Value
	}
	if !maps.Equal(have, want) {
		return fmt.Errorf("there are %v, expected %v", have, want)
	}
	return nil
}

// A program without mistakes survives every fault, and pairs of them.
func TestFleetSurvivesFaults(t *testing.T) {
	for name, world := range map[string]func() simtest.World{
		"2 replicas, 2 slots": func() simtest.World { return fleetOf(2, 2, nil) },
		"3 replicas, 4 slots": func() simtest.World { return fleetOf(3, 4, nil) },
		"1 replica, 3 slots":  func() simtest.World { return fleetOf(1, 3, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			report := simtest.Explore(t, world)
			none(t, report.Failures)
			none(t, report.Advice)
			require.Empty(t, report.Unmet)
			require.Greater(t, report.Plans, 400)
		})
	}
}

// guards refuse calls of former owners of a slot, by its lease.
type guards map[string]*fence.Guard

func (g guards) do(ctx context.Context, call func()) error {
	l, ok := leaderelect.FromContext(ctx)
	if !ok {
		return errors.New("the call has no term")
	}
	if g[l.Key()] == nil {
		g[l.Key()] = new(fence.Guard)
	}
	return g[l.Key()].Do(ctx, l.Term(), func(context.Context) error { call(); return nil })
}

// mistakes are programs that share their keys wrongly, and the fault that shows it. Without the mistake, no fault breaks anything.
var mistakes = []struct {
	name, plan string
	world      func(wrong bool) simtest.World
}{
	{"a write does not have the context of the reconcile", "regain(s-b delete crate/b-0#1)", func(wrong bool) simtest.World {
		w := fleetOf(2, 2, func(d *depots) {
			d.remove = []store.Precondition{}
			if wrong {
				d.write = func(context.Context) context.Context { return context.Background() }
			}
		})
		w.Always = func(v *simtest.View) error { // no crate is removed that a depot needs that was there before
			last := v.Last()
			if last.Kind != "crate" || last.Op != "delete" {
				return nil
			}
			was, err := simtest.Open[crate](v.Before(), "crate").Get(context.Background(), last.Key)
			if err != nil {
				return err
			}
			d, err := simtest.Open[depot](v, "depot").Get(context.Background(), was.Value.Depot)
			if err == nil && d.Created.Before(was.Created.Add(1)) {
				return fmt.Errorf("%s has removed %s, which is needed", last.By, last.Key)
			}
			return nil
		}
		return w
	}},
	{"the context of the first reconcile is kept", "move(s-a create crate/a-0#1 of depot)", func(wrong bool) simtest.World {
		return fleetOf(2, 2, func(d *depots) {
			if !wrong {
				return
			}
			var kept context.Context
			d.write = func(ctx context.Context) context.Context {
				if kept == nil {
					kept = context.WithoutCancel(ctx)
				}
				return kept
			}
		})
	}},
	{"the process remembers what it has made", "move(s-b update crate/b-0#1 of crate)", func(wrong bool) simtest.World {
		return fleetOf(2, 2, func(d *depots) {
			if wrong {
				d.made = make(map[string]bool)
			}
		})
	}},
	{"a child is divided by its own key", "", func(wrong bool) simtest.World {
		return fleetOf(2, 2, func(d *depots) { d.cratesByOwnKey = wrong })
	}},
	{"an object that concerns all slots is divided", "", func(wrong bool) simtest.World {
		return fleetOf(2, 2, func(d *depots) { d.sizesDivided = wrong })
	}},
	{"a call outside of the stores does not carry the term", "late(s-a effect report-a#1 by 5)", func(wrong bool) simtest.World {
		reported, refuse := map[string]int{}, guards{}
		w := fleetOf(2, 2, func(d *depots) {
			d.report = func(ctx context.Context, key string, crates int) error {
				return d.env.Effect(ctx, "report-"+key, func(ctx context.Context) error {
					if wrong {
						reported[key] = crates
						return nil
					}
					return refuse.do(ctx, func() { reported[key] = crates })
				})
			}
		})
		w.Goal = func(v *simtest.View) error {
			if reported["a"] != 2 {
				return fmt.Errorf("the report says that a has %d crates", reported["a"])
			}
			return stocked(v)
		}
		return w
	}},
	{"a cache that decides about calls is not among those of the controller", "move(s-a create report/a#1 of report)", func(wrong bool) simtest.World {
		var truth store.Store[number]
		refuse := guards{}
		var twice error
		processes := 0
		w := fleetOf(2, 2, func(d *depots) {
			processes++
			process := processes
			reports := simtest.Open[number](d.env, "report")
			seen := informerOf[number](d.env, "report", nil)
			if wrong {
				d.others = append(d.others, simtest.Cache(seen))
			} else {
				d.reads = append(d.reads, seen)
			}
			d.report = func(ctx context.Context, key string, crates int) error {
				if _, ok := seen.Get(key); ok || crates == 0 {
					return nil
				}
				err := d.env.Effect(ctx, "open-"+key, func(ctx context.Context) error {
					return refuse.do(ctx, func() {
						// A process may repeat itself, if its cache lags for so long that it waits no longer for its own write.
						if r, err := truth.Get(ctx, key); err == nil && r.Value.N != process {
							twice = fmt.Errorf("%s is opened, which another process has reported before", key)
						}
					})
				})
				if err != nil {
					return err
				}
				_, err = reports.Create(ctx, store.Object[number]{Key: key, Value: number{process}})
				return err
			}
		})
		w.Systems = append(w.Systems, simtest.System{Name: "world", Trusted: true, New: func(env *simtest.Env) ([]simtest.Part, error) {
			truth = simtest.Open[number](env, "report")
			return nil, nil
		}})
		w.Always = func(*simtest.View) error { return twice }
		return w
	}},
}

func TestMistakesOfSharedKeysAreFound(t *testing.T) {
	for _, m := range mistakes {
		t.Run(m.name, func(t *testing.T) {
			world := func(wrong bool) func() simtest.World {
				return func() simtest.World {
					w := m.world(wrong)
					w.Pairs = -1
					return w
				}
			}
			f := replay(t, world(true), m.plan)
			require.NotNil(t, f, "%s is not found", m.plan)
			t.Log(f)
			require.Equal(t, simtest.Bug, f.Severity)
			report := simtest.Explore(t, world(true))
			require.NotEmpty(t, report.Failures)
			none(t, simtest.Explore(t, world(false)).Failures)
		})
	}
}
