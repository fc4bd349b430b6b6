package simtest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/manager"
	"github.com/setpoint-go/setpoint/simtest"
	"github.com/setpoint-go/setpoint/store"
)

// The same process leads again, with its memory. Its call of the former term arrives while it leads again.
func TestLeaderLeadsAgainWithNextTerm(t *testing.T) {
	for _, mode := range []string{"step", "run"} {
		t.Run(mode, func(t *testing.T) {
			calls := make(map[string]int)
			world := inMode(mode, func() simtest.World {
				return worldOf(simtest.System{Lease: "main"}, func(ctx context.Context, s stores, key string) error {
					o, ok := s.from.Get(key)
					if !ok {
						return nil
					}
					return s.env.Effect(ctx, "tell", func(ctx context.Context) error {
						l, ok := leaderelect.FromContext(ctx)
						require.True(t, ok)
						calls[fmt.Sprintf("%d by term %d, which lasts: %v", o.Value.N, l.Term(), l.Err() == nil)]++
						return nil
					})
				})
			})
			text := simtest.Timeline(t, world, "regain(s effect tell#1)")
			t.Log("\n" + text)
			inOrder(t, text, "STEP create", "s.1 FAULT it loses its lease", "s.2 starts", "s.2 tell", "s.1 learns that it has lost its lease",
				"s.1 leads again", "s.1 copy: reconcile a", "s.1 tell", "STEP change", "s.1 tell", `s.1 its call "tell" arrives`)
			require.Equal(t, map[string]int{
				"1 by term 2, which lasts: true": 1, "1 by term 3, which lasts: true": 1, "2 by term 3, which lasts: true": 1,
				"1 by term 1, which lasts: false": 1,
			}, calls)
			require.Equal(t, 1, strings.Count(text, "starts"))
			before, _, _ := strings.Cut(text, "STEP change")
			require.NotRegexp(t, `(?m)^ *[1-9]\S* `, before, "no time passes")

			text = simtest.Timeline(t, world, "regain(s effect tell#1) crash-after(s effect tell#4)")
			inOrder(t, text, "s.1 leads again", "STEP change", "s.1 tell", "s.1 CRASH", "s.3 starts", "s.3 tell")
			require.Equal(t, 2, calls["2 by term 3, which lasts: true"])
			text = simtest.Timeline(t, world, "regain(s effect tell#1) regain(s effect tell#3)")
			inOrder(t, text, "s.1 leads again", "s.1 FAULT it loses its lease", "s.3 starts", "s.1 leads again", "STEP change",
				"arrives", "arrives")

			world = inMode(mode, func() simtest.World { return worldOf(simtest.System{Lease: "main"}, overwrite) })
			text = simtest.Timeline(t, world, "regain(s create to/a#1)")
			inOrder(t, text, "s.2 create to/a", "s.1 leads again", "STEP change", "s.1 update to/a", "s.1 refused: to/a", "term 1",
				`s.1 its call "create to/a" arrives: `)
		})
	}
}

// The receiver reads the leader from a store and compares names. So it mistakes a call of the former term for one of
// the current leader.
func TestReceiverIdentifyingLeadersByNameIsFound(t *testing.T) {
	for _, mode := range []string{"step", "run"} {
		report := simtest.Explore(t, func() simtest.World {
			told, processes := 0, 0
			var truth store.Store[number]
			w := worldOf(simtest.System{Lease: "main"}, nil)
			w.Mode, w.Pairs = mode, -1
			w.Systems[0].New = func(env *simtest.Env) ([]simtest.Part, error) {
				quiet := slog.New(slog.DiscardHandler)
				leaders := simtest.Open[number](env, "leader")
				from, err := informer.New(simtest.Open[number](env, "from"), store.Key, informer.Config{Name: "from", Logger: quiet})
				if err != nil {
					return nil, err
				}
				processes++
				name := processes
				c, err := controller.New("tell", func(ctx context.Context, key string) (controller.Result, error) {
					o, ok := from.Get(key)
					if !ok {
						return controller.Result{}, nil
					}
					_, err := store.CreateOrUpdate(ctx, leaders, nil, "main", func(l *store.Object[number]) error { l.Value.N = name; return nil })
					if err != nil {
						return controller.Result{}, err
					}
					return controller.Result{}, env.Effect(ctx, "tell", func(ctx context.Context) error {
						if l, err := truth.Get(ctx, "main"); err != nil || l.Value.N != name {
							return errors.New("another process leads")
						}
						told = o.Value.N
						return nil
					})
				}, controller.Config[string]{Logger: quiet}, controller.For(from))
				return []simtest.Part{simtest.Loop(c)}, err
			}
			w.Systems = append(w.Systems, simtest.System{Name: "receiver", Trusted: true, New: func(env *simtest.Env) ([]simtest.Part, error) {
				truth = simtest.Open[number](env, "leader")
				return nil, nil
			}})
			w.Goal = func(*simtest.View) error {
				if told != 2 {
					return fmt.Errorf("the receiver was told %d last", told)
				}
				return nil
			}
			return w
		})
		require.Len(t, report.Failures, 1)
		require.Equal(t, "regain(s effect tell#1)", report.Failures[0].Plan.String())
		require.Empty(t, report.Failures[0].More, "nothing else finds it")
	}
}

