package simtest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/simtest"
	"github.com/setpoint-go/setpoint/store"
)

// only returns the failures of an exploration of one rule, and fails the test if there is another rule.
func only(t *testing.T, world func() simtest.World, rule simtest.Rule) []*simtest.Failure {
	t.Helper()
	report := simtest.Explore(t, world)
	require.NotEmpty(t, report.Failures)
	require.Len(t, of(report.Failures, rule), len(report.Failures), "%v", report.Failures)
	return report.Failures
}

func TestGapFromLastChangeOnIsTried(t *testing.T) {
	assert.Contains(t, simtest.Singles(t, copier), "gap(s from/a#2 to 3)")
	text := simtest.Timeline(t, copier, "gap(s from/a#2 to 3)")
	inOrder(t, text, "STEP change", "update from/a", "FAULT its watch of from breaks", "its caches catch up", "s.1 update to/a")
}

func TestPanicsAreFound(t *testing.T) {
	inModes(t, func(t *testing.T, mode string) {
		world := func(when func(first bool) bool) func() simtest.World {
			first := false
			return inMode(mode, func() simtest.World {
				first = true
				w := worldOf(simtest.System{}, func(ctx context.Context, s stores, key string) error {
					if _, err := s.tos.Get(ctx, key); err == nil && when(first) {
						panic("boom")
					}
					return ensure(ctx, s.tos, key)
				})
				inner := w.Systems[0].New
				w.Systems[0].New = func(env *simtest.Env) ([]simtest.Part, error) {
					defer func() { first = false }()
					return inner(env)
				}
				w.Pairs = -1
				return w
			})
		}
		f := only(t, world(func(bool) bool { return true }), "panic")
		assert.Contains(t, f[0].Problem, "without any fault: ")
		assert.Contains(t, f[0].Problem, "reconciles of copy by s.1 have panicked")
	})
}

func TestKeyThatAlwaysFailsIsFound(t *testing.T) {
	boom := errors.New("no route to host")
	inModes(t, func(t *testing.T, mode string) {
		f := only(t, inMode(mode, func() simtest.World {
			return worldOf(simtest.System{}, func(context.Context, stores, string) error { return boom })
		}), "failing")
		require.Len(t, f, 1)
		assert.Contains(t, f[0].Problem, "without any fault: the key a of copy by s fails, after ")
		assert.Contains(t, f[0].Problem, "no route to host")

		// After a lost reply, it takes what it has created itself for that of another.
		f = only(t, inMode(mode, func() simtest.World {
			w := worldOf(simtest.System{}, func(ctx context.Context, s stores, key string) error {
				if o, ok := s.from.Get(key); !ok || o.Value.N != 1 {
					return nil
				}
				_, err := s.tos.Create(ctx, store.Object[number]{Key: key})
				return err
			})
			w.Steps, w.Pairs = w.Steps[:1], -1
			return w
		}), "failing")
		assert.Contains(t, f[0].Problem, "object already exists")
	})
}

// A key that a fault has made fail often is tried once more before the verdict, although its backoff is longer than the horizon.
func TestKeyIsTriedOnceMoreBeforeTheVerdict(t *testing.T) {
	inModes(t, func(t *testing.T, mode string) {
		world := inMode(mode, func() simtest.World {
			w := worldOf(simtest.System{}, func(ctx context.Context, s stores, key string) error { return ensure(ctx, s.tos, key) })
			cfg := controller.Config[string]{}
			cfg.Queue.RateLimiter = slowLimiter{}
			w.Systems[0] = systemOf(func(env *simtest.Env) []simtest.Part {
				_, from := simtest.Mirror[number](env, "from")
				tos := simtest.Open[number](env, "to")
				return []simtest.Part{simtest.Loop(newController("copy", cfg, just(func(ctx context.Context, key string) error {
					return ensure(ctx, tos, key)
				}), controller.For(from)))}
			})
			w.Steps, w.Pairs = w.Steps[:1], -1
			return w
		})
		none(t, simtest.Explore(t, world).Failures)
	})
}

