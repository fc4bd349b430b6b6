package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/setpoint-go/setpoint/events"
	"github.com/setpoint-go/setpoint/examples/tenants/cloud"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/fence"
	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/simtest"
	"github.com/setpoint-go/setpoint/store"
)

// The kinds of what is no object of the program: the rows of the table, and what is in the cloud.
const (
	kindRow   = "row"
	kindCloud = "cloud"
)

// simCloud is the cloud of a simulation: it outlives the processes of the program, and each of them has its own way to it.
type simCloud struct {
	fence     fence.Guard
	resources store.Store[cloud.Resource] // without faults
	calls     []string                    // that have arrived
	rows      store.Store[Row]            // without faults
	madeFor   map[string]string           // the UID of the row, by that of the Resource
	harm      string                      // what must not happen even for a moment, and has
	lives     []string                    // UIDs, in the order in which they came: they are random, and a simulation is not
}

// life returns the number of a UID.
func (c *simCloud) life(uid string) string {
	if !slices.Contains(c.lives, uid) {
		c.lives = append(c.lives, uid)
	}
	return fmt.Sprintf("life-%d", slices.Index(c.lives, uid))
}

// simCaller is the way of a process to the cloud. Each call is an effect, which may be lost, or late.
type simCaller struct {
	*simCloud
	env *simtest.Env
}

func (c simCaller) Put(ctx context.Context, r store.Object[Resource]) (revision informer.Version, err error) {
	err = c.call(ctx, "put "+r.Key, func(ctx context.Context) error {
		if r.Value.Region == "moon" {
			return retry.Permanent(errors.New("there is no region moon"))
		}
		o, err := store.CreateOrUpdate(ctx, c.resources, r.Key, func(o *store.Object[cloud.Resource]) error {
			if o.UID != "" && o.Value.Owner != c.life(r.UID) {
				return fmt.Errorf("it belongs to %s", o.Value.Owner)
			}
			o.Value = cloud.Resource{Key: r.Key, Kind: r.Value.Kind, Region: r.Value.Region, Owner: c.life(r.UID)}
			return nil
		})
		revision = o.Version
		if row, found := c.rows.Get(ctx, tenantOf(r.Key)); found == nil && c.madeFor[r.UID] == "" {
			c.madeFor[r.UID] = row.UID
		}
		return err
	})
	return revision, err
}

func (c simCaller) Delete(ctx context.Context, r store.Object[Resource]) error {
	return c.call(ctx, "remove "+r.Key, func(ctx context.Context) error {
		o, err := c.resources.Get(ctx, r.Key)
		if err == nil && o.Value.Owner == c.life(r.UID) {
			row, found := c.rows.Get(ctx, tenantOf(r.Key))
			if found == nil && row.UID == c.madeFor[r.UID] && slices.Contains(plans[row.Value.Plan], r.Value.Kind) {
				c.harm = r.Key + " is removed, and its row wants it"
			}
			_, err = c.resources.Delete(ctx, r.Key)
		}
		return ignore(err, store.ErrNotFound)
	})
}

// call does what the cloud does: it refuses former leaders.
func (c simCaller) call(ctx context.Context, name string, do func(context.Context) error) error {
	return c.env.Effect(ctx, name, func(ctx context.Context) error {
		c.calls = append(c.calls, name)
		leads, ok := leaderelect.FromContext(ctx)
		if !ok {
			return errors.New("who are you?")
		}
		err := c.fence.Do(ctx, leads.Term(), func(ctx context.Context) error { return do(store.Unfenced(ctx)) })
		if errors.Is(err, fence.ErrStale) {
			return fmt.Errorf("%w: %w", store.ErrFenced, err)
		}
		return err
	})
}

