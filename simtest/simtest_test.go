package simtest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/simtest"
	"github.com/setpoint-go/setpoint/store"
)

// number is the value of every object here.
type number struct{ N int }

// copier is a world in which a system copies objects of the kind from to the kind to. It survives every fault.
func copier() simtest.World {
	return worldOf(simtest.System{}, func(ctx context.Context, s stores, key string) error {
		o, ok := s.from.Get(key)
		if !ok {
			return nil
		}
		_, err := store.CreateOrUpdate(ctx, s.to, nil, key, func(c *store.Object[number]) error {
			c.Value = o.Value
			return nil
		})
		return err
	})
}

// stores is what the reconcile function of a test gets.
type stores struct {
	env   *simtest.Env
	from  *store.Informer[number]
	froms store.Store[number]
	to    store.Store[number]
}

// worldOf returns a world of one system, named s, in which the user creates from/a with 1, and changes it to 2.
func worldOf(sys simtest.System, reconcile func(context.Context, stores, string) error) simtest.World {
	sys.Name = "s"
	sys.New = func(env *simtest.Env) ([]simtest.Part, error) {
		froms := simtest.Open[number](env, "from")
		quiet := slog.New(slog.DiscardHandler)
		from, err := informer.New(froms, store.Key, informer.Config{Name: "from", Logger: quiet})
		if err != nil {
			return nil, err
		}
		s := stores{env, from, froms, simtest.Open[number](env, "to")}
		c, err := controller.New("copy", func(ctx context.Context, key string) (controller.Result, error) {
			return controller.Result{}, reconcile(ctx, s, key)
		}, controller.Config[string]{Logger: quiet}, controller.For(from))
		return []simtest.Part{simtest.Loop(c)}, err
	}
	return simtest.World{
		Systems: []simtest.System{sys},
		Steps: []simtest.Step{
			{Name: "create", Do: func(ctx context.Context, user *simtest.User) error {
				_, err := simtest.Open[number](user, "from").Create(ctx, store.Object[number]{Key: "a", Value: number{1}})
				return err
			}},
			{Name: "change", Do: func(ctx context.Context, user *simtest.User) error {
				_, err := store.Patch(ctx, simtest.Open[number](user, "from"), "a", func(o *store.Object[number]) error {
					o.Value.N = 2
					return nil
				})
				return ignore(err, store.ErrNotFound)
			}},
		},
	}
}

// inOrder requires that text has the words in this order.
func inOrder(t *testing.T, text string, words ...string) {
	t.Helper()
	rest := strings.Join(strings.Fields(text), " ")
	for _, w := range words {
		_, after, ok := strings.Cut(rest, w)
		require.True(t, ok, "%q does not follow in\n%s", w, text)
		rest = after
	}
}