// slowLimiter waits for an hour after each failure.
type slowLimiter struct{}

func (slowLimiter) When(string) time.Duration { return time.Hour }
func (slowLimiter) Forget(string)             {}
func (slowLimiter) NumRequeues(string) int    { return 0 }

func TestOrderOfKeysIsVaried(t *testing.T) {
	inModes(t, func(t *testing.T, mode string) {
		f := only(t, inMode(mode, func() simtest.World {
			w := worldOf(simtest.System{}, func(ctx context.Context, s stores, key string) error {
				if _, err := s.tos.Get(ctx, "first"); err == nil {
					return ensure(ctx, s.tos, key)
				} else if key == "b" {
					return ensure(ctx, s.tos, "mistake") // it has never come before a
				}
				return errors.Join(ensure(ctx, s.tos, "first"), ensure(ctx, s.tos, key))
			})
			w.Steps, w.Pairs = []simtest.Step{create("from", "a b", 1)}, -1
			return w
		}), "end-state")
		assert.Contains(t, f[0].Plan.String()+fmt.Sprint(f[0].More), "reorder(s)")
	})
}

// The user changes the object between the read and the write of a reconcile.
func TestStepOfTheUserComesInsideReconcile(t *testing.T) {
	inModes(t, func(t *testing.T, mode string) {
		world := inMode(mode, func() simtest.World {
			w := worldOf(simtest.System{Lease: "main"}, func(ctx context.Context, s stores, key string) error {
				o, err := s.froms.Get(ctx, key)
				if err != nil || o.Value.N != 1 {
					return ignore(err, store.ErrNotFound)
				}
				if _, err := s.tos.Get(ctx, "lock"); err == nil { // it looks, and then it acts on what it has read before
					return nil
				}
				return ignore(set(ctx, s.froms, key, 5), store.ErrNotFound)
			})
			w.Goal = func(v *simtest.View) error {
				if o, err := simtest.Open[number](v, "from").Get(context.Background(), "a"); err != nil || o.Value.N != 2 {
					return fmt.Errorf("a has %d", o.Value.N)
				}
				return nil
			}
			w.Pairs = -1
			return w
		})
		f := of(simtest.Explore(t, world).Failures, "lost-write")
		f = append(f, of(simtest.Explore(t, world).Failures, "goal")...)
		require.NotEmpty(t, f)
		assert.Contains(t, fmt.Sprint(f[0].Plan, f[0].More), "early(s ")
		assert.Contains(t, f[0].Timeline, "FAULT STEP change comes early")
	})
}

// Without a lease, an effect of a process that has ended arrives when the next one works.
func TestEffectArrivesLateWithoutLease(t *testing.T) {
	plans := plansOf("late", simtest.Singles(t, func() simtest.World {
		return worldOf(simtest.System{}, func(ctx context.Context, s stores, _ string) error {
			return s.env.Effect(ctx, "report", func(context.Context) error { return nil })
		})
	}))
	assert.Equal(t, []string{"late(s effect report#1 by 1)", "late(s effect report#2 by 1)"}, plans)
}

