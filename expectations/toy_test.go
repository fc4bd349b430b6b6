package expectations_test

import (
	"math/rand/v2"
	"os"
	"testing"

	"github.com/setpoint-go/setpoint/expectations"
	"github.com/stretchr/testify/require"
)

// guard is what a controller does with expectations. Each of the three types is one; so is nothing.
type guard interface {
	satisfied() bool
	before(creations, deletions []int)
	after(write event)
	refused(write event) // the write has failed
	done()               // with all that before has announced
	observe(ev event)
}

type event struct {
	version uint64
	id      int
	deleted bool
}

type noGuard struct{}

func (noGuard) satisfied() bool   { return true }
func (noGuard) before(_, _ []int) {}
func (noGuard) after(event)       {}
func (noGuard) refused(event)     {}
func (noGuard) done()             {}
func (noGuard) observe(event)     {}

type countedGuard struct {
	noGuard
	c *expectations.Counted[string]
}

func (g countedGuard) satisfied() bool { return g.c.SatisfiedExpectations("web") }
func (g countedGuard) before(creations, deletions []int) {
	g.c.SetExpectations("web", len(creations), len(deletions))
}
func (g countedGuard) refused(write event) { g.observe(write) }
func (g countedGuard) observe(ev event) {
	if ev.deleted {
		g.c.DeletionObserved("web")
	} else {
		g.c.CreationObserved("web")
	}
}

type trackedGuard struct {
	noGuard
	t *expectations.Tracked[string, int]
}

func (g trackedGuard) satisfied() bool { return g.t.SatisfiedExpectations("web") }
func (g trackedGuard) before(creations, deletions []int) {
	g.t.ExpectCreations("web", creations...)
	g.t.ExpectDeletions("web", deletions...)
}
func (g trackedGuard) refused(write event) { g.observe(write) }
func (g trackedGuard) observe(ev event) {
	if ev.deleted {
		g.t.DeletionObserved("web", ev.id)
	} else {
		g.t.CreationObserved("web", ev.id)
	}
}

// givenGuard is for a source that gives out the identities: they are known only after the write.
type givenGuard struct{ trackedGuard }

func (g givenGuard) before(_, _ []int) { g.t.Begin("web") }
func (g givenGuard) done()             { g.t.End("web") }
func (g givenGuard) refused(event)     {}
func (g givenGuard) after(write event) {
	if write.deleted {
		g.t.ExpectDeletions("web", write.id)
	} else {
		g.t.ExpectCreations("web", write.id)
	}
}

type versionsGuard struct {
	noGuard
	v *expectations.Versions[string]
}

func (g versionsGuard) satisfied() bool   { return g.v.SatisfiedExpectations("web") }
func (g versionsGuard) observe(ev event)  { g.v.VersionObserved(ev.version) }
func (g versionsGuard) after(write event) { g.v.ExpectVersion("web", write.version) }

// replicas is a controller that keeps so many children, with a source, and a cache that lags behind it.
type replicas struct {
	guard    guard
	desired  int
	children map[int]bool // in the source
	version  uint64       // of the source
	log      []event      // what the cache has not seen
	cache    []int        // the children that it shows, oldest first
	nextID   int
	eager    func() bool // whether the cache sees a write before the write returns
	refuse   func() bool // whether the source refuses the next write
}

// reconcile takes the cache for the truth.
func (r *replicas) reconcile() {
	if !r.guard.satisfied() {
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
		r.write(id, false)
	}
	for _, id := range deletions {
		r.write(id, true)
	}
	r.guard.done()
}

func (r *replicas) write(id int, deleted bool) {
	if r.refuse() {
		r.guard.refused(event{id: id, deleted: deleted})
		return
	}
	if deleted {
		delete(r.children, id)
	} else {
		r.children[id] = true
	}
	r.version++
	ev := event{r.version, id, deleted}
	r.log = append(r.log, ev)
	for len(r.log) > 0 && r.eager() {
		r.deliver()
	}
	r.guard.after(ev)
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
	if !ev.deleted {
		cache = append(cache, ev.id)
	}
	r.cache = cache
	r.guard.observe(ev)
}

// guards are the ways to keep from acting on a cache that lags.
func guards() map[string]func() guard {
	var cfg expectations.Config[string]
	tracked := func() trackedGuard { return trackedGuard{t: expectations.NewTracked[string, int](cfg)} }
	return map[string]func() guard{
		"Counted":        func() guard { return countedGuard{c: expectations.NewCounted(cfg)} },
		"Tracked":        func() guard { return tracked() },
		"Tracked, Begin": func() guard { return givenGuard{tracked()} },
		"Versions":       func() guard { return versionsGuard{v: expectations.NewVersions(cfg)} },
	}
}

// overshoots runs random schedules, in which the number that is desired changes, the cache may see a write before the write
// returns, and the source refuses some writes. It counts the schedules in which a reconcile went past what was desired.
func overshoots(t *testing.T, schedules int, newGuard func() guard) (bad int) {
	for seed := range schedules {
		random := rand.New(rand.NewPCG(uint64(seed), 7))
		r := &replicas{guard: newGuard(), children: make(map[int]bool)}
		r.eager = func() bool { return random.IntN(2) == 0 }
		r.refuse = func() bool { return random.IntN(5) == 0 }
		past := false
		for range 40 {
			switch random.IntN(8) {
			case 0:
				r.desired = random.IntN(6)
			case 1, 2, 3:
				r.deliver()
			default:
				before := len(r.children)
				r.reconcile()
				after := len(r.children)
				past = past || after > max(before, r.desired) || after < min(before, r.desired)
			}
		}
		r.refuse = func() bool { return false }
		for range 3 {
			for len(r.log) > 0 {
				r.deliver()
			}
			r.reconcile()
		}
		require.Len(t, r.children, r.desired, "it is eventually right, seed %d", seed)
		if past {
			bad++
		}
	}
	return bad
}

func TestRandomSchedulesOvershootOnlyWithoutExpectations(t *testing.T) {
	schedules := 2000
	if os.Getenv(modelVariable) == "full" {
		schedules = 10_000
	} else if underRace {
		schedules = 500
	}
	for name, newGuard := range guards() {
		require.Zero(t, overshoots(t, schedules, newGuard), name)
	}
	require.NotZero(t, overshoots(t, 100, func() guard { return noGuard{} }))
}