func TestEachFault(t *testing.T) {
	const create = "create to/a"
	for plan, want := range map[string][]string{
		"crash-before(s create to/a#1)": {"STEP create", "CRASH", "s.2 starts", "s.2 create to/a", "STEP change", "s.2 update"},
		"crash-after(s create to/a#1)":  {"s.1 create to/a", "CRASH", "s.2 starts", "s.2 copy: reconcile", "STEP change", "s.2 update"},
		"down(s create to/a#1)":         {"s.1 create to/a", "CRASH", "STEP change", "s.2 starts", "s.2 update to/a"},
		"lose-request(s create to/a#1)": {"FAULT the request is lost", "a Failed: store: create to \"a\": simtest: the connection", "s.1 create to/a"},
		"lose-reply(s create to/a#1)":   {"s.1 create to/a", "FAULT the reply is lost", "a Failed", "s.1 copy: reconcile a", "STEP change"},
		"conflict(s update to/a#1)":     {"STEP change", "other update to/a @4 only its version", "refused: to/a", "s.1 update to/a @5 N: 1 -> 2"},
		"slow(s create to/a#1)":         {"FAULT the call takes 1m7s", "1m7s s.1 create to/a", "STEP change"},
		"zombie(s create to/a#1)":       {"FAULT it hangs", "s.2 create to/a", "s.1 continues", "s.1 refused: to/a", "s.1 ends", "STEP change", "s.2 update"},
		"lag(s create to/a#1 of from)":  {"FAULT its cache of from lags", "create to/a", "its caches catch up", "STEP change", "update to/a"},
		"travel(s update to/a#1 back 2)": {
			"s.1 update to/a @4", "CRASH", "s.2 FAULT it starts, and its caches begin at version 2", "seeing from@2 of 4",
			"s.2 update to/a @5 N: 2 -> 1", "its caches catch up", "s.2 update to/a @6 N: 1 -> 2",
		},
		"gap(s from/a#1 to 2)":       {"STEP create", "FAULT its watch of from breaks", "STEP change", "s.1 create to/a @3 {\"N\":2}"},
		"read-fails(s get to/a#1)":   {"FAULT get to/a fails", "a Failed: store: get to \"a\": simtest: the read failed", "s.1 create to/a"},
		"restart(s step#1)":          {"STEP create", "CRASH", "s.2 starts", "s.2 create to/a"},
		"crash-after(s nothing x#1)": {"s.1 create to/a", "STEP change", "s.1 update to/a"},
	} {
		t.Run(plan, func(t *testing.T) {
			text := simtest.Timeline(t, copier, plan)
			t.Log("\n" + text)
			inOrder(t, text, want...)
			require.Equal(t, 1, strings.Count(text, create), "one process creates it")
			if !strings.HasPrefix(plan, "conflict") {
				require.NotContains(t, text, "  other ")
			}
		})
	}
}

func TestSurvivingWorldReportsNothingAndIsDeterministic(t *testing.T) {
	report := simtest.Explore(t, copier)
	require.Empty(t, report.Failures)
	require.Zero(t, report.Failing)
	plans := simtest.Singles(t, copier)
	require.GreaterOrEqual(t, report.Plans, len(plans)+200, "all single faults and 200 pairs")
	for _, plan := range plans {
		once := simtest.Order(t, copier, plan)
		require.Equal(t, once, simtest.Order(t, copier, plan))
		parsed, err := simtest.ParsePlan(plan)
		require.NoError(t, err)
		require.Equal(t, plan, parsed.String())
		if parsed[0].Do != "restart" {
			require.Contains(t, once, map[string]string{
				"crash-before": "CRASH", "crash-after": "CRASH", "down": "CRASH", "conflict": "other",
			}[parsed[0].Do], plan)
		}
	}
}

// A gap that no change ends is over at the end of the run. A key with periodic reconciles gets the time to see the
// current state.
func TestPeriodicReconcileSeesEndOfGap(t *testing.T) {
	for _, mode := range []string{"step", "run"} {
		world := func() simtest.World {
			w := copier()
			w.Mode, w.Steps = mode, w.Steps[:1]
			w.Systems[0].New = func(env *simtest.Env) ([]simtest.Part, error) {
				quiet := slog.New(slog.DiscardHandler)
				froms := simtest.Open[number](env, "from")
				from, err := informer.New(froms, store.Key, informer.Config{Name: "from", Logger: quiet})
				if err != nil {
					return nil, err
				}
				c, err := controller.New("look", func(ctx context.Context, key string) (controller.Result, error) {
					o, ok := from.Get(key)
					if !ok {
						return controller.Result{RequeueAfter: 3 * time.Second}, nil
					}
					o.Value.N = 2
					_, err := froms.Update(ctx, o)
					return controller.Result{}, err
				}, controller.Config[string]{Logger: quiet, Reads: []controller.Informer{from}})
				c.Add("a")
				return []simtest.Part{simtest.Loop(c)}, err
			}
			return w
		}
		plan, err := simtest.ParsePlan("gap(s from/a#1 to 2)")
		require.NoError(t, err)
		require.Nil(t, simtest.Replay(t, world, plan), mode)
	}
}