func TestAlwaysRunsAfterEffectAndLearnsWhatChanged(t *testing.T) {
	inModes(t, func(t *testing.T, mode string) {
		var seen []string
		calls := 0
		world := inMode(mode, func() simtest.World {
			calls, seen = 0, nil
			w := worldOf(simtest.System{}, func(ctx context.Context, s stores, key string) error {
				if err := put(ctx, s.tos, key, 7); err != nil {
					return err
				}
				return s.env.Effect(ctx, "call", func(context.Context) error { calls++; return nil })
			})
			w.Always = func(v *simtest.View) error {
				before, after := 0, 0
				if o, err := simtest.Open[number](v.Before(), "from").Get(context.Background(), "a"); err == nil {
					before = o.Value.N
				}
				if o, err := simtest.Open[number](v, "from").Get(context.Background(), "a"); err == nil {
					after = o.Value.N
				}
				seen = append(seen, fmt.Sprint(v.Last(), " ", before, " to ", after))
				if calls > 2 {
					return errors.New("it was called three times")
				}
				return nil
			}
			return w
		})
		require.Nil(t, simtest.Replay(t, world, nil))
		assert.Equal(t, []string{
			"{user create from a} 0 to 1", "{s.1 create to a} 1 to 1", "{s.1 call  } 1 to 1", "{user update from a} 1 to 2", "{s.1 call  } 2 to 2",
		}, seen)
		f := simtest.Replay(t, world, simtest.Plan{{Do: "lose-reply", System: "s", Op: "effect", Object: "call", Nth: 1}})
		require.NotNil(t, f)
		assert.Contains(t, f.Problem, "after this effect by s.1: it was called three times")
	})
}

func TestDelayedConditionIsNotAnotherEndState(t *testing.T) {
	type state struct{ Conditions store.Conditions }
	world := func() simtest.World {
		w := worldOf(simtest.System{}, nil)
		w.Systems[0] = systemOf(func(env *simtest.Env) []simtest.Part {
			_, from := simtest.Mirror[number](env, "from")
			tos := simtest.Open[state](env, "to")
			return []simtest.Part{loopOf("copy", from, just(func(ctx context.Context, key string) error {
				o, ok := from.Get(key)
				if !ok {
					return nil
				}
				_, err := store.CreateOrUpdate(ctx, tos, key, func(to *store.Object[state]) error {
					to.Value.Conditions.Set(store.Condition{Type: "Ready", OK: o.Value.N > 1, Generation: o.Generation})
					return nil
				})
				return err
			}))}
		})
		return w
	}
	report := simtest.Explore(t, world)
	none(t, report.Failures)
	require.Greater(t, report.Plans, 20)
}

// Creation times of objects of two steps differ, with faults and without.
func TestTimePassesBetweenSteps(t *testing.T) {
	w := worldOf(simtest.System{}, func(context.Context, stores, string) error { return nil })
	w.Steps = []simtest.Step{create("from", "a", 1), create("from", "b", 1)}
	var created []time.Time
	w.Goal = func(v *simtest.View) error {
		for _, o := range simtest.List[number](v, "from") {
			created = append(created, o.Created)
		}
		return nil
	}
	require.Nil(t, simtest.Replay(t, func() simtest.World { created = nil; return w }, nil))
	require.Len(t, created, 2)
	assert.True(t, created[1].After(created[0]))
}

// A step waits for a system that hangs for longer than the horizon.
func TestStepIsPatientWhileSystemHangs(t *testing.T) {
	inModes(t, func(t *testing.T, mode string) {
		world := inMode(mode, func() simtest.World {
			w := copier()
			w.Steps = append(w.Steps, simtest.Step{Name: "wait", Do: func(ctx context.Context, u *simtest.User) error {
				if o, err := simtest.Open[number](u, "to").Get(ctx, "a"); err != nil || o.Value.N != 2 {
					return simtest.ErrNotYet
				}
				return nil
			}})
			return w
		})
		none(t, simtest.Explore(t, world).Failures)
	})
}

// explode are the functions of a world that break it, by the text that the report has.
var explode = map[string]func(boom func()) simtest.World{
	"the function that makes the world": func(boom func()) simtest.World { boom(); return simtest.World{} },
	"New of system s": func(boom func()) simtest.World {
		w := copier()
		w.Systems[0].New = func(*simtest.Env) ([]simtest.Part, error) { boom(); return nil, nil }
		return w
	},
	`step "create"`: func(boom func()) simtest.World {
		w := copier()
		w.Steps[0].Do = func(context.Context, *simtest.User) error { boom(); return nil }
		return w
	},
	"World.Always": func(boom func()) simtest.World {
		w := copier()
		w.Always = func(*simtest.View) error { boom(); return nil }
		return w
	},
	"World.Goal": func(boom func()) simtest.World {
		w := copier()
		w.Goal = func(*simtest.View) error { boom(); return nil }
		return w
	},
}

