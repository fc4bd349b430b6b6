package simtest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/poll"
	"github.com/setpoint-go/setpoint/simtest"
	"github.com/setpoint-go/setpoint/store"
)

// polledBy returns an informer that polls a store of the kit. With a negative interval, it polls only once.
func polledBy[T any](s store.Store[T], name string, interval time.Duration, versions bool) (*store.Informer[T], error) {
	quiet := slog.New(slog.DiscardHandler)
	cfg := poll.Config[store.Object[T]]{Interval: interval}
	if versions {
		cfg.Version = func(ctx context.Context) (informer.Version, error) {
			all, err := s.List(ctx)
			return all.Version, err
		}
	}
	source, err := poll.New(func(ctx context.Context) ([]store.Object[T], error) {
		all, err := s.List(ctx)
		return all.Items, err
	}, store.Key, cfg)
	if err != nil {
		return nil, err
	}
	return informer.New(source, store.Key, informer.Config{Name: name, Logger: quiet})
}

// polling is a world in which a controller creates and deletes the servers of a site. It polls both kinds.
type polling struct {
	sites, servers time.Duration // the intervals
	unversioned    bool          // without poll.Config.Version
	lease          string
	forgets        bool // a bug: an error counts as success if the reply or the request was lost
}

func (p polling) world() simtest.World {
	resize := func(n int) simtest.Step {
		return simtest.Step{Name: fmt.Sprint("resize to ", n), Do: func(ctx context.Context, user *simtest.User) error {
			_, err := store.CreateOrUpdate(ctx, simtest.Open[Site](user, "site"), "a", func(o *store.Object[Site]) error {
				o.Value.Servers = n
				return nil
			})
			return err
		}}
	}
	return simtest.World{
		Systems: []simtest.System{{Name: "sites", Lease: p.lease, New: p.parts}},
		Steps:   []simtest.Step{resize(2), resize(1), resize(3)},
		Pairs:   -1,
	}
}

func (p polling) parts(env *simtest.Env) ([]simtest.Part, error) {
	servers := simtest.Open[Server](env, "server")
	seen, err1 := polledBy(simtest.Open[Site](env, "site"), "sites", p.sites, !p.unversioned)
	there, err2 := polledBy(servers, "servers", p.servers, !p.unversioned)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	c, err := controller.New("sites", func(ctx context.Context, key string) (controller.Result, error) {
		site, ok := seen.Get(key)
		if !ok {
			return controller.Result{}, nil
		}
		wanted := make(map[string]bool)
		for i := range site.Value.Servers {
			server := store.Object[Server]{Key: fmt.Sprintf("%s-%d", key, i), Value: Server{Site: key}}
			wanted[server.Key] = true
			if _, ok := there.Get(server.Key); ok {
				continue
			}
			_, err := servers.Create(ctx, server)
			if p.forgets && errors.Is(err, simtest.ErrLost) {
				return controller.Result{}, nil
			}
			if ignore(err, store.ErrExists) != nil {
				return controller.Result{}, err
			}
		}
		for _, o := range there.All() {
			if wanted[o.Key] {
				continue
			}
			if _, err := servers.Delete(ctx, o.Key, store.IfUID(o.UID)); ignore(err, store.ErrNotFound) != nil {
				return controller.Result{}, err
			}
		}
		return controller.Result{}, nil
	}, controller.Config[string]{Logger: slog.New(slog.DiscardHandler)}, controller.For(seen), controller.Watches(there, siteOf))
	return []simtest.Part{simtest.Loop(c)}, err
}

func siteOf(_ context.Context, o store.Object[Server]) ([]string, error) {
	return []string{o.Value.Site}, nil
}

// In run mode, a poll was once noticed only at the end of the horizon. A reconcile that a fault hit then was not repeated.
func TestRetryAfterLatePollIsAwaited(t *testing.T) {
	for _, interval := range []time.Duration{10 * time.Second, 10 * time.Minute} {
		for _, mode := range []string{"step", "run"} {
			world := inMode(mode, polling{sites: interval, servers: time.Second}.world)
			if f := replay(t, world, "lose-request(sites create server/a-2#1)"); f != nil {
				t.Errorf("interval=%v mode=%s: %v", interval, mode, f)
			}
		}
	}
}