// worker is a part of stage Leading that makes one call in each term, and ends as it should.
type worker struct{ env *simtest.Env }

func (worker) Name() string { return "worker" }

func (w worker) Run(ctx context.Context) error {
	err := w.env.Effect(ctx, "begin", func(context.Context) error { return nil })
	<-ctx.Done()
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// A part in the background that needs the lease ends with it, and runs again in the next term.
func TestBackgroundPartRunsOncePerTerm(t *testing.T) {
	for _, mode := range []string{"step", "run"} {
		world := func() simtest.World {
			w := copier()
			w.Mode = mode
			make := w.Systems[0].New
			w.Systems[0].Lease = "main"
			w.Systems[0].New = func(env *simtest.Env) ([]simtest.Part, error) {
				parts, err := make(env)
				return append(parts, simtest.Background(manager.At(manager.Leading, worker{env}))), err
			}
			return w
		}
		for plan, begins := range map[string]int{
			"": 1, "lose-lease(s create to/a#1)": 2,
			"regain(s create to/a#1)": 3, "regain(s create to/a#1) regain(s update to/a#1)": 5,
		} {
			text := simtest.Timeline(t, world, plan)
			require.Equal(t, begins, strings.Count(text, " begin\n"), "mode %s, plan %q:\n%s", mode, plan, text)
			require.NotContains(t, text, "by itself")
		}
	}
}

// A process that leads for the second time does not notice immediately when it loses its lease again.
func TestReelectedLeaderMayLoseItsLeaseAgain(t *testing.T) {
	for _, mode := range []string{"step", "run"} {
		world := inMode(mode, func() simtest.World {
			return worldOf(simtest.System{Lease: "main"}, func(ctx context.Context, s stores, key string) error {
				if _, ok := s.from.Get(key); !ok {
					return nil
				}
				return s.env.Effect(ctx, "tell", func(context.Context) error { return nil })
			})
		})
		text := simtest.Timeline(t, world, "regain(s effect tell#1) lose-lease(s effect tell#3)")
		inOrder(t, text, "s.1 leads again", "s.1 FAULT it loses its lease", "s.3 starts", "s.3 tell", "s.1 its call continues", "s.1 tell",
			"STEP change", "s.1 copy: reconcile a", "s.1 tell", "s.1 learns that it has lost its lease, and ends")
	}
}

// lingerer is a part of stage Leading that takes a while to end.
type lingerer struct{}

func (lingerer) Name() string { return "lingerer" }

func (lingerer) Run(ctx context.Context) error {
	<-ctx.Done()
	time.Sleep(5 * time.Second)
	return nil
}

// A process leads again only after all parts of its former term have ended.
func TestTermStartsAfterPartsOfPreviousTermEnd(t *testing.T) {
	for _, mode := range []string{"step", "run"} {
		world := func() simtest.World {
			w := copier()
			w.Mode = mode
			inner := w.Systems[0].New
			w.Systems[0].Lease = "main"
			w.Systems[0].New = func(env *simtest.Env) ([]simtest.Part, error) {
				parts, err := inner(env)
				return append(parts, simtest.Background(manager.At(manager.Leading, lingerer{}))), err
			}
			return w
		}
		text := simtest.Timeline(t, world, "regain(s create to/a#1)")
		require.Regexp(t, `(?m)^ *7m3s +s\.1 +learns that it has lost its lease, and stands by$`, text, mode)
		require.NotRegexp(t, `(?m)^ *7m3s +s\.2 +(CRASH|FAULT)`, text, "mode %s: the successor ends so that s.1 can lead, which still ends its parts", mode)
		require.Contains(t, text, "leads again")
	}
}
