package owner_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/expectations"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/owner"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/wait"
	"github.com/setpoint-go/setpoint/workqueue"
)

// A controller of the ReplicaSet kind: it counts the replicas of an app in its cache, creates what is missing and deletes
// what is too much. The names are new each time, so the store does not keep it from creating too many. What does is that
// it remembers what it has done, and lets an app alone whose replicas the cache does not show as it left them.

// memory is how it remembers: each of the three kinds of expectations is one, and so is to forget.
type memory interface {
	settled(app string) bool
	willCreate(app string, names ...string)
	willDelete(app string, names ...string)
	created(app, name string, version informer.Version, err error) // version is that of the write, if err is nil
	deleted(app, name string, version informer.Version, err error)
	sawCreated(o store.Object[Replica])
	sawDeleted(o store.Object[Replica])
}

type forgetful struct{}

func (forgetful) settled(string) bool                             { return true }
func (forgetful) willCreate(string, ...string)                    {}
func (forgetful) willDelete(string, ...string)                    {}
func (forgetful) created(string, string, informer.Version, error) {}
func (forgetful) deleted(string, string, informer.Version, error) {}
func (forgetful) sawCreated(store.Object[Replica])                {}
func (forgetful) sawDeleted(store.Object[Replica])                {}

// appOf is the key of the app that controls a replica.
func appOf(o store.Object[Replica]) string {
	ref, _ := owner.ControllerOf(o)
	return ref.Key
}

// counting expects so many creations and deletions, and takes one back that has failed.
type counting struct{ exp *expectations.Counted[string] }

func (m counting) settled(app string) bool                { return m.exp.SatisfiedExpectations(app) }
func (m counting) willCreate(app string, names ...string) { m.exp.ExpectCreations(app, len(names)) }
func (m counting) willDelete(app string, names ...string) { m.exp.ExpectDeletions(app, len(names)) }
func (m counting) sawCreated(o store.Object[Replica])     { m.exp.CreationObserved(appOf(o)) }
func (m counting) sawDeleted(o store.Object[Replica])     { m.exp.DeletionObserved(appOf(o)) }

func (m counting) created(app, _ string, _ informer.Version, err error) {
	if err != nil {
		m.exp.CreationObserved(app)
	}
}

func (m counting) deleted(app, _ string, _ informer.Version, err error) {
	if err != nil {
		m.exp.DeletionObserved(app)
	}
}

// tracking expects these creations and deletions, and takes one back that has failed.
type tracking struct {
	exp *expectations.Tracked[string, string]
}

func (m tracking) settled(app string) bool                { return m.exp.SatisfiedExpectations(app) }
func (m tracking) willCreate(app string, names ...string) { m.exp.ExpectCreations(app, names...) }
func (m tracking) willDelete(app string, names ...string) { m.exp.ExpectDeletions(app, names...) }
func (m tracking) sawCreated(o store.Object[Replica])     { m.exp.CreationObserved(appOf(o), o.Key) }
func (m tracking) sawDeleted(o store.Object[Replica])     { m.exp.DeletionObserved(appOf(o), o.Key) }

func (m tracking) created(app, name string, _ informer.Version, err error) {
	if err != nil {
		m.exp.CreationObserved(app, name)
	}
}

func (m tracking) deleted(app, name string, _ informer.Version, err error) {
	if err != nil {
		m.exp.DeletionObserved(app, name)
	}
}

// versioning expects that the cache sees the version of the last write.
type versioning struct {
	forgetful
	exp *expectations.Versions[string]
}

func (m versioning) settled(app string) bool            { return m.exp.SatisfiedExpectations(app) }
func (m versioning) sawCreated(o store.Object[Replica]) { m.exp.VersionObserved(uint64(o.Version)) }
func (m versioning) sawDeleted(o store.Object[Replica]) { m.exp.VersionObserved(uint64(o.Version)) }

func (m versioning) created(app, _ string, v informer.Version, err error) {
	if err == nil {
		m.exp.ExpectVersion(app, uint64(v))
	}
}