// simProgram returns the controllers of the program, over the stores of a simulation.
func simProgram(env *simtest.Env, sky *simCloud) ([]simtest.Part, error) {
	quiet := slog.New(slog.DiscardHandler)
	record, err := events.NewRecorder(events.Config{Logger: quiet})
	if err != nil {
		return nil, err
	}
	rows := simtest.Open[Row](env, kindRow)
	ofTenants, ofResources, err := newControllers(world{
		db:   env.Backend(),
		rows: informer.Map(rows, func(o store.Object[Row]) Row { return o.Value }),
		row: func(ctx context.Context, key string) (Row, bool, error) {
			o, err := rows.Get(ctx, key)
			return o.Value, err == nil, ignore(err, store.ErrNotFound)
		},
		cloud: simCaller{sky, env},
		actual: informer.Map(simtest.Open[cloud.Resource](env, kindCloud), func(o store.Object[cloud.Resource]) cloud.Resource {
			return o.Value
		}),
		record: record,
	}, config{lookEach: 3 * time.Second, rate: float64(rate.Inf), log: quiet})
	return []simtest.Part{simtest.Loop(ofTenants), simtest.Loop(ofResources)}, err
}

// set is a step in which a user writes a row.
func set(plan, region string) simtest.Step {
	return simtest.Step{Name: "the row says " + plan + " in " + region, Do: func(ctx context.Context, user *simtest.User) error {
		_, err := store.CreateOrUpdate(ctx, simtest.Open[Row](user, kindRow), "acme/shop", func(o *store.Object[Row]) error {
			o.Value = Row{Customer: "acme", Name: "shop", Plan: plan, Region: region}
			return nil
		})
		return err
	}}
}

// remove is a step in which a user deletes the row.
func remove() simtest.Step {
	return simtest.Step{Name: "the row is deleted", Do: func(ctx context.Context, user *simtest.User) error {
		_, err := simtest.Open[Row](user, kindRow).Delete(ctx, "acme/shop")
		return err
	}}
}

// lose is a step in which the cloud loses something.
func lose(key string) simtest.Step {
	return simtest.Step{Name: "the cloud loses " + key, Do: func(ctx context.Context, user *simtest.User) error {
		_, err := simtest.Open[cloud.Resource](user, kindCloud).Delete(ctx, key)
		return ignore(err, store.ErrNotFound)
	}}
}

// simWorld is simStory without its cloud.
func simWorld(plan, region string, steps ...simtest.Step) simtest.World {
	w, _ := simStory(plan, region, steps...)
	return w
}

// simStory is the program under faults, while somebody does some things. In the end the row should be of a plan and a region, or be
// gone if the plan is empty.
func simStory(plan, region string, steps ...simtest.Step) (simtest.World, *simCloud) {
	sky := &simCloud{madeFor: make(map[string]string)}
	return simtest.World{
		Systems: []simtest.System{
			{Name: "sky", Trusted: true, New: func(env *simtest.Env) ([]simtest.Part, error) {
				sky.resources, sky.rows = simtest.Open[cloud.Resource](env, kindCloud), simtest.Open[Row](env, kindRow)
				return nil, nil
			}},
			{Name: "tenants", Lease: "tenants", New: func(env *simtest.Env) ([]simtest.Part, error) { return simProgram(env, sky) }},
		},
		Steps: steps,
		Always: func(*simtest.View) error {
			if sky.harm != "" {
				return errors.New(sky.harm)
			}
			return nil
		},
		Goal: func(v *simtest.View) error { return simGoal(v, sky, plan, region) },
	}, sky
}

// simGoal returns an error unless the cloud has exactly what the row says, and the status says so.
func simGoal(v *simtest.View, sky *simCloud, plan, region string) error {
	inSky := simtest.List[cloud.Resource](v, kindCloud)
	objects := simtest.List[Resource](v, kindResource)
	tenants := simtest.List[Tenant](v, kindTenant)
	kinds := plans[plan]
	if len(inSky) != len(kinds) || len(objects) != len(kinds) || len(tenants) != min(len(kinds), 1) {
		return fmt.Errorf("the cloud has %v, the program has %d resources and %d tenants", inSky, len(objects), len(tenants))
	}
	for i, r := range inSky {
		o := objects[i]
		if r.Value.Kind != kinds[i] || r.Value.Region != region || r.Value.Owner != sky.life(o.UID) || pending(o) {
			return fmt.Errorf("the cloud has %+v for %+v", r.Value, o)
		}
	}
	for _, t := range tenants {
		if !t.Value.Conditions.AllOK(t.Generation, "Ready") {
			return fmt.Errorf("the status is %+v", t.Value.Conditions)
		}
	}
	return nil
}

