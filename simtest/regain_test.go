package simtest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/manager"
	"github.com/setpoint-go/setpoint/simtest"
	"github.com/setpoint-go/setpoint/store"
)

// The same process leads again, with its memory. Its call of the former term arrives while it leads again.
func TestLeaderLeadsAgainWithNextTerm(t *testing.T) {
	inModes(t, func(t *testing.T, mode string) {
		calls := make(map[string]int)
		world := inMode(mode, func() simtest.World {
			return worldOf(simtest.System{Lease: "main"}, func(ctx context.Context, s stores, key string) error {
				o, ok := s.from.Get(key)
				if !ok {
					return nil
				}
				return s.env.Effect(ctx, "report", func(ctx context.Context) error {
					l, ok := leaderelect.FromContext(ctx)
					require.True(t, ok)
					calls[fmt.Sprintf("%d by term %d, which lasts: %v", o.Value.N, l.Term(), l.Err() == nil)]++
					return nil
				})
			})
		})
		text := simtest.Timeline(t, world, "regain(s effect report#1)")
		t.Log("\n" + text)
		inOrder(t, text, "STEP create", "s.1 FAULT it loses its lease", "s.2 starts", "s.2 report", "s.1 notices that it has lost its lease",
			"s.1 leads again", "s.1 copy: reconcile a", "s.1 report", "STEP change", "s.1 report", `s.1 its call "report" arrives`)
		require.Equal(t, map[string]int{
			"1 by term 2, which lasts: true": 1, "1 by term 3, which lasts: true": 1, "2 by term 3, which lasts: true": 1,
			"1 by term 1, which lasts: false": 1,
		}, calls)
		require.Equal(t, 1, strings.Count(text, "starts"))
		before, _, _ := strings.Cut(text, "user  STEP change")
		require.NotRegexp(t, `(?m)^ *[1-9]\S* +s`, before, "no time passes")

		text = simtest.Timeline(t, world, "regain(s effect report#1) crash-after(s effect report#4)")
		inOrder(t, text, "s.1 leads again", "STEP change", "s.1 report", "s.1 CRASH", "s.3 starts", "s.3 report")
		require.Equal(t, 2, calls["2 by term 3, which lasts: true"])
		text = simtest.Timeline(t, world, "regain(s effect report#1) regain(s effect report#3)")
		inOrder(t, text, "s.1 leads again", "s.1 FAULT it loses its lease", "s.3 starts", "s.1 leads again", "STEP change",
			"arrives", "arrives")

		// Its successor dies and stays down, so that the lease is free when it notices the loss. Another process starts in place of both.
		text = simtest.Timeline(t, world, "regain(s effect report#1) down(s effect report#2)")
		inOrder(t, text, "s.2 CRASH", "s.1 notices that it has lost its lease, and stands by", "s.1 ends", "STEP change", "s.3 starts",
			"s.3 report")

		world = inMode(mode, func() simtest.World { return worldOf(simtest.System{Lease: "main"}, overwrite) })
		text = simtest.Timeline(t, world, "regain(s create to/a#1)")
		inOrder(t, text, "s.2 create to/a", "s.1 leads again", "STEP change", "s.1 update to/a", "s.1 refused: to/a", "term 1",
			`s.1 its call "create to/a" arrives: `)
	})
}

