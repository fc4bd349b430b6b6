package dbtest

import (
	"context"
	"errors"
	"iter"
	"sync"
	"testing"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store/backend"
)

// Away is a backend whose watches can be away for a while, like those of a suspended process. Pass it to BeginWriters.
type Away struct {
	backend.Backend

	mu sync.Mutex
	// mu guards the following.
	leave   context.CancelCauseFunc // ends the watches
	present context.Context         // until Leave
	back    chan struct{}           // closed unless the watches are away
	expired int
}

// NewAway returns a backend on db, with working watches.
func NewAway(db backend.Backend) *Away {
	a := &Away{Backend: db, back: make(chan struct{})}
	a.present, a.leave = context.WithCancelCause(context.Background())
	close(a.back)
	return a
}

var errAway = errors.New("dbtest: the watch is away")

// Leave ends all watches, and lets none begin before Return.
func (a *Away) Leave() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.back = make(chan struct{})
	a.leave(errAway)
}

// Return lets watches begin again.
func (a *Away) Return() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.present, a.leave = context.WithCancelCause(context.Background())
	close(a.back)
}

// Miss takes all watches away while f runs. It repeats that until a watch has missed changes that are no longer kept. The first time may
// not be enough: if an informer lists while its watch is away, its next watch begins at the current version.
func (a *Away) Miss(t testing.TB, f func()) {
	t.Helper()
	expired := a.Expired()
	for end := time.Now().Add(time.Minute); a.Expired() == expired; {
		if time.Now().After(end) {
			t.Fatal("no watch has expired")
		}
		a.Leave()
		f()
		a.Return()
		for wait := time.Now().Add(time.Second); a.Expired() == expired && time.Now().Before(wait); {
			time.Sleep(time.Millisecond)
		}
	}
}

// Expired returns how many watches have ended because their changes were no longer kept.
func (a *Away) Expired() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.expired
}

// Watch implements [backend.Backend].
func (a *Away) Watch(
	ctx context.Context, kind string, q backend.Query, after informer.Version,
) iter.Seq2[backend.Change, error] {
	return func(yield func(backend.Change, error) bool) {
		a.mu.Lock()
		back := a.back
		a.mu.Unlock()
		select {
		case <-back:
		case <-ctx.Done():
			yield(backend.Change{}, context.Cause(ctx))
			return
		}
		watching, end := context.WithCancelCause(ctx)
		defer end(nil)
		a.mu.Lock()
		stop := context.AfterFunc(a.present, func() { end(errAway) })
		a.mu.Unlock()
		defer stop()
		for c, err := range a.Backend.Watch(watching, kind, q, after) {
			if errors.Is(err, backend.ErrExpired) {
				a.mu.Lock()
				a.expired++
				a.mu.Unlock()
			}
			if !yield(c, err) {
				return
			}
		}
	}
}