func (m versioning) deleted(app, _ string, v informer.Version, err error) {
	if err == nil {
		m.exp.ExpectVersion(app, uint64(v))
	}
}

// memories are the three that work.
func memories() map[string]func() memory {
	var cfg expectations.Config[string]
	return map[string]func() memory{
		"Counted":  func() memory { return counting{exp: must(expectations.NewCounted(cfg))} },
		"Tracked":  func() memory { return tracking{exp: must(expectations.NewTracked[string, string](cfg))} },
		"Versions": func() memory { return versioning{exp: must(expectations.NewVersions(cfg))} },
	}
}

// replicaSet is the controller, with its cache of replicas.
type replicaSet struct {
	*fixture
	memory memory
	lag    *lagging[Replica]
	mine   *cache.Index[string, string, store.Object[Replica]]
	names  int
	refuse func() bool // whether the store refuses the next write
}

func newReplicaSet(t *testing.T, m memory) *replicaSet {
	f := newFixture(t)
	c := &replicaSet{fixture: f, memory: m, lag: lag[Replica](f.replicas), refuse: func() bool { return false }}
	inf := mirror(t, c.lag, informer.Handler[string, store.Object[Replica]]{
		OnAdd:    func(o store.Object[Replica], _ bool) { m.sawCreated(o) },
		OnDelete: func(d cache.Tombstone[string, store.Object[Replica]]) { m.sawDeleted(d.Object) },
	})
	c.mine = cache.AddIndex(inf.Indexer(), controllerUID)
	return c
}

var errRefused = errors.New("refused")

// reconcile takes the cache for the truth, once it may.
func (c *replicaSet) reconcile(app store.Object[App]) {
	if !c.memory.settled(app.Key) {
		return
	}
	var create, remove []string
	uids := make(map[string]string)
	for key, o := range c.mine.All(app.UID) {
		remove = append(remove, key)
		uids[key] = o.UID
	}
	for range app.Value.Replicas - len(remove) {
		c.names++
		create = append(create, fmt.Sprintf("%s-%d", app.Key, c.names))
	}
	remove = remove[:max(0, len(remove)-app.Value.Replicas)]

	ctx := context.Background()
	c.memory.willCreate(app.Key, create...)
	for _, name := range create {
		child := store.Object[Replica]{Key: name}
		err := owner.SetController(&child, app.Ref())
		if err == nil {
			err = errRefused
			if !c.refuse() {
				child, err = c.replicas.Create(ctx, child)
			}
		}
		c.memory.created(app.Key, name, child.Version, err)
	}
	c.memory.willDelete(app.Key, remove...)
	for _, name := range remove {
		last, err := store.Object[Replica]{}, errRefused
		if !c.refuse() {
			last, err = c.replicas.Delete(ctx, name, store.IfUID(uids[name]))
		}
		c.memory.deleted(app.Key, name, last.Version, err)
	}
}

// scale changes the wanted number.
func (c *replicaSet) scale(app store.Object[App], n int) store.Object[App] {
	app.Value.Replicas = n
	app, err := c.apps.Update(context.Background(), app)
	require.NoError(c.t, err)
	return app
}

// there is the number of replicas in the store.
func (c *replicaSet) there() int {
	list, err := c.replicas.List(context.Background())
	require.NoError(c.t, err)
	return len(list.Items)
}

func TestStaleCacheOvershootsOnlyWithoutExpectations(t *testing.T) {
	story := func(m memory) (there []int) {
		synctest.Test(t, func(t *testing.T) {
			c := newReplicaSet(t, m)
			app := c.scale(c.app("web"), 2)
			look := func() { c.reconcile(app); there = append(there, c.there()) }
			look()
			look()          // the cache shows none of the two
			c.lag.deliver() // it shows one
			look()
			c.lag.catchUp()
			look()
			look()
		})
		return there
	}
	require.Equal(t, []int{2, 4, 5, 2, 2}, story(forgetful{}), "it creates three too many, and finally deletes any three")
	for name, newMemory := range memories() {
		require.Equal(t, []int{2, 2, 2, 2, 2}, story(newMemory()), name)
	}
}