// A poll after the horizon is noticed when it happens, and what it leads to is awaited.
func TestWorkAfterLatePollIsAwaited(t *testing.T) {
	inModes(t, func(t *testing.T, mode string) {
		text := simtest.Timeline(t, func() simtest.World {
			w := worldWith(mode, systemOf(func(env *simtest.Env) []simtest.Part {
				tos, waited := simtest.Open[number](env, "to"), false
				from, err := polledBy(simtest.Open[number](env, "from"), "from", 10*time.Minute, true)
				require.NoError(t, err)
				return []simtest.Part{loopOf("c", from, func(ctx context.Context, key string) (controller.Result, error) {
					if !waited {
						waited = true
						return controller.Result{RequeueAfter: 5 * time.Minute}, nil
					}
					return controller.Result{}, ensure(ctx, tos, key)
				})}
			}))
			w.Steps = w.Steps[:1]
			return w
		}, "")
		require.Regexp(t, `1[01]m[\d.]+s +s.1 +c: reconcile a\n +1[56]m[\d.]+s +s.1 +c: reconcile a\n.* create to/a`, text, mode)
	})
}

func TestModesAgreeAboutPolledSources(t *testing.T) {
	for _, p := range []polling{
		{sites: time.Minute, servers: 10 * time.Minute, lease: "main"},
		{sites: 10 * time.Second, servers: 7 * time.Second, forgets: true},
	} {
		t.Run(fmt.Sprintf("%+v", p), func(t *testing.T) {
			ends := make(map[string]func(string) (string, map[string]string))
			plans := make(map[string]bool)
			for _, mode := range []string{"step", "run"} {
				world := inMode(mode, p.world)
				ends[mode] = simtest.Ends(t, world)
				for _, plan := range simtest.Singles(t, world) {
					plans[plan] = true
				}
			}
			require.Greater(t, len(plans), 50)
			wrong := 0
			for _, plan := range slices.Sorted(maps.Keys(plans)) {
				byStep, after := ends["step"](plan)
				byRun, alsoAfter := ends["run"](plan)
				require.Equal(t, byStep, byRun, plan)
				require.Equal(t, after, alsoAfter, plan)
				if byStep != "" {
					wrong++
				}
			}
			require.Equal(t, p.forgets, wrong > 0, "%d plans fail", wrong)
		})
	}
}

// A source that polls only when it is asked to may never show a change.
func TestPollThatNeverComesIsReported(t *testing.T) {
	inModes(t, func(t *testing.T, mode string) {
		f := simtest.Replay(t, inMode(mode, polling{sites: -1, servers: time.Second}.world), nil)
		require.NotNil(t, f, mode)
		require.EqualValues(t, "world", f.Rule, mode)
		require.Equal(t, "without any fault: the cache of site by sites.1 cannot catch up: "+
			"its source has not polled for 3h0m0s; set poll.Config.Interval to less", f.Problem, mode)
	})
}

// Step mode reads event by event. It knows only by the version when it has read the last one.
func TestPolledSourceNeedsVersionInStepMode(t *testing.T) {
	world := polling{sites: 10 * time.Second, servers: 10 * time.Second, unversioned: true}.world
	f := simtest.Replay(t, inMode("step", world), nil)
	require.NotNil(t, f)
	require.EqualValues(t, "world", f.Rule)
	require.Equal(t, "without any fault: the cache of server by sites.1 cannot catch up: "+
		"its source polls, so set poll.Config.Version to the version of the store's list", f.Problem)
	text := simtest.Timeline(t, inMode("run", world), "lose-request(sites create server/a-2#1)")
	inOrder(t, text, "STEP resize to 3", "FAULT the request is lost", "create server/a-2")
	require.NotContains(t, text, "seeing", "each cache shows what its source has listed")
}
