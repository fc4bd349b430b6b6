package simtest_test

import (
	"context"
	"errors"
	"fmt"
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

// Each plan has its effect on a copier in step mode, and, with a lease, in both modes.
func TestEachFault(t *testing.T) {
	for plan, want := range map[string][]string{
		"crash-before(s create to/a#1)": {"STEP create", "CRASH", "s.2 starts", "s.2 create to/a", "STEP change", "s.2 update"},
		"crash-after(s create to/a#1)":  {"s.1 create to/a", "CRASH", "s.2 starts", "s.2 copy: reconcile", "STEP change", "s.2 update"},
		"down(s create to/a#1)":         {"s.1 create to/a", "CRASH", "STEP change", "s.2 starts", "s.2 update to/a"},
		"lose-request(s create to/a#1)": {"FAULT the request is lost", "s.1 copy: reconcile a", "s.1 create to/a"},
		"lose-reply(s create to/a#1)":   {"s.1 create to/a", "FAULT the reply is lost", "s.1 copy: reconcile a", "STEP change"},
		"conflict(s update to/a#1)":     {"STEP change", "other update to/a @4 only its version", "refused: to/a", "s.1 update to/a @5 N: 1 -> 2"},
		"slow(s create to/a#1)":         {"FAULT the call takes 1m7s", "1m7s s.1 create to/a", "STEP change"},
		"zombie(s create to/a#1)":       {"FAULT it hangs", "s.2 create to/a", "s.1 continues", "s.1 refused: to/a", "s.1 ends", "STEP change", "s.2 update"},
		"lag(s create to/a#1 of from)":  {"FAULT its cache of from lags", "create to/a", "its caches catch up", "STEP change", "update to/a"},
		"travel(s update to/a#1 back 2)": {
			"s.1 update to/a @4", "CRASH", "s.2 FAULT it starts, and its caches begin at version 2", "its caches catch up", "s.2 copy: reconcile a",
		},
		"gap(s from/a#1 to 2)":       {"STEP create", "FAULT its watch of from breaks", "STEP change", "s.1 create to/a @3 {\"N\":2}"},
		"read-fails(s get to/a#1)":   {"FAULT get to/a fails", "s.1 copy: reconcile a", "s.1 create to/a"},
		"restart(s step#1)":          {"STEP create", "s.2 starts", "s.2 create to/a"},
		"crash-after(s nothing x#1)": {"s.1 create to/a", "STEP change", "s.1 update to/a"},
		"lose-lease(s create to/a#1)": {
			"s.1 FAULT it loses its lease", "s.2 create to/a", "s.1 its call continues", "s.1 refused: to/a", "STEP change", "s.2 update", "s.1 notices",
		},
		"regain(s create to/a#1)": {
			"s.1 FAULT it loses its lease", "s.2 create to/a", "s.1 notices that it has lost its lease, and stands by", "s.1 leads again",
			"s.1 copy: reconcile", "STEP change", "s.1 update to/a", "s.1 refused: to/a", "s.1 its call \"create to/a\" arrives",
		},
		"late(s effect report#1 by 2)": {"s.1 FAULT its call \"report\" is on its way", "CRASH", "s.2 create to/a", "STEP change", "s.1 its call \"report\" arrives"},
	} {
		for name, world := range map[string]func() simtest.World{"copier": copier, "led": led, "led in run mode": inMode("run", led)} {
			if name == "copier" && strings.Contains("lose-lease regain late", plan[:strings.Index(plan, "(")]) {
				continue // it has no lease
			}
			t.Run(plan+" "+name, func(t *testing.T) {
				text := simtest.Timeline(t, world, plan)
				t.Log("\n" + text)
				inOrder(t, text, want...)
				require.Equal(t, 1, strings.Count(text, "create to/a @"), "one process creates it")
				if !strings.HasPrefix(plan, "conflict") {
					require.NotContains(t, text, "  other ")
				}
				if f := replay(t, world, plan); f != nil {
					t.Error(f)
				}
			})
		}
	}
	inOrder(t, simtest.Timeline(t, copier, "travel(s update to/a#1 back 2)"), "begin at version 2", "seeing from@2 of 4",
		"s.2 update to/a @5 N: 2 -> 1", "its caches catch up", "s.2 update to/a @6 N: 1 -> 2")
	inOrder(t, simtest.Timeline(t, copier, "lose-request(s create to/a#1)"), "a Failed: store: create to \"a\": simtest: the connection")
	inOrder(t, simtest.Timeline(t, copier, "restart(s step#1)"), "s.1 CRASH")
	inOrder(t, simtest.Timeline(t, inMode("run", led), "restart(s step#1)"), "s.1 FAULT it has to stop")
	// A process that has hung once and continues may hang again: the one that took over continues.
	inOrder(t, simtest.Timeline(t, led, "zombie(s effect report#1) zombie(s create to/a#1)"), "s.2 FAULT it hangs", "s.3 create to/a", "s.2 continues")
}

func TestSurvivingWorldReportsNothingAndIsDeterministic(t *testing.T) {
	report := simtest.Explore(t, copier)
	require.Empty(t, report.Failures)
	require.Zero(t, report.Failing)
	plans := simtest.Singles(t, copier)
	require.GreaterOrEqual(t, report.Plans+report.Pruned, len(plans)+200, "all single faults and 200 pairs, but for those that no program survives")
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
	inModes(t, func(t *testing.T, mode string) {
		require.Nil(t, replay(t, func() simtest.World {
			w := worldWith(mode, systemOf(func(env *simtest.Env) []simtest.Part {
				froms, from := simtest.Mirror[number](env, "from")
				c := newController("look", controller.Config[string]{Reads: []controller.Informer{from}}, func(ctx context.Context, key string) (controller.Result, error) {
					if _, ok := from.Get(key); !ok {
						return controller.Result{RequeueAfter: 3 * time.Second}, nil
					}
					return controller.Result{}, set(ctx, froms, key, 2)
				})
				c.Add("a")
				return []simtest.Part{simtest.Loop(c)}
			}))
			w.Steps = w.Steps[:1]
			return w
		}, "gap(s from/a#1 to 2)"))
	})
}

// The list after a gap shows only the last change, even if the gap ends only because nothing else is left to do. Without a gap, a cache
// receives each change.
func TestGapMergesChangesOfObject(t *testing.T) {
	inModes(t, func(t *testing.T, mode string) {
		for plan, want := range map[string][]int{"": {1, 1, 2}, "gap(s from/a#1 to 2)": {2}, "gap(s from/a#1 to 9)": {2}} {
			var received []int
			simtest.Timeline(t, func() simtest.World {
				return worldWith(mode, systemOf(func(env *simtest.Env) []simtest.Part {
					_, from := simtest.Mirror[number](env, "from")
					c := newController("c", controller.Config[string]{}, just(func(context.Context, string) error { return nil }),
						controller.Watches(from, func(_ context.Context, o store.Object[number]) ([]string, error) {
							received = append(received, o.Value.N)
							return nil, nil
						}))
					return []simtest.Part{simtest.Loop(c)}
				}))
			}, plan)
			require.Equal(t, want, received, "plan %q", plan)
		}
	})
}

// Deferred functions of a dead process have no effect.
func TestDeadProcessDoesNothing(t *testing.T) {
	world := func() simtest.World {
		return worldOf(simtest.System{}, func(ctx context.Context, s stores, key string) error {
			defer func() {
				_ = recover() // does not stop the end of the process
				_ = ensure(ctx, s.tos, "late")
			}()
			return put(ctx, s.tos, key, 0)
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
	have, err := s.tos.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		_, err = s.tos.Create(ctx, store.Object[number]{Key: key, Value: o.Value})
		return err
	} else if err != nil {
		return err
	}
	have.Value = o.Value
	_, err = s.tos.Update(ctx, have)
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
			return s.env.Effect(ctx, "report", func(ctx context.Context) error {
				l, ok := leaderelect.FromContext(ctx)
				require.True(t, ok)
				terms[fmt.Sprintf("%d by term %d: %v", o.Value.N, l.Term(), l.Err())] = true
				return nil
			})
		})
	}
	inModes(t, func(t *testing.T, mode string) {
		clear(terms)
		text := simtest.Timeline(t, inMode(mode, world), "lose-lease(s effect report#1)")
		t.Log("\n" + text)
		inOrder(t, text, "STEP create", "s.1 FAULT it loses its lease", "s.2 starts", "s.2 copy: reconcile a", "s.2 report", "s.1 its call continues",
			"s.1 report", "STEP change", "s.1 copy: reconcile a", "s.1 report", "s.2 copy: reconcile a", "s.2 report",
			"s.1 notices that it has lost its lease, and ends")
		require.Equal(t, map[string]bool{
			"1 by term 1: <nil>": true, "1 by term 2: <nil>": true, "2 by term 1: <nil>": true, "2 by term 2: <nil>": true,
		}, terms)
	})

	text := simtest.Timeline(t, func() simtest.World { return worldOf(simtest.System{Lease: "main"}, overwrite) }, "lose-lease(s update to/a#1)")
	inOrder(t, text, "s.2 update to/a", "s.1 its call continues", "refused: to/a", "term 1", "s.1 notices")
}