// The receiver reads the leader from a store and compares names. So it mistakes a call of the former term for one of
// the current leader.
func TestReceiverIdentifyingLeadersByNameIsFound(t *testing.T) {
	inModes(t, func(t *testing.T, mode string) {
		report := simtest.Explore(t, func() simtest.World {
			last, processes := 0, 0
			var truth store.Store[number]
			system := systemOf(func(env *simtest.Env) []simtest.Part {
				leaders := simtest.Open[number](env, "leader")
				_, from := simtest.Mirror[number](env, "from")
				processes++
				name := processes
				return []simtest.Part{loopOf("report", from, just(func(ctx context.Context, key string) error {
					o, ok := from.Get(key)
					if !ok {
						return nil
					}
					if err := put(ctx, leaders, "main", name); err != nil {
						return err
					}
					return env.Effect(ctx, "report", func(ctx context.Context) error {
						if l, err := truth.Get(ctx, "main"); err != nil || l.Value.N != name {
							return errors.New("another process leads")
						}
						last = o.Value.N
						return nil
					})
				}))}
			})
			system.Lease = "main"
			receiver := simtest.System{Name: "receiver", Trusted: true, New: func(env *simtest.Env) ([]simtest.Part, error) {
				truth = simtest.Open[number](env, "leader")
				return nil, nil
			}}
			w := worldWith(mode, system, receiver)
			w.Pairs = -1
			w.Goal = func(*simtest.View) error {
				if last != 2 {
					return fmt.Errorf("the receiver has %d", last)
				}
				return nil
			}
			return w
		})
		require.Len(t, report.Failures, 1)
		require.Equal(t, "regain(s effect report#1)", report.Failures[0].Plan.String())
		require.Empty(t, report.Failures[0].More, "nothing else finds it")
	})
}

// copierWith returns the world of a copier that has a leader, and a part of stage Leading.
func copierWith(mode string, part func(env *simtest.Env) runs) func() simtest.World {
	return func() simtest.World {
		w := inMode(mode, copier)()
		copies := w.Systems[0].New
		w.Systems[0].Lease = "main"
		w.Systems[0].New = func(env *simtest.Env) ([]simtest.Part, error) {
			parts, err := copies(env)
			return append(parts, simtest.Background(manager.At(manager.Leading, part(env)))), err
		}
		return w
	}
}

// A part in the background that needs the lease ends with it, and runs again in the next term.
func TestBackgroundPartRunsOncePerTerm(t *testing.T) {
	inModes(t, func(t *testing.T, mode string) {
		world := copierWith(mode, func(env *simtest.Env) runs {
			return func(ctx context.Context) error {
				_ = env.Effect(ctx, "begin", func(context.Context) error { return nil })
				<-ctx.Done()
				return nil
			}
		})
		for plan, begins := range map[string]int{
			"": 1, "lose-lease(s create to/a#1)": 2,
			"regain(s create to/a#1)": 3, "regain(s create to/a#1) regain(s update to/a#1)": 5,
		} {
			text := simtest.Timeline(t, world, plan)
			require.Equal(t, begins, strings.Count(text, " begin\n"), "plan %q:\n%s", plan, text)
			require.NotContains(t, text, "by itself")
		}
	})
}

// A process leads again only after all parts of its former term have ended.
func TestTermStartsAfterPartsOfPreviousTermEnd(t *testing.T) {
	inModes(t, func(t *testing.T, mode string) {
		world := copierWith(mode, func(*simtest.Env) runs {
			return func(ctx context.Context) error {
				<-ctx.Done()
				time.Sleep(5 * time.Second)
				return nil
			}
		})
		text := simtest.Timeline(t, world, "regain(s create to/a#1)")
		require.Regexp(t, `(?m)^ *7m3s +s\.1 +notices that it has lost its lease, and stands by$`, text)
		require.NotRegexp(t, `(?m)^ *7m3s +s\.2 +(CRASH|FAULT)`, text, "the successor ends so that s.1 can lead, which still ends its parts")
		require.Contains(t, text, "leads again")
	})
}

// A process that leads for the second time does not notice immediately when it loses its lease again.
func TestReelectedLeaderMayLoseItsLeaseAgain(t *testing.T) {
	inModes(t, func(t *testing.T, mode string) {
		world := inMode(mode, func() simtest.World {
			return worldOf(simtest.System{Lease: "main"}, func(ctx context.Context, s stores, key string) error {
				if _, ok := s.from.Get(key); !ok {
					return nil
				}
				return s.report(ctx)
			})
		})
		text := simtest.Timeline(t, world, "regain(s effect report#1) lose-lease(s effect report#3)")
		inOrder(t, text, "s.1 leads again", "s.1 FAULT it loses its lease", "s.3 starts", "s.3 report", "s.1 its call continues", "s.1 report",
			"STEP change", "s.1 copy: reconcile a", "s.1 report", "s.1 notices that it has lost its lease, and ends")
	})
}
