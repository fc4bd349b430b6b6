package manager_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
	"github.com/setpoint-go/setpoint/manager"
	"github.com/setpoint-go/setpoint/workqueue"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The stages of a manager as the churn sees them, in their order.
const (
	informersStart   = "1 informers start"
	controllersStart = "2 controllers start"
	controllersEnd   = "3 controllers end"
	hookIsCalled     = "4 hook is called"
	leaseIsReleased  = "5 lease is released"
	informersEnd     = "6 informers end"
)

// noted is a part that notes when it starts and ends.
type noted struct {
	manager.Part
	events     *looptest.Log[string]
	start, end string
}

func (n noted) Run(ctx context.Context) error {
	n.events.Add(n.start)
	defer n.events.Add(n.end)
	return n.Part.Run(ctx)
}

// notedInformer is an informer that notes when it starts and ends.
type notedInformer struct {
	noted
	informer.Syncer
}

func (n notedInformer) Name() string { return n.Syncer.Name() }

// churn is twenty controllers that outlive their managers, and what they know of the keys that they were asked for.
type churn struct {
	t           *testing.T
	events      *looptest.Log[string]
	store       *releasedLeases // of the present manager
	objects     *source
	mirror      *informer.Informer[string, object] // runs all the time
	controllers []*controller.Controller[string]

	mu sync.Mutex
	// mu guards the following.
	rand  *rand.Rand
	asked []map[string]int // by controller and key
	seen  []map[string]int // what was asked when the last reconcile that succeeded began
	calm  bool             // reconciles do not fail
}

// releasedLeases notes when a lease is released.
type releasedLeases struct {
	*memlease.Store
	events *looptest.Log[string]
}

func (s *releasedLeases) Update(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
	if bytes.Contains(e.Value, []byte(`"holder":""`)) {
		s.events.Add(leaseIsReleased)
	}
	return s.Store.Update(ctx, e)
}

func newChurn(t *testing.T, n int) *churn {
	events := &looptest.Log[string]{}
	c := &churn{t: t, events: events, objects: newSource(), rand: rand.New(rand.NewPCG(1, 2))}
	c.mirror = newInformer("mirror", c.objects)
	for i := range n {
		c.asked, c.seen = append(c.asked, map[string]int{}), append(c.seen, map[string]int{})
		cfg := controller.Config[string]{Workers: 1 + i/15, Logger: quiet, Queue: workqueue.Config[string]{RateLimiter: &limiter{delay: time.Second}}}
		var inputs []controller.Input[string]
		if watches(i) {
			inputs = append(inputs, controller.For(c.mirror))
		}
		ctl, err := controller.New(fmt.Sprint("c", i), func(ctx context.Context, key string) (controller.Result, error) {
			return controller.Result{}, c.reconcile(ctx, i, key)
		}, cfg, inputs...)
		require.NoError(t, err)
		c.controllers = append(c.controllers, ctl)
	}
	return c
}

