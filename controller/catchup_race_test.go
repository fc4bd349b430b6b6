package controller_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/written"
)

// restarted is a mirror of a store that was restored from a backup. Its cache is at version 2. Then it goes on to version 0, the
// beginning of the new history, and from there to version 3. As in an informer, a version is there first, and told then.
//
// It takes these steps while a controller connects: pauses says how many before OnVersion returns, and how many after each read of
// the version, before the reader can use it.
type restarted struct {
	pauses  []int
	taken   int // steps
	version informer.Version
	told    informer.Version
	tell    func(informer.Version)
}

const restartSteps = 8 // two for each of the versions 0, 1, 2, and 3

func (r *restarted) step() {
	next := informer.Version(r.taken / 2)
	if r.taken%2 == 0 {
		r.version = next
	} else {
		r.told = next
		if r.tell != nil {
			r.tell(next)
		}
	}
	r.taken++
}

func (r *restarted) pause() {
	if len(r.pauses) == 0 {
		return
	}
	n := r.pauses[0]
	r.pauses = r.pauses[1:]
	for range n {
		r.step()
	}
}

func (r *restarted) Version() informer.Version {
	defer r.pause()
	return r.version
}

func (r *restarted) OnVersion(f func(informer.Version)) (stop func()) {
	r.pause()
	r.tell = f
	r.pause()
	return func() { r.tell = nil }
}

func (r *restarted) WaitForVersion(context.Context, informer.Version) error { return nil }

func (r *restarted) Name() string { return "restarted" }

func (r *restarted) Source() any { return kinded{clock: objects} }

func (r *restarted) Run(context.Context) error { return nil }

func (r *restarted) Synced() <-chan struct{} {
	synced := make(chan struct{})
	close(synced)
	return synced
}

// schedules calls f with every way to take at most n steps in the given number of pauses.
func schedules(pauses, n int, f func([]int)) {
	var fill func(done []int, left int)
	fill = func(done []int, left int) {
		if len(done) == pauses {
			f(append([]int(nil), done...))
			return
		}
		for k := range left + 1 {
			fill(append(done, k), left-k)
		}
	}
	fill(nil, n)
}

// A source starts a new history while the controller reads the version of its cache. In any interleaving, a connected
// controller holds a key exactly until the cache has reached the version of its write in the new history.
func TestResetDuringConnectKeepsVersionsCorrect(t *testing.T) {
	n := 0
	schedules(6, restartSteps, func(pauses []int) {
		if t.Failed() {
			return
		}
		n++
		r := &restarted{pauses: pauses, version: 2, told: 2}
		checkRestart(t, r, fmt.Sprint("pauses ", pauses))
	})
	assert.Equal(t, 3003, n)
}

func checkRestart(t *testing.T, r *restarted, schedule string) {
	var wrote informer.Version
	c, _ := newController(t, controller.Config[string]{Reads: []controller.Informer{r}},
		func(ctx context.Context, _ string) (controller.Result, error) {
			written.Tell(ctx, objects.Kind, objects.DB, uint64(wrote))
			return controller.Result{}, nil
		})
	disconnect, err := c.Connect(t.Context())
	require.NoError(t, err)
	defer disconnect()
	keys := 0
	held := func(version informer.Version) bool {
		keys++
		key := fmt.Sprint(keys)
		wrote = version
		c.Add(key)
		_, ok := c.Step(t.Context(), key)
		if !ok {
			t.Fatal("nothing is reconciled: ", schedule)
		}
		c.Add(key)
		_, ok = c.Step(t.Context(), key)
		return !ok
	}
	for r.pauses = nil; ; r.step() {
		if r.told == r.version {
			if held(r.version) {
				t.Errorf("a key is held at version %d: %s", r.version, schedule)
			}
			if !held(r.version + 1) {
				t.Errorf("no key is held at version %d: %s", r.version+1, schedule)
			}
		}
		if r.taken == restartSteps {
			return
		}
	}
}