func TestPanicOfTheWorldIsReported(t *testing.T) {
	inModes(t, func(t *testing.T, mode string) {
		for what, world := range explode {
			f := simtest.Replay(t, inMode(mode, func() simtest.World { return world(func() { var w []string; _ = w[len(what)] }) }), nil)
			require.NotNil(t, f, what)
			assert.EqualValues(t, "world", f.Rule)
			assert.Contains(t, f.Problem, what+" panicked: runtime error: index out of range")
			require.NotEmpty(t, f.Stack, what)
			assert.Contains(t, strings.Join(f.Stack, "\n"), "more_test.go:")
			assert.Contains(t, f.String(), "\n  at ")
		}
	})
}

// FailNow ends a goroutine, and so would the run. The test that is passed to FailNow fails, which is right.
func TestFailNowInTheWorldIsReported(t *testing.T) {
	inModes(t, func(t *testing.T, mode string) {
		for what, world := range explode {
			f := simtest.Replay(t, inMode(mode, func() simtest.World { return world(new(testing.T).FailNow) }), nil)
			require.NotNil(t, f, what)
			assert.Contains(t, f.Problem, what+" has ended its goroutine")
		}
	})
}

// Nothing but a real deadlock can end the bubble of a function that waits for ever.
func TestHangOfTheWorldIsReported(t *testing.T) {
	endsInRealTime(t)
	inModes(t, func(t *testing.T, mode string) {
		for what, world := range explode {
			if what == "World.Always" { // it hangs within a call of a reconcile, or of a step
				continue
			}
			f := simtest.Replay(t, inMode(mode, func() simtest.World { return world(func() { <-make(chan int) }) }), nil)
			require.NotNil(t, f, what)
			if what == "the function that makes the world" {
				assert.Contains(t, f.Problem, "the run hangs: deadlock")
			} else {
				assert.Contains(t, f.Problem, what+" has not returned after 3h")
			}
		}
	})
}

func TestStuckOrphanIsReportedOnce(t *testing.T) {
	world := func() simtest.World {
		w := worldOf(simtest.System{}, func(ctx context.Context, s stores, key string) error {
			o, ok := s.from.Get(key)
			if !ok {
				return nil
			}
			_, err := s.tos.Create(ctx, store.Object[number]{
				Key: key, Owners: []store.OwnerRef{{Ref: o.Ref(), Controller: true}}, Finalizers: []string{"nobody/removes"},
			})
			return ignore(err, store.ErrExists)
		})
		w.Steps = append(w.Steps[:1], simtest.Step{Name: "delete", Do: func(ctx context.Context, u *simtest.User) error {
			if _, err := simtest.Open[number](u, "to").Delete(ctx, "a"); errors.Is(err, store.ErrNotFound) {
				return simtest.ErrNotYet
			} else if err != nil {
				return err
			}
			_, err := simtest.Open[number](u, "from").Delete(ctx, "a")
			return err
		}})
		w.Pairs = -1
		return w
	}
	report := simtest.Explore(t, world)
	assert.Empty(t, of(report.Failures, "orphan"), "%v", report.Failures)
}

func TestTimelineFoldsRetries(t *testing.T) {
	f := simtest.Replay(t, func() simtest.World {
		return worldOf(simtest.System{}, func(context.Context, stores, string) error { return errors.New("no route to host") })
	}, nil)
	require.NotNil(t, f)
	assert.Regexp(t, `\.\.\. the 2 lines repeat, \d+ times in all, until `, f.Timeline)
	assert.LessOrEqual(t, strings.Count(f.Timeline, "\n"), 16, f.Timeline)
}