var stories = map[string]func() simtest.World{
	"a resource is created, moved, and deleted": func() simtest.World {
		return simWorld("", "", set("free", "eu"), set("free", "us"), remove())
	},
	"it grows and shrinks": func() simtest.World {
		return simWorld("free", "eu", set("free", "eu"), set("pro", "eu"), set("free", "eu"))
	},
	"a mistake is undone": func() simtest.World {
		return simWorld("free", "eu", set("free", "eu"), set("gold", "eu"), set("free", "eu"))
	},
	"the cloud forgets": func() simtest.World {
		return simWorld("free", "eu", set("free", "eu"), lose("acme/shop/bucket"))
	},
	"a resource is deleted and recreated": func() simtest.World {
		return simWorld("free", "us", set("free", "eu"), remove(), set("free", "us"))
	},
	"it is refused, and corrected": func() simtest.World {
		return simWorld("free", "eu", set("free", "moon"), set("gold", "eu"), set("free", "eu"))
	},
}

var pairs = flag.Int("pairs", 20, "how many pairs of faults to try in each story")

// told are the stories that TestTenantsSurviveFaults tells: all, without the race detector.
var told = slices.Sorted(maps.Keys(stories))

func TestTenantsSurviveFaults(t *testing.T) {
	for _, name := range told {
		world := stories[name]
		t.Run(strings.ReplaceAll(name, ",", ""), func(t *testing.T) {
			simtest.Run(t, func() simtest.World {
				w := world()
				w.Pairs = *pairs
				return w
			})
		})
	}
}

func TestTenantsSurviveFaultsWithManager(t *testing.T) {
	simtest.Run(t, func() simtest.World {
		w := stories["a resource is created, moved, and deleted"]()
		w.Mode, w.Pairs = "run", -1
		return w
	})
}

// The cloud allows few calls, so none is made unnecessarily: not for a status, not for a resource that a list shows,
// and not twice.
func TestEachChangeIsOneCall(t *testing.T) {
	var sky *simCloud
	require.Nil(t, simtest.Replay(t, func() simtest.World {
		var w simtest.World
		w, sky = simStory("", "", set("free", "eu"), set("free", "us"), lose("acme/shop/bucket"), set("pro", "us"), remove())
		return w
	}, nil))
	require.Equal(t, []string{
		"put acme/shop/bucket", "put acme/shop/bucket", "put acme/shop/bucket", "put acme/shop/database", "put acme/shop/dns",
		"remove acme/shop/bucket", "remove acme/shop/database", "remove acme/shop/dns",
	}, sky.calls)
}

// A list of the cloud says nothing about resources created after it. Otherwise, every resource would be created
// twice.
func TestOlderListSaysNothingAboutNewerResources(t *testing.T) {
	r := store.Object[Resource]{Generation: 3, Value: Resource{Kind: "bucket", Region: "eu", Revision: 7}}
	r.Value.Conditions.Set(store.Condition{Type: "InCloud", OK: true, Generation: 3})
	there := cloud.Resource{Kind: "bucket", Region: "eu"}
	require.False(t, lost(r, cloud.Resource{}, 6), "the list is older")
	require.True(t, lost(r, cloud.Resource{}, 7), "it has vanished")
	require.True(t, lost(r, cloud.Resource{Kind: "bucket", Region: "us"}, 7), "another client has moved it")
	require.False(t, lost(r, there, 7))
	r.Generation = 4
	require.False(t, lost(r, cloud.Resource{}, 7), "it is about to be created anyway")
}