// overshoots runs random schedules: the number that is wanted changes, the cache is told of changes late, some writes are
// refused. It counts the schedules in which a reconcile went past what was wanted.
func overshoots(t *testing.T, schedules int, newMemory func() memory) (bad int) {
	for seed := range schedules {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(uint64(seed), 1))
			c := newReplicaSet(t, newMemory())
			c.refuse = func() bool { return random.IntN(5) == 0 }
			app, past := c.app("web"), false
			for range 20 {
				switch random.IntN(8) {
				case 0, 1:
					app = c.scale(app, random.IntN(5))
				case 2, 3:
					c.lag.deliver()
				default:
					before := c.there()
					c.reconcile(app)
					after, wanted := c.there(), app.Value.Replicas
					past = past || after > max(before, wanted) || after < min(before, wanted)
				}
			}
			c.refuse = func() bool { return false }
			for range 3 {
				c.lag.catchUp()
				c.reconcile(app)
			}
			require.Equal(t, app.Value.Replicas, c.there(), "it is eventually right, seed %d", seed)
			if past {
				bad++
			}
		})
	}
	return bad
}

func TestRandomSchedulesOvershootOnlyWithoutExpectations(t *testing.T) {
	for name, newMemory := range memories() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Zero(t, overshoots(t, 150, newMemory))
		})
	}
	require.NotZero(t, overshoots(t, 50, func() memory { return forgetful{} }))
}

// A key with unmet expectations is held. Only Notify puts it back into the queue.
func TestHeldKeyIsReleasedByEventMeetingExpectations(t *testing.T) {
	for name, newMemory := range memories() {
		for seed := range 100 {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(uint64(seed), 2))
				m := newMemory()
				queue := must(workqueue.New(workqueue.Config[string]{}))
				notify := map[string]func(func(string)) func(){
					"Counted":  func(f func(string)) func() { return m.(counting).exp.Notify(f) },
					"Tracked":  func(f func(string)) func() { return m.(tracking).exp.Notify(f) },
					"Versions": func(f func(string)) func() { return m.(versioning).exp.Notify(f) },
				}[name]
				defer notify(queue.Add)()
				c := newReplicaSet(t, m)
				app := c.app("web")
				work := func() {
					if item, ok := queue.TryTake(); ok {
						c.reconcile(app)
						item.Done()
					}
				}
				for range 30 {
					switch random.IntN(4) {
					case 0:
						app = c.scale(app, random.IntN(5))
						queue.Add("web")
					case 1:
						c.lag.deliver()
					default:
						work()
					}
				}
				for work(); c.lag.deliver(); work() {
				}
				work()
				require.Equal(t, app.Value.Replicas, c.there(), "%s, seed %d", name, seed)
			})
		}
	}
}

func TestSkippedSlowStartCreationsAreNotExpected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memories()["Counted"]().(counting)
		c := newReplicaSet(t, m)
		app, quota := c.app("web"), 4
		slowly := func(n int) (skipped int) {
			m.exp.ExpectCreations("web", n)
			_, skipped, err := wait.SlowStart(t.Context(), n, func(ctx context.Context, i int) error {
				child := store.Object[Replica]{Key: fmt.Sprint("web-", i)}
				err := owner.SetController(&child, app.Ref())
				if err == nil && i >= quota {
					err = errRefused
				}
				if err == nil {
					_, err = c.replicas.Create(ctx, child)
				}
				if err != nil {
					m.exp.CreationObserved("web") // it will not be
				}
				return err
			})
			require.ErrorIs(t, err, errRefused)
			m.exp.LowerExpectations("web", skipped, 0)
			return skipped
		}
		require.Equal(t, 93, slowly(100))
		require.Equal(t, quota, c.there())
		require.False(t, m.settled("web"), "the four are not observed yet")
		c.lag.catchUp()
		require.True(t, m.settled("web"), "and nothing else")
	})
}
