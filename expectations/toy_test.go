package expectations_test

import (
	"fmt"
	"testing"

	"github.com/setpoint-go/setpoint/expectations"
	"github.com/stretchr/testify/require"
)

// guard is what a controller does with expectations. Each of the three types is one; so is nothing.
type guard interface {
	satisfied(seen uint64) bool
	before(creations, deletions []int)
	after(version uint64) // of a write
	observe(ev event)
}

type event struct {
	version uint64
	id      int
	gone    bool
}

type noGuard struct{}

func (noGuard) satisfied(uint64) bool { return true }
func (noGuard) before(_, _ []int)     {}
func (noGuard) after(uint64)          {}
func (noGuard) observe(event)         {}

type countedGuard struct {
	noGuard
	c *expectations.Counted[string]
}

func (g countedGuard) satisfied(uint64) bool { return g.c.SatisfiedExpectations("web") }
func (g countedGuard) before(creations, deletions []int) {
	g.c.SetExpectations("web", len(creations), len(deletions))
}
func (g countedGuard) observe(ev event) {
	if ev.gone {
		g.c.DeletionObserved("web")
	} else {
		g.c.CreationObserved("web")
	}
}

type trackedGuard struct {
	noGuard
	t *expectations.Tracked[string, int]
}

func (g trackedGuard) satisfied(uint64) bool { return g.t.Satisfied("web") }
func (g trackedGuard) before(creations, deletions []int) {
	g.t.ExpectCreations("web", creations...)
	g.t.ExpectDeletions("web", deletions...)
}
func (g trackedGuard) observe(ev event) {
	if ev.gone {
		g.t.DeletionObserved("web", ev.id)
	} else {
		g.t.CreationObserved("web", ev.id)
	}
}

type versionsGuard struct {
	noGuard
	v *expectations.Versions[string]
}

func (g versionsGuard) satisfied(seen uint64) bool { return g.v.Satisfied("web", seen) }
func (g versionsGuard) after(version uint64)       { g.v.ExpectVersion("web", version) }

// replicas is a controller that keeps so many children, with a source, and a cache that lags behind it.
type replicas struct {
	guard    guard
	desired  int
	children map[int]bool // in the source
	version  uint64       // of the source
	log      []event      // what the cache has not seen
	cache    []int        // the children that it shows, oldest first
	seen     uint64       // its version
	nextID   int
}

// reconcile takes the cache for the truth.
func (r *replicas) reconcile() {
	if !r.guard.satisfied(r.seen) {
		return
	}
	var creations, deletions []int
	for range r.desired - len(r.cache) {
		creations = append(creations, r.nextID)
		r.nextID++
	}
	if n := len(r.cache) - r.desired; n > 0 {
		deletions = r.cache[:n]
	}
	r.guard.before(creations, deletions)
	for _, id := range creations {
		r.children[id] = true
		r.write(id, false)
	}
	for _, id := range deletions {
		delete(r.children, id)
		r.write(id, true)
	}
}

func (r *replicas) write(id int, gone bool) {
	r.version++
	r.log = append(r.log, event{r.version, id, gone})
	r.guard.after(r.version)
}

// deliver lets the cache see one event.
func (r *replicas) deliver() {
	if len(r.log) == 0 {
		return
	}
	ev := r.log[0]
	r.log = r.log[1:]
	var cache []int
	for _, id := range r.cache {
		if id != ev.id {
			cache = append(cache, id)
		}
	}
	if !ev.gone {
		cache = append(cache, ev.id)
	}
	r.cache, r.seen = cache, ev.version
	r.guard.observe(ev)
}

// run runs every order of reconciles and deliveries: first up to three children, then down to one. It returns the
// highest and the lowest number of children that there were after the first was due.
func run(t *testing.T, newGuard func() guard) (highest, lowest int) {
	const steps = 12
	lowest = 3
	for schedule := range 1 << steps {
		r := &replicas{guard: newGuard(), desired: 3, children: make(map[int]bool)}
		settle := func() {
			for range 4 {
				for len(r.log) > 0 {
					r.deliver()
				}
				r.reconcile()
			}
			require.Len(t, r.children, r.desired, "in the end it is right, schedule %b", schedule)
		}
		for step := range steps / 2 {
			if schedule>>step&1 == 0 {
				r.reconcile()
			} else {
				r.deliver()
			}
			highest = max(highest, len(r.children))
		}
		settle()
		r.desired = 1
		for step := range steps / 2 {
			if schedule>>(step+steps/2)&1 == 0 {
				r.reconcile()
			} else {
				r.deliver()
			}
			lowest = min(lowest, len(r.children))
		}
		settle()
	}
	return highest, lowest
}

func TestAControllerOnALaggingCacheOvershootsWithoutExpectationsAndNeverWithThem(t *testing.T) {
	var cfg expectations.Config[string]
	guards := map[string]func() guard{
		"Counted":  func() guard { return countedGuard{c: expectations.NewCounted(cfg)} },
		"Tracked":  func() guard { return trackedGuard{t: expectations.NewTracked[string, int](cfg)} },
		"Versions": func() guard { return versionsGuard{v: expectations.NewVersions(cfg)} },
	}
	for name, newGuard := range guards {
		highest, lowest := run(t, newGuard)
		require.Equal(t, "never more than 3, never fewer than 1",
			fmt.Sprintf("never more than %d, never fewer than %d", highest, lowest), name)
	}
	highest, _ := run(t, func() guard { return noGuard{} })
	require.Greater(t, highest, 3)
}