// The list after a gap shows only the last change, even if the gap ends only because nothing else is left to do. Without a gap, a cache
// receives each change.
func TestGapMergesChangesOfObject(t *testing.T) {
	for _, mode := range []string{"step", "run"} {
		for plan, want := range map[string][]int{"": {1, 1, 2}, "gap(s from/a#1 to 2)": {2}, "gap(s from/a#1 to 9)": {2}} {
			var heard []int
			world := func() simtest.World {
				w := copier()
				w.Mode = mode
				w.Systems[0].New = func(env *simtest.Env) ([]simtest.Part, error) {
					quiet := slog.New(slog.DiscardHandler)
					from, err := informer.New(simtest.Open[number](env, "from"), store.Key, informer.Config{Name: "from", Logger: quiet})
					if err != nil {
						return nil, err
					}
					c, err := controller.New("hear", func(context.Context, string) (controller.Result, error) {
						return controller.Result{}, nil
					}, controller.Config[string]{Logger: quiet}, controller.Watches(from, func(_ context.Context, o store.Object[number]) ([]string, error) {
						heard = append(heard, o.Value.N)
						return nil, nil
					}))
					return []simtest.Part{simtest.Loop(c)}, err
				}
				return w
			}
			simtest.Timeline(t, world, plan)
			require.Equal(t, want, heard, "mode %s, plan %q", mode, plan)
		}
	}
}

// Deferred functions of a dead process have no effect.
func TestDeadProcessDoesNothing(t *testing.T) {
	world := func() simtest.World {
		return worldOf(simtest.System{}, func(ctx context.Context, s stores, key string) error {
			defer func() {
				_ = recover() // does not stop the end of the process
				_, _ = s.to.Create(ctx, store.Object[number]{Key: "late"})
			}()
			_, err := store.CreateOrUpdate(ctx, s.to, nil, key, func(*store.Object[number]) error { return nil })
			return err
		})
	}
	text := simtest.Timeline(t, world, "crash-after(s create to/a#1)")
	inOrder(t, text, "s.1 create to/a", "CRASH", "s.2 starts", "s.2 create to/late")
	require.NotContains(t, text, "s.1 create to/late")
}

// overwrite decides, does something else, and writes, without a precondition.
func overwrite(ctx context.Context, s stores, key string) error {
	o, ok := s.from.Get(key)
	if !ok {
		return nil
	}
	if err := s.env.Effect(ctx, "think", func(context.Context) error { return nil }); err != nil {
		return err
	}
	have, err := s.to.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		_, err = s.to.Create(ctx, store.Object[number]{Key: key, Value: o.Value})
		return err
	} else if err != nil {
		return err
	}
	have.Value = o.Value
	_, err = s.to.Update(ctx, have)
	return err
}

// A leader that has lost its lease continues while the next one leads. Until it notices, its writes carry the old
// term.
func TestLeaderContinuesUntilItNoticesLostLease(t *testing.T) {
	terms := make(map[string]bool)
	world := func() simtest.World {
		return worldOf(simtest.System{Lease: "main"}, func(ctx context.Context, s stores, key string) error {
			o, ok := s.from.Get(key)
			if !ok {
				return nil
			}
			return s.env.Effect(ctx, "tell", func(ctx context.Context) error {
				l, ok := leaderelect.FromContext(ctx)
				require.True(t, ok)
				terms[fmt.Sprintf("%d by term %d: %v", o.Value.N, l.Term(), l.Err())] = true
				return nil
			})
		})
	}
	for _, mode := range []string{"step", "run"} {
		clear(terms)
		text := simtest.Timeline(t, inMode(mode, world), "lose-lease(s effect tell#1)")
		t.Log("\n" + text)
		inOrder(t, text, "STEP create", "s.1 FAULT it loses its lease", "s.2 starts", "s.2 copy: reconcile a", "s.2 tell", "s.1 its call continues",
			"s.1 tell", "STEP change", "s.1 copy: reconcile a", "s.1 tell", "s.2 copy: reconcile a", "s.2 tell",
			"s.1 learns that it has lost its lease, and ends")
		require.Equal(t, map[string]bool{
			"1 by term 1: <nil>": true, "1 by term 2: <nil>": true, "2 by term 1: <nil>": true, "2 by term 2: <nil>": true,
		}, terms)
	}

	text := simtest.Timeline(t, func() simtest.World { return worldOf(simtest.System{Lease: "main"}, overwrite) }, "lose-lease(s update to/a#1)")
	inOrder(t, text, "s.2 update to/a", "s.1 its call continues", "refused: to/a", "term 1", "s.1 learns")
}

