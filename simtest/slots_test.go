package simtest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/fence"
	"github.com/setpoint-go/setpoint/retry"
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
	another    bool // the program without the mistake is not that of TestFleetSurvivesFaults
	world      func(wrong bool) simtest.World
}{
	{"a write does not have the context of the reconcile", "regain(s-b delete crate/b-0#1)", true, func(wrong bool) simtest.World {
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
	{"the context of the first reconcile is kept", "move(s-a create crate/a-0#1 of depot)", false, func(wrong bool) simtest.World {
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
	{"the process remembers what it has made", "move(s-b update crate/b-0#1 of crate)", false, func(wrong bool) simtest.World {
		return fleetOf(2, 2, func(d *depots) {
			if wrong {
				d.made = make(map[string]bool)
			}
		})
	}},
	{"a child is divided by its own key", "", false, func(wrong bool) simtest.World {
		return fleetOf(2, 2, func(d *depots) { d.cratesByOwnKey = wrong })
	}},
	{"an object that concerns all slots is divided", "", false, func(wrong bool) simtest.World {
		return fleetOf(2, 2, func(d *depots) { d.sizesDivided = wrong })
	}},
	{"a call outside of the stores does not carry the term", "late(s-a effect report-a#1 by 5)", true, func(wrong bool) simtest.World {
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
	{"a cache that decides about calls is not among those of the controller", "move(s-a create report/a#1 of report)", true, func(wrong bool) simtest.World {
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
			if m.plan != "" {
				require.Contains(t, simtest.Singles(t, world(true)), m.plan, "the kit tries it")
			}
			if m.another {
				none(t, simtest.Explore(t, world(false)).Failures)
			} else {
				require.Nil(t, replay(t, world(false), m.plan))
			}
		})
	}
}

// Each fault moves slots as it says.
func TestSlotsMove(t *testing.T) {
	world := func() simtest.World { return fleetOf(2, 2, nil) }
	for name, c := range map[string]struct {
		plan  string
		words []string
	}{
		"at first, each replica has as many": {"", []string{
			"s-a.1 begins with slot 0", "s-b.1 begins with slot 1", "STEP create", "s-a.1 crates: reconcile a", "s-b.1 crates: reconcile b", "STEP",
		}},
		"others take over from a process that has ended, and return its slots after the next step": {"crash-after(s-a create crate/a-0#1)", []string{
			"s-a.1 create crate/a-0", "s-a.1 CRASH", "s-a.2 starts", "s-b.1 slot 0 moves from s-a.1 to s-b.1", "s-b.1 crates: reconcile a",
			"s-b.1 create crate/c-0", "STEP update depot/a", "s-b.1 create crate/a-1", "s-a.2 slot 0 moves from s-b.1 to s-a.2", "s-a.2 crates: reconcile a",
			"STEP", "s-a.2 update crate/a-0",
		}},
		"those that start share the slots of the last one": {"down(s-b create crate/b-0#1) crash-after(s-a create crate/a-1#1)", []string{
			"s-a.1 slot 1 moves from s-b.1 to s-a.1", "s-b.2 starts", "s-a.1 CRASH", "s-a.2 slot 0 moves from s-a.1 to s-a.2", "s-b.2 slot 1 moves from s-a.1 to s-b.2",
		}},
		"a process that hangs is fenced by the next owner": {"zombie(s-b update crate/b-0#1)", []string{
			"s-b.1 FAULT it hangs", "s-b.2 starts", "s-a.1 slot 1 moves from s-b.1 to s-a.1", "s-a.1 update crate/b-0", "s-b.1 continues where it hung",
			"s-b.1 refused: crate/b-0", "term 1 of lease \"depots/slot/1\" is over, 2 has written", "s-b.1 ends",
		}},
		"a process that has lost its slots works on until it notices, and gets them back": {"lose-lease(s-a create crate/a-1#1)", []string{
			"s-a.1 FAULT it loses its slots", "s-b.1 slot 0 moves from s-a.1 to s-b.1", "s-b.1 create crate/a-1", "s-a.1 its call continues", "s-a.1 refused: crate/a-1",
			"STEP update size/all", "s-a.1 crates: reconcile a", "s-a.1 refused: crate/a-0", "s-b.1 update crate/a-0", "STEP delete", "STEP create",
			"s-a.1 notices that it has lost its slots", "s-a.1 slot 0 moves from s-b.1 to s-a.1", "s-a.1 crates: reconcile a",
		}},
		"a call of a former term arrives": {"regain(s-a create crate/a-1#1)", []string{
			"s-a.1 FAULT it loses its slots", "s-b.1 create crate/a-1", "s-a.1 notices that it has lost its slots", "a Canceled", "STEP update size/all",
			"s-a.1 its call \"create crate/a-1\" arrives", "term 1 of lease", "s-a.1 slot 0 moves from s-b.1 to s-a.1",
		}},
		"a slot is handed over after the reconcile in flight, and the next owner has caught up": {"move(s-a create crate/a-1#1 of depot)", []string{
			"s-a.1 FAULT slot 0 has to move to s-b.1, whose cache of depot lags from here on", "s-a.1 its call continues", "s-a.1 create crate/a-1",
			"s-b.1 slot 0 moves from s-a.1 to s-b.1", "s-b.1 its caches catch up", "s-b.1 crates: reconcile a", "STEP update size/all", "s-b.1 update crate/a-0",
			"s-a.1 slot 0 moves from s-b.1 to s-a.1", "s-a.1 crates: reconcile a",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			text := simtest.Timeline(t, world, c.plan)
			t.Log("\n" + text)
			inOrder(t, text, c.words...)
			require.NotContains(t, text, "seeing", "each reconcile sees the present")
		})
	}
}

// A slot stays where it is if there is no other replica.
func TestSlotWithoutOtherReplicaStays(t *testing.T) {
	world := func() simtest.World { return fleetOf(1, 2, nil) }
	require.NotContains(t, strings.Join(simtest.Singles(t, world), "\n"), "move(")
	text := simtest.Timeline(t, world, "move(s-a create crate/a-1#1 of depot)")
	inOrder(t, text, "s-a.1 begins with slot 0 and slot 1", "FAULT a slot has to move, but there is none, or no other replica", "s-a.1 create crate/a-1")
	require.NotContains(t, text, "moves")
	text = simtest.Timeline(t, world, "lose-lease(s-a create crate/a-1#1)")
	inOrder(t, text, "s-a.1 its call continues", "s-a.1 create crate/a-1", "s-a.1 notices", "s-a.1 slot 0 moves from s-a.1 to s-a.1")
	text = simtest.Timeline(t, world, "crash-after(s-a create crate/a-1#1)")
	inOrder(t, text, "s-a.2 slot 0 moves from s-a.1 to s-a.2", "s-a.2 slot 1 moves from s-a.1 to s-a.2")
}

// As with manager.Config.Shards, taking over ends the former term: the next owner need not write.
func TestTakeoverFencesFormerOwner(t *testing.T) {
	for _, fault := range []string{"zombie", "lose-lease", "regain"} {
		text := simtest.Timeline(t, func() simtest.World {
			processes := 0
			return copiers(2, func(env *simtest.Env) func(context.Context, string) error {
				processes++
				first, tos := processes == 1, simtest.Open[number](env, "to")
				return func(ctx context.Context, key string) error {
					if !first {
						return nil
					}
					first = false
					return ensure(ctx, tos, key)
				}
			})
		}, fault+"(s-a create to/a#1)")
		inOrder(t, text, "s-b.1 copy: reconcile a", "s-a.1 refused: to/a", "term 1")
		require.NotContains(t, text, "create to/a @")
	}
}

// copiers is a world of replicas whose informer is not divided, and that share two slots. The key a is in slot 0.
func copiers(n int, reconcile func(env *simtest.Env) func(context.Context, string) error) simtest.World {
	return worldWith("", simtest.Replicas(n, simtest.System{Name: "s", Lease: "main", Slots: 2, New: func(env *simtest.Env) ([]simtest.Part, error) {
		_, from := simtest.Mirror[number](env, "from")
		return []simtest.Part{loopOf("copy", from, just(reconcile(env)))}, nil
	}})...)
}

// The cache of the next owner has the objects already, and no event brings their keys.
func TestNextOwnerReconcilesAllKeysOfSlot(t *testing.T) {
	world := func() simtest.World {
		w := copiers(2, func(env *simtest.Env) func(context.Context, string) error {
			return func(ctx context.Context, key string) error {
				return env.Effect(ctx, "see-"+key, func(context.Context) error { return nil })
			}
		})
		w.Steps[0] = create("from", "a c", 1) // both are in slot 0
		return w
	}
	text := simtest.Timeline(t, world, "down(s-a effect see-a#2)")
	inOrder(t, text, "STEP change", "s-a.1 see-a", "CRASH", "s-b.1 slot 0 moves from s-a.1 to s-b.1", "s-b.1 copy: reconcile a", "s-b.1 see-a", "s-b.1 see-c")
}

// After a slot has to go, its owner ends what is in flight, and begins nothing: the key that is ready beside it goes to the next owner.
func TestSlotThatLeavesGetsNoWork(t *testing.T) {
	text := simtest.Timeline(t, func() simtest.World { return fleetOf(2, 2, nil) }, "move(s-a create crate/a-0#1 of crate)")
	inOrder(t, text, "s-a.1 crates: reconcile a", "FAULT slot 0 has to move to s-b.1", "s-a.1 create crate/a-0", "s-b.1 slot 0 moves", "s-b.1 crates: reconcile c",
		"s-b.1 create crate/c-0", "STEP update depot/a")
	before, _, _ := strings.Cut(text, "STEP update depot/a")
	require.NotContains(t, before, "s-a.1  crates: reconcile c")
}

// A program may park a key, whichever replica does it. What a replica has parked counts no longer when another one has the slot.
func TestKeyParkedByAnotherReplicaIsNoFailure(t *testing.T) {
	world := func(parks func(system, key string) bool) simtest.World {
		w := fleetOf(2, 2, nil)
		for i, s := range w.Systems {
			w.Systems[i].New = func(env *simtest.Env) ([]simtest.Part, error) {
				parts, err := s.New(env)
				_, from := simtest.Mirror[depot](env, "depot")
				c := newController("refuse", controller.Config[string]{}, just(func(ctx context.Context, key string) error {
					if err := env.Effect(ctx, "look-at-"+key, func(context.Context) error { return nil }); err != nil || !parks(s.Name, key) {
						return err
					}
					return retry.Permanent(errors.New("never"))
				}), controller.For(from))
				return append(parts, simtest.Loop(c)), err
			}
		}
		w.Pairs = -1
		return w
	}
	report := simtest.Explore(t, func() simtest.World {
		return world(func(_, key string) bool { return key == "a" })
	})
	none(t, report.Failures)
	f := replay(t, func() simtest.World {
		return world(func(system, key string) bool { return system == "s-a" && key == "b" })
	}, "move(s-b create crate/b-0#2 of depot)")
	if f != nil {
		t.Error(f)
	}
}

// At rest, a divided cache has the objects of the slots of its process, and each object is in one cache.
func TestCacheFollowsSlots(t *testing.T) {
	for plan, want := range map[string]string{
		"": "[a c] [b]", "move(s-b create crate/b-0#2 of depot)": "[a c] [b]", "move(s-b create crate/b-0#1 of crate)": "[a c] [b]",
		"lose-lease(s-a create crate/a-0#1)": "[a c] [b]",
	} {
		var all []*depots
		world := func() simtest.World {
			all = nil
			w := fleetOf(2, 2, func(d *depots) { all = append(all, d) })
			w.Goal = func(v *simtest.View) error {
				var held []string
				for _, d := range all {
					held = append(held, fmt.Sprint(slices.Sorted(maps.Keys(maps.Collect(d.depots.All())))))
				}
				if have := strings.Join(held, " "); have != want {
					return fmt.Errorf("the caches have %s, expected %s", have, want)
				}
				return stocked(v)
			}
			return w
		}
		if f := replay(t, world, plan); f != nil {
			t.Error(f)
		}
	}
}

// A source that polls is asked for a list after the takeover, whether its informer is divided or not.
func TestFleetMayPoll(t *testing.T) {
	for _, divided := range []bool{false, true} {
		world := func() simtest.World {
			w := copiers(2, nil)
			for i := range w.Systems {
				w.Systems[i].New = func(env *simtest.Env) ([]simtest.Part, error) {
					tos := simtest.Open[number](env, "to")
					from, err := polledBy(simtest.Open[number](env, "from"), "from", time.Minute, true)
					if divided {
						from, err = informer.New(informer.Divide(from.Source().(informer.ListWatcher[store.Object[number]]), store.Key[number]), store.Key,
							informer.Config{Name: "from", Logger: slog.New(slog.DiscardHandler)})
					}
					return []simtest.Part{loopOf("copy", from, just(func(ctx context.Context, key string) error {
						o, ok := from.Get(key)
						if !ok {
							return nil
						}
						return put(ctx, tos, key, o.Value.N)
					}))}, err
				}
			}
			w.Pairs = 20
			return w
		}
		report := simtest.Explore(t, world)
		none(t, report.Failures)
		inOrder(t, simtest.Timeline(t, world, "down(s-a create to/a#1)"), "CRASH", "s-b.1 slot 0 moves", "s-b.1 copy: reconcile a")
	}
}

// The same plan gives the same timeline, byte for byte.
func TestFleetIsReproducible(t *testing.T) {
	world := func() simtest.World { return fleetOf(3, 4, nil) }
	plans := simtest.Singles(t, world)
	require.Greater(t, len(plans), 200)
	for i, plan := range plans {
		if i%3 == 0 {
			require.Equal(t, simtest.Timeline(t, world, plan), simtest.Timeline(t, world, plan))
		}
	}
}

func TestBadFleetIsNamed(t *testing.T) {
	system := func(name, lease string, slots int) simtest.System {
		return simtest.System{Name: name, Lease: lease, Slots: slots, New: func(*simtest.Env) ([]simtest.Part, error) { return nil, nil }}
	}
	for want, w := range map[string]simtest.World{
		"system x has Slots and no Lease":                                     {Systems: []simtest.System{system("x", "", 2)}},
		"system x: Slots is -1, and must not be negative":                     {Systems: []simtest.System{system("x", "main", -1)}},
		"system y has 3 Slots, and system x with the same Lease has 2":        {Systems: []simtest.System{system("x", "main", 2), system("y", "main", 3)}},
		"system y has 0 Slots, and system x with the same Lease has 2":        {Systems: []simtest.System{system("x", "main", 2), system("y", "main", 0)}},
		`system y has the Lease "main", as system x does`:                     {Systems: []simtest.System{system("x", "main", 0), system("y", "main", 0)}},
		"system x: shard: new: Config.Slots is 5000, must be 1 to 4096":       {Systems: []simtest.System{system("x", "main", 5000)}},
		"system x has Slots, which run mode does not simulate: use step mode": {Mode: "run", Systems: []simtest.System{system("x", "main", 2)}},
	} {
		report := simtest.Explore(t, func() simtest.World { return w })
		require.Len(t, report.Failures, 1, want)
		require.EqualValues(t, "world", report.Failures[0].Rule)
		require.Contains(t, report.Failures[0].Problem, want)
	}
	names := func(all []simtest.System) (names []string) {
		for _, s := range all {
			names = append(names, s.Name)
		}
		return names
	}
	require.Equal(t, []string{"x-a", "x-b", "x-c"}, names(simtest.Replicas(3, system("x", "main", 2))))
	require.Equal(t, "x-z", names(simtest.Replicas(26, system("x", "main", 2)))[25])
	for _, n := range []int{-1, 0, 27} {
		require.PanicsWithValue(t, fmt.Sprintf("simtest: %d replicas: must be 1 to 26", n), func() { simtest.Replicas(n, simtest.System{}) })
	}
}