func (c *churn) reconcile(ctx context.Context, i int, key string) error {
	c.mu.Lock()
	asked, n := c.asked[i][key], c.rand.IntN(20)
	if c.calm {
		n = 2
	}
	c.mu.Unlock()
	switch n {
	case 0:
		return errBoom
	case 1:
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen[i][key] = asked
	return nil
}

// watches tells which controllers watch the mirror: some, which takes less time.
func watches(i int) bool { return i%4 == 1 }

// ask asks a controller for a key, or all that watch the mirror by an event.
func (c *churn) ask() {
	c.mu.Lock()
	i, key, event := c.rand.IntN(len(c.controllers)), fmt.Sprint("k", c.rand.IntN(6)), c.rand.IntN(4) == 0
	for j := range c.asked {
		if event && watches(j) || !event && j == i {
			c.asked[j][key]++
		}
	}
	c.mu.Unlock()
	if event {
		c.objects.Put(object{Key: key})
	} else {
		c.controllers[i].Add(key)
	}
}

// manager returns a manager of all controllers, of which some run on every replica.
func (c *churn) manager(elected bool) *manager.Manager {
	cfg := manager.Config{Logger: quiet}
	cfg.BeforeRelease = func(context.Context) error { c.events.Add(hookIsCalled); return nil }
	c.store = &releasedLeases{newLeases(), c.events}
	if elected {
		cfg.Election = election(c.store)
	}
	m, err := manager.New(cfg)
	require.NoError(c.t, err)
	fresh := newInformer("fresh", c.objects)
	other := newFakeInformer("other", &looptest.Log[string]{})
	require.NoError(c.t, m.Add(notedInformer{noted{fresh, c.events, informersStart, informersEnd}, fresh}))
	require.NoError(c.t, m.Add(notedInformer{noted{other, c.events, informersStart, informersEnd}, other}))
	for i := range c.controllers {
		require.NoError(c.t, c.addController(m, i))
	}
	return m
}

func (c *churn) addController(m *manager.Manager, i int) error {
	n := noted{c.controllers[i], c.events, controllersStart, controllersEnd}
	if i%4 == 3 {
		return m.Add(manager.At(manager.Always, n))
	}
	return m.Add(n)
}

// checkOrder checks the stages of a manager that is stopped at any moment. Parts that start together may be told to end
// when some of them have ended already, and a lease under which nothing has run is released while others end.
func checkOrder(t *testing.T, events []string) {
	t.Helper()
	before := func(a, b string) {
		t.Helper()
		if first := slices.Index(events, b); first >= 0 {
			assert.NotContains(t, events[first:], a, "%s comes before %s", a, b)
		}
	}
	for _, b := range []string{controllersStart, controllersEnd, hookIsCalled, leaseIsReleased} {
		before(informersStart, b)
		before(b, informersEnd)
	}
	for _, a := range []string{controllersStart, controllersEnd} {
		before(a, hookIsCalled)
	}
	before(hookIsCalled, leaseIsReleased)
}

// round runs one manager, and returns the stages that it is to go through; nil if those are the first few.
func (c *churn) round(n int) (want []string) {
	elected := n%2 == 0
	m := c.manager(elected)
	r := looptest.Start(c.t, m.Run)
	want = []string{informersStart, controllersStart, controllersEnd, hookIsCalled, leaseIsReleased, informersEnd}
	if !elected {
		want = slices.Delete(want, 4, 5)
	}
	for range n % 7 {
		c.ask()
	}
	switch n / 2 % 5 {
	case 0: // at once
		for range n % 13 {
			runtime.Gosched()
		}
		want = nil
	case 1:
		synctest.Wait()
	case 2:
		time.Sleep(time.Second)
		c.ask()
	case 3: // the lease is lost
		synctest.Wait()
		cut(c.store.Store, true)
		time.Sleep(20 * time.Second)
		c.ask()
		if cut(c.store.Store, false); elected {
			want = []string{informersStart, controllersStart, controllersEnd, informersEnd}
		}
	case 4: // some controllers come and go
		synctest.Wait()
		i := n % len(c.controllers)
		require.NoError(c.t, m.Remove(c.t.Context(), c.controllers[i].Name()))
		c.ask()
		require.NoError(c.t, c.addController(m, i))
		synctest.Wait()
		want = slices.Concat(want[:1], []string{controllersStart, controllersEnd}, want[1:])
	}
	require.NoError(c.t, r.Stop())
	m.CheckInvariants(c.t)
	return want
}

// goroutines returns how many there are in the bubble.
func goroutines(t *testing.T) int {
	t.Helper()
	synctest.Wait()
	return len(looptest.Stacks(t))
}

// TestStartAndStopTwentyControllersRepeatedly runs one manager of the same twenty controllers after another, and
// stops it at all kinds of moments, while keys are asked for all the time. The order of the stages is always the same, no
// goroutine is left by any of them, and in the end each key was reconciled after it was last asked for.
//
// Without the race detector it does a twentieth of it, unless MANAGER_ROUNDS says more.
func TestStartAndStopTwentyControllersRepeatedly(t *testing.T) {
	times := 50
	if raceEnabled {
		times = 1000
	}
	times = rounds(t, "MANAGER_ROUNDS", times)
	synctest.Test(t, func(t *testing.T) {
		c := newChurn(t, 20)
		looptest.Start(t, c.mirror.Run)
		before := goroutines(t)
		for n := range times {
			want := c.round(n)
			require.Equal(t, before, goroutines(t), "after manager %d", n)
			events := c.events.Take()
			if want == nil {
				checkOrder(t, events)
			} else {
				require.Equal(t, want, slices.Compact(events), "manager %d", n)
			}
		}

		c.calm = true
		last := looptest.Start(t, c.manager(false).Run)
		time.Sleep(time.Minute)
		require.NoError(t, last.Stop())
		assert.Equal(t, c.asked, c.seen, "no key was lost")
		assert.Equal(t, before, goroutines(t))
	})
}