// It notices in time, even while a call is in flight.
func TestLeaderNoticesLostLeaseInTime(t *testing.T) {
	world := func() simtest.World {
		return worldOf(simtest.System{Lease: "main"}, func(ctx context.Context, s stores, key string) error {
			if l, _ := leaderelect.FromContext(ctx); l.Term() == 1 {
				if err := s.env.Effect(ctx, "first", func(context.Context) error { return nil }); err != nil {
					return err
				}
				if err := s.env.Effect(ctx, "second", func(context.Context) error { return nil }); err != nil {
					return err
				}
				return s.env.Effect(ctx, "third", func(context.Context) error { return nil })
			}
			return nil
		})
	}
	text := simtest.Timeline(t, world, "lose-lease(s effect first#1) slow(s effect second#1)")
	t.Log("\n" + text)
	inOrder(t, text, "s.1 its call continues", "s.1 first", "FAULT the call takes 1m7s", "s.1 learns that it has lost its lease", "s.1 second", "s.1 ends", "STEP change")
	require.NotContains(t, text, "third", "the context has ended")
}

func TestFormerLeadersEffectArrivesLate(t *testing.T) {
	world := func() simtest.World {
		return worldOf(simtest.System{Lease: "main"}, func(ctx context.Context, s stores, key string) error {
			return s.env.Effect(ctx, "tell", func(ctx context.Context) error {
				_, err := s.to.Create(ctx, store.Object[number]{Key: "by-a-dead-process"})
				return err
			})
		})
	}
	by := func(n int) []string {
		text := simtest.Timeline(t, world, fmt.Sprintf("late(s effect tell#1 by %d)", n))
		require.Equal(t, 1, strings.Count(text, "arrives"))
		var order []string
		for line := range strings.SplitSeq(text, "\n") {
			for _, word := range []string{"STEP create", "CRASH", "STEP change", "arrives"} {
				if strings.Contains(line, word) {
					order = append(order, word)
				}
			}
		}
		return order
	}
	require.Equal(t, []string{"STEP create", "CRASH", "arrives", "STEP change"}, by(1))
	require.Equal(t, []string{"STEP create", "CRASH", "STEP change", "arrives"}, by(2))
	require.Equal(t, []string{"STEP create", "CRASH", "STEP change", "arrives"}, by(100), "at the end, at the latest")
}

func TestLeaseFencesHungProcess(t *testing.T) {
	const plan = "zombie(s effect think#2)"
	with := func(lease string) func() simtest.World {
		return func() simtest.World { return worldOf(simtest.System{Lease: lease}, overwrite) }
	}
	inOrder(t, simtest.Timeline(t, with(""), plan), "s.2 update to/a", "s.1 continues", "s.1 think", "s.1 ends")
	inOrder(t, simtest.Timeline(t, with("main"), "zombie(s update to/a#1)"), "s.2 update to/a", "s.1 continues", "refused: to/a", "term 1", "s.1 ends")
}