// It notices in time, even while a call is in flight.
func TestLeaderNoticesLostLeaseInTime(t *testing.T) {
	world := func() simtest.World {
		return worldOf(simtest.System{Lease: "main"}, func(ctx context.Context, s stores, key string) error {
			l, _ := leaderelect.FromContext(ctx)
			for _, effect := range []string{"first", "second", "third"} {
				if l.Term() != 1 {
					break
				}
				if err := s.env.Effect(ctx, effect, func(context.Context) error { return nil }); err != nil {
					return err
				}
			}
			return nil
		})
	}
	text := simtest.Timeline(t, world, "lose-lease(s effect first#1) slow(s effect second#1)")
	t.Log("\n" + text)
	inOrder(t, text, "s.1 its call continues", "s.1 first", "FAULT the call takes 1m7s", "s.1 notices that it has lost its lease", "s.1 second", "s.1 ends", "STEP change")
	require.NotContains(t, text, "third", "the context has ended")
}

func TestFormerLeadersEffectArrivesLate(t *testing.T) {
	world := func() simtest.World {
		return worldOf(simtest.System{Lease: "main"}, func(ctx context.Context, s stores, key string) error {
			return s.env.Effect(ctx, "report", func(ctx context.Context) error {
				_, err := s.tos.Create(ctx, store.Object[number]{Key: "by-a-dead-process"})
				return err
			})
		})
	}
	by := func(n int) []string {
		text := simtest.Timeline(t, world, fmt.Sprintf("late(s effect report#1 by %d)", n))
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

// The takeover itself ends the former term, as with a guard in a database: the successor here writes nothing.
func TestTakeoverFencesFormerLeader(t *testing.T) {
	for _, fault := range []string{"zombie", "lose-lease"} {
		t.Run(fault, func(t *testing.T) {
			inModes(t, func(t *testing.T, mode string) {
				text := simtest.Timeline(t, inMode(mode, func() simtest.World {
					processes := 0
					return worldWith(mode, simtest.System{Name: "s", Lease: "main", New: func(env *simtest.Env) ([]simtest.Part, error) {
						processes++
						first := processes == 1
						tos := simtest.Open[number](env, "to")
						_, from := simtest.Mirror[number](env, "from")
						return []simtest.Part{loopOf("copy", from, just(func(ctx context.Context, key string) error {
							if !first {
								return nil
							}
							return ensure(ctx, tos, key)
						}))}, nil
					}})
				}), fault+"(s create to/a#1)")
				inOrder(t, text, "s.2 copy: reconcile a", "s.1 refused: to/a", "term 1")
				require.NotContains(t, text, "s.2 create")
				require.NotContains(t, text, "s.1 create to/a,")
			})
		})
	}
}

// Each world has one bug, which one of the rules finds.
func TestEachRuleFindsItsBug(t *testing.T) {
	for name, c := range map[string]struct {
		world simtest.World
		says  string
	}{
		"the state differs": {worldOf(simtest.System{}, func(ctx context.Context, s stores, key string) error {
			if o, ok := s.from.Get(key); ok && o.Value.N == 1 {
				return ensure(ctx, s.tos, key)
			}
			return nil
		}), "to/a is missing at the end; without faults it exists"},
		"an orphan": {worldOf(simtest.System{}, func(ctx context.Context, s stores, key string) error {
			o, ok := s.from.Get(key)
			switch {
			case !ok: // only the process that has seen the object gets here
				_, err := s.tos.Delete(ctx, key)
				return ignore(err, store.ErrNotFound)
			case o.Value.N == 1:
				_, err := s.tos.Create(ctx, store.Object[number]{Key: key, Owners: []store.OwnerRef{{Ref: o.Ref()}}})
				return ignore(err, store.ErrExists)
			default:
				_, err := s.froms.Delete(ctx, key)
				return ignore(err, store.ErrNotFound)
			}
		}), "to/a is left at the end, and its owners are deleted"},
		"no end": {worldOf(simtest.System{}, func(ctx context.Context, s stores, key string) error {
			o, ok := s.from.Get(key)
			if !ok {
				return nil
			}
			return put(ctx, s.froms, key, o.Value.N+1)
		}), "without any fault: s does not become quiet: 1000 reconciles"},
		"nondeterminism": {worldOf(simtest.System{}, func(ctx context.Context, s stores, key string) error {
			many := make(map[string]bool)
			for i := range 100 {
				many[fmt.Sprint(i)] = true
			}
			var err error
			for name := range many {
				err = errors.Join(err, ensure(ctx, s.tos, name))
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
				other := store.NewMemory(store.MemoryConfig{})
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
			if _, err := s.tos.Create(ctx, store.Object[number]{Key: fmt.Sprint(key, o.Value.N)}); ignore(err, store.ErrExists) != nil {
				return err
			}
			_, err := s.tos.Create(ctx, store.Object[number]{Key: fmt.Sprint("second", o.Value.N)})
			if errors.Is(err, simtest.ErrLost) {
				err = ensure(ctx, s.tos, "mistake")
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
	f.Add("late(s effect report#1 by 2) lose-lease(s update to/a#1) regain(s update to/a#1) cold(s create to/a#1 of to)")
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
