package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/setpoint-go/setpoint/owner"
	"github.com/setpoint-go/setpoint/simtest"
	"github.com/setpoint-go/setpoint/store"
)

// A plan runs one goroutine at a time. A second processor would look for work in vain, and take a quarter of the CPU time.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(400) // a plan leaves little alive
	os.Exit(m.Run())
}

func Example() {
	main()
	// Output:
	// its servers go after the site: 0 are left
	// they go before it: 0 are left
	// they stay: 2 are left
}

// Whatever fails, the servers of a site are there while it lives, and follow its policy when it is deleted. The flag
// -simtest.mode=run tries all policies in run mode.
func TestSitesSurviveFaults(t *testing.T) {
	for _, c := range []struct {
		policy owner.Policy
		mode   string
	}{{owner.Background, "step"}, {owner.Foreground, "step"}, {owner.Orphan, "step"}, {owner.Foreground, "run"}} {
		t.Run(fmt.Sprintf("policy=%s mode=%s", c.policy, c.mode), func(t *testing.T) {
			simtest.Run(t, func() simtest.World {
				w := world(c.policy)
				if w.Mode = c.mode; c.mode == "run" { // fewer plans, because each takes longer
					w.Steps, w.Pairs = w.Steps[:2], -1
				}
				return w
			})
		})
	}
}

// A cache may still show a deleted site. A reconcile that trusted the cache would create a server, and the collector
// would delete it, in a loop.
func TestCreatorAndCollectorDoNotFight(t *testing.T) {
	plan, err := simtest.ParsePlan("gap(sites Site/berlin#2 to 3)")
	if err != nil {
		t.Fatal(err)
	}
	if f := simtest.Replay(t, func() simtest.World { return world(owner.Background) }, plan); f != nil {
		t.Error(f)
	}
}

// world is one in which a user deletes a site, while another user deletes one of its servers, and creates and deletes it again.
func world(policy owner.Policy) simtest.World {
	create := func(ctx context.Context, user *simtest.User) error {
		_, err := simtest.Open[Site](user, "Site").Create(ctx, store.Object[Site]{Key: "berlin", Value: Site{Servers: 2}})
		if errors.Is(err, store.ErrExists) {
			return simtest.ErrNotYet
		}
		return err
	}
	remove := func(ctx context.Context, user *simtest.User) error {
		return owner.Delete(ctx, simtest.Open[Site](user, "Site"), "berlin", policy)
	}
	w := simtest.World{
		Systems: []simtest.System{{Name: "sites", New: func(env *simtest.Env) ([]simtest.Part, error) {
			c, collector, err := controllers(simtest.Open[Site](env, "Site"), simtest.Open[Server](env, "Server"))
			return []simtest.Part{simtest.Loop(c), simtest.Loop(collector)}, err
		}}},
		Steps: []simtest.Step{
			{Name: "create", Do: create},
			{Name: "delete", Do: func(ctx context.Context, user *simtest.User) error {
				_, err := simtest.Open[Server](user, "Server").Delete(ctx, "berlin-0")
				if errors.Is(err, store.ErrNotFound) {
					err = nil
				}
				return errors.Join(err, remove(ctx, user))
			}},
			{Name: "create again", Do: create},
			{Name: "delete again", Do: remove},
		},
		Goal:  func(v *simtest.View) error { return goal(v, policy) },
		Pairs: 20,
	}
	if policy == owner.Orphan {
		w.Steps = w.Steps[:2] // the next site of that name would find servers that nobody controls, which Apply leaves alone
	}
	return w
}

// goal returns an error unless the site is gone, and its servers are gone too, or have no owner.
func goal(v *simtest.View, policy owner.Policy) error {
	ctx := context.Background()
	if _, err := simtest.Open[Site](v, "Site").Get(ctx, "berlin"); !errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("the site is not gone: %v", err)
	}
	servers := simtest.List[Server](v, "Server")
	n, err := owned(ctx, simtest.Open[Server](v, "Server"))
	if err == nil && (n > 0 || policy != owner.Orphan && len(servers) > 0) {
		err = fmt.Errorf("%d servers are left, %d of them with an owner", len(servers), n)
	}
	return err
}