// Each world has one bug, which one of the rules finds.
func TestEachRuleFindsItsBug(t *testing.T) {
	for name, c := range map[string]struct {
		world simtest.World
		says  string
	}{
		"the state differs": {worldOf(simtest.System{}, func(ctx context.Context, s stores, key string) error {
			if o, ok := s.from.Get(key); ok && o.Value.N == 1 {
				_, err := s.to.Create(ctx, store.Object[number]{Key: key})
				return ignore(err, store.ErrExists)
			}
			return nil
		}), "to/a is missing at the end; without faults it exists"},
		"an orphan": {worldOf(simtest.System{}, func(ctx context.Context, s stores, key string) error {
			o, ok := s.from.Get(key)
			switch {
			case !ok: // only the process that has seen the object gets here
				_, err := s.to.Delete(ctx, key)
				return ignore(err, store.ErrNotFound)
			case o.Value.N == 1:
				_, err := s.to.Create(ctx, store.Object[number]{Key: key, Owners: []store.OwnerRef{{Ref: o.Ref()}}})
				return ignore(err, store.ErrExists)
			default:
				_, err := s.froms.Delete(ctx, key)
				return ignore(err, store.ErrNotFound)
			}
		}), "to/a is left at the end, and its owners are gone"},
		"no end": {worldOf(simtest.System{}, func(ctx context.Context, s stores, key string) error {
			o, ok := s.from.Get(key)
			if !ok {
				return nil
			}
			_, err := store.CreateOrUpdate(ctx, s.froms, nil, key, func(c *store.Object[number]) error {
				c.Value.N = o.Value.N + 1
				return nil
			})
			return err
		}), "without any fault: s does not become quiet: 1000 reconciles"},
		"nondeterminism": {worldOf(simtest.System{}, func(ctx context.Context, s stores, key string) error {
			many := make(map[string]bool)
			for i := range 100 {
				many[fmt.Sprint(i)] = true
			}
			var err error
			for name := range many {
				_, e := s.to.Create(ctx, store.Object[number]{Key: name})
				err = errors.Join(err, ignore(e, store.ErrExists))
			}
			return err
		}), "two runs without faults differ"},
		"a system whose constructor fails": {simtest.World{Systems: []simtest.System{{
			Name: "s", New: func(*simtest.Env) ([]simtest.Part, error) { return nil, errors.New("no config") },
		}}}, "s.1 cannot be made: no config"},
		"a step that fails": {simtest.World{Steps: []simtest.Step{{
			Name: "boom", Do: func(context.Context, *simtest.User) error { return errors.New("it broke") },
		}}}, `step "boom": it broke`},
		"a step that waits forever": {simtest.World{Steps: []simtest.Step{{
			Name: "wait", Do: func(context.Context, *simtest.User) error { return simtest.ErrNotYet },
		}}}, `step "wait": simtest: not yet`},
		"a cache of something else": {simtest.World{Systems: []simtest.System{{
			Name: "s", New: func(*simtest.Env) ([]simtest.Part, error) {
				other, err := store.NewMemory(store.MemoryConfig{})
				if err != nil {
					return nil, err
				}
				s, err := store.Open[number](other, "n", store.Config[number]{})
				if err != nil {
					return nil, err
				}
				in, err := informer.New(s, store.Key, informer.Config{Name: "n"})
				return []simtest.Part{simtest.Cache(in)}, err
			},
		}}}, "is its source a store of the Env?"},
	} {
		t.Run(name, func(t *testing.T) {
			report := simtest.Explore(t, func() simtest.World { return c.world })
			require.NotEmpty(t, report.Failures)
			var texts []string
			for _, f := range report.Failures {
				texts = append(texts, f.String())
			}
			require.Contains(t, strings.Join(texts, "\n"), c.says)
		})
	}
}

func ignore(err, target error) error {
	if errors.Is(err, target) {
		return nil
	}
	return err
}

func TestAlwaysRunsAfterEveryCommitAndGoalAtTheEnd(t *testing.T) {
	commits, goals := 0, 0
	world := func() simtest.World {
		w := copier()
		w.Always = func(v *simtest.View) error {
			commits++
			_, err := simtest.Open[number](v, "to").Create(t.Context(), store.Object[number]{Key: "x"})
			require.ErrorContains(t, err, "only reads")
			return nil
		}
		w.Goal = func(v *simtest.View) error {
			goals++
			o, err := simtest.Open[number](v, "to").Get(t.Context(), "a")
			if err == nil && o.Value.N != 2 {
				err = fmt.Errorf("it is %d", o.Value.N)
			}
			return err
		}
		return w
	}
	require.Nil(t, simtest.Replay(t, world, simtest.Plan{{Do: "crash-after", System: "s", Op: "create", Object: "to/a", Nth: 1}}))
	require.Equal(t, 8, commits)
	require.Equal(t, 2, goals)
}

// A bug after one fault needs only the user's first step.
func TestFailureIsShrunk(t *testing.T) {
	world := func() simtest.World {
		w := worldOf(simtest.System{}, func(ctx context.Context, s stores, key string) error {
			o, ok := s.from.Get(key)
			if !ok {
				return nil
			}
			if _, err := s.to.Create(ctx, store.Object[number]{Key: fmt.Sprint(key, o.Value.N)}); ignore(err, store.ErrExists) != nil {
				return err
			}
			_, err := s.to.Create(ctx, store.Object[number]{Key: fmt.Sprint("second", o.Value.N)})
			if errors.Is(err, simtest.ErrLost) {
				_, err = s.to.Create(ctx, store.Object[number]{Key: "mistake"})
			}
			return ignore(err, store.ErrExists)
		})
		w.Pairs = -1
		return w
	}
	report := simtest.Explore(t, world)
	i := slices.IndexFunc(report.Failures, func(f *simtest.Failure) bool { return strings.Contains(f.Problem, "mistake") })
	require.NotEqual(t, -1, i)
	f := report.Failures[i]
	require.Equal(t, "skip(step#2) lose-request(s create to/second1#1)", f.Plan.String())
	require.Len(t, f.More, 3)
	require.Contains(t, f.String(), "to/mistake exists at the end, and does not without faults")
	require.Contains(t, f.String(), "run again: -simtest.plan='skip(step#2) lose-request(s create to/second1#1)'")
	require.Contains(t, f.String(), "3 more plans fail in the same way, such as lose-reply(s create to/second2#1)")
}

func TestUnparsablePlanIsNamed(t *testing.T) {
	for text, says := range map[string]string{
		"crash-after":                      `"crash-after" has no arguments`,
		"explode(s create to/a#1)":         "explode: there is no such fault",
		"crash-after(s create to/a#1":      "a closing parenthesis is missing",
		"crash-after(s create to/a)":       "it has 3 words, not 5",
		"crash-after(s create to/a#1 2)":   "it has 6 words, not 5",
		"crash-after(s create to/a#0)":     `"0" is not a positive number`,
		"travel(s create to/a#1 forth 2)":  `found "forth", expected "back"`,
		`crash-after("s create to/a#1)`:    "invalid syntax",
		"crash-after(s create to/a#1) lag": `"lag" has no arguments`,
	} {
		_, err := simtest.ParsePlan(text)
		require.ErrorContains(t, err, "simtest: parse plan: ", text)
		require.ErrorContains(t, err, says, text)
	}
}

func FuzzParsePlan(f *testing.F) {
	f.Add("crash-after(rmq update sts/a#1)")
	f.Add(`crash-after("" update sts/a#1)`)
	f.Add("late(s effect tell#1 by 2) lose-lease(s update to/a#1) regain(s update to/a#1) cold(s create to/a#1 of to)")
	f.Add(`lag("my system" create "pods/a b#\"#\""#2 of pods) gap(s x/y#1 to 3) restart(s step#2) travel(s effect vpc#1 back 4)`)
	f.Fuzz(func(t *testing.T, text string) {
		plan, err := simtest.ParsePlan(text)
		if err != nil {
			return
		}
		again, err := simtest.ParsePlan(plan.String())
		require.NoError(t, err, plan.String())
		require.Equal(t, plan, again)
	})
}

// A plan that was not parsed may name an unknown fault.
func TestPlanWithUnknownFaultIsNotReplayed(t *testing.T) {
	for _, bad := range []simtest.Fault{
		{Do: "explode", System: "s", Op: "create", Object: "to/a", Nth: 1},
		{Do: "crash-after", System: "s", Op: "create", Object: "to/a"},
	} {
		inner := new(testing.T)
		done := make(chan struct{})
		// Ends with Replay, which ends it as a test.
		go func() {
			defer close(done)
			simtest.Replay(inner, copier, simtest.Plan{bad})
		}()
		<-done
		require.True(t, inner.Failed(), "%s", bad)
	}
}
