package informer_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/informertest"
	"github.com/setpoint-go/setpoint/internal/looptest"
)

var errOutage = errors.New("no route to host")

// site is an object. Rev is unique; Life is the Rev of the creation.
type site struct {
	Name      string
	Life, Rev int
}

func nameOf(s site) string { return s.Name }

func newSource() *informertest.Source[string, site] { return informertest.NewSource(nameOf) }

// start runs in until stop is called, or the test ends. It must be called in a bubble.
func start(t *testing.T, in *informer.Informer[string, site]) (stop func()) {
	t.Helper()
	return looptest.StartInBubble(t, in.Run)
}

// watch sends what a watch yields until its context ends.
func watch(t *testing.T, ctx context.Context, src informer.ListWatcher[site], after informer.Version) <-chan string {
	events := make(chan string, 100)
	done := make(chan struct{})
	go func() { // ends with ctx; the cleanup waits for it
		defer close(done)
		for ev, err := range src.Watch(ctx, after) {
			if err != nil {
				events <- err.Error()
			} else {
				events <- fmt.Sprintf("%d %v %s.%d", ev.Version, ev.Type, ev.Object.Name, ev.Object.Rev)
			}
		}
	}()
	t.Cleanup(func() { <-done })
	return events
}

// errorLog collects the errors passed to OnError.
type errorLog struct{ looptest.Log[error] }

// Take returns the errors since the last Take, once every goroutine of the bubble is blocked.
func (e *errorLog) Take() []error {
	synctest.Wait()
	return e.Log.Take()
}

// scripted is a source whose methods are functions; a nil watch waits for the end of its context.
type scripted struct {
	list  func(context.Context) (informer.List[site], error)
	watch func(ctx context.Context, after informer.Version) iter.Seq2[informer.Event[site], error]
}

func (s scripted) List(ctx context.Context) (informer.List[site], error) { return s.list(ctx) }

func (s scripted) Watch(ctx context.Context, after informer.Version) iter.Seq2[informer.Event[site], error] {
	if s.watch == nil {
		return func(func(informer.Event[site], error) bool) { <-ctx.Done() }
	}
	return s.watch(ctx, after)
}

// empty lists nothing, at version 1.
func empty(context.Context) (informer.List[site], error) { return informer.List[site]{Version: 1}, nil }

// knob is a variable that a test turns while a source reads it.
type knob[T any] struct {
	mu    sync.Mutex
	value T
}

func (k *knob[T]) set(value T) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.value = value
}

func (k *knob[T]) get() T {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.value
}

// spy counts the calls of a source.
type spy struct {
	informer.ListWatcher[site]
	slow  time.Duration // until a list begins
	calls knob[spied]
}

type spied struct {
	lists, watches int
	open           int              // watches that have not been left
	after          informer.Version // where the last watch began
}

func (s *spy) List(ctx context.Context) (informer.List[site], error) {
	s.count(func(c *spied) { c.lists++ })
	time.Sleep(s.slow)
	return s.ListWatcher.List(ctx)
}

func (s *spy) Watch(ctx context.Context, after informer.Version) iter.Seq2[informer.Event[site], error] {
	return func(yield func(informer.Event[site], error) bool) {
		s.count(func(c *spied) { c.watches++; c.open++; c.after = after })
		defer s.count(func(c *spied) { c.open-- })
		s.ListWatcher.Watch(ctx, after)(yield)
	}
}

func (s *spy) count(f func(*spied)) {
	s.calls.mu.Lock()
	defer s.calls.mu.Unlock()
	f(&s.calls.value)
}

// got returns the counts once every goroutine of the bubble is blocked.
func (s *spy) got() spied {
	synctest.Wait()
	return s.calls.get()
}

// recorder is a handler that writes down its calls, and checks that each follows from the ones before.
type recorder struct {
	t     testing.TB
	gate  chan struct{} // each call waits for a token; nil is open
	pause func()        // runs in each call; nil is nothing
	check func()        // the same, with mu held
	reg   informer.Registration

	mu       sync.Mutex
	busy     bool
	calls    []string
	reported map[string]site
	tail     bool // the initial objects have been reported
	gaps     bool // changes may be missed, so that an update may lead from one life to another
}

func newRecorder(t testing.TB) *recorder { return &recorder{t: t, reported: make(map[string]site)} }

// add adds r to in.
func (r *recorder) add(in *informer.Informer[string, site]) *recorder {
	r.t.Helper()
	reg, err := in.AddHandler(r.handler())
	require.NoError(r.t, err)
	r.reg = reg
	return r
}

func (r *recorder) handler() informer.Handler[string, site] {
	return informer.Handler[string, site]{
		OnAdd: func(s site, initial bool) {
			r.call(fmt.Sprintf("add %s.%d initial=%t", s.Name, s.Rev, initial), func(reported site, ok bool) {
				if ok {
					r.t.Errorf("add of %v, but %v was reported", s, reported)
				}
				r.reported[s.Name] = s
			}, s.Name)
		},
		OnUpdate: func(old, s site) {
			r.call(fmt.Sprintf("update %s.%d %d", s.Name, old.Rev, s.Rev), func(reported site, ok bool) {
				if !ok || reported != old || s.Rev < old.Rev || !r.gaps && s.Life != old.Life {
					r.t.Errorf("update from %v to %v, but %v was reported (%t)", old, s, reported, ok)
				}
				r.reported[s.Name] = s
			}, s.Name)
		},
		OnDelete: func(d cache.Tombstone[string, site]) {
			what := fmt.Sprintf("delete %s.%d", d.Key, d.Object.Rev)
			if d.FinalStateUnknown {
				what += " unknown"
			}
			r.call(what, func(reported site, ok bool) {
				if o := d.Object; !ok || o.Name != d.Key || o.Rev < reported.Rev || !r.gaps && o.Life != reported.Life {
					r.t.Errorf("delete of %v, but %v was reported (%t)", d, reported, ok)
				}
				delete(r.reported, d.Key)
			}, d.Key)
		},
	}
}

func (r *recorder) call(what string, check func(reported site, ok bool), key string) {
	r.mu.Lock()
	if r.busy {
		r.t.Errorf("%s while another call runs", what)
	}
	r.busy = true
	if r.check != nil {
		r.check()
	}
	reported, ok := r.reported[key]
	check(reported, ok)
	initial := strings.HasSuffix(what, "initial=true")
	if initial && r.tail {
		r.t.Errorf("%s after others", what)
	}
	if !r.gaps && strings.HasSuffix(what, "unknown") {
		r.t.Errorf("%s, but no event was missed", what)
	}
	r.tail = r.tail || !initial
	r.calls = append(r.calls, what)
	r.mu.Unlock()
	if r.gate != nil {
		<-r.gate
	}
	if r.pause != nil {
		r.pause()
	}
	r.mu.Lock()
	r.busy = false
	r.mu.Unlock()
}

// take returns the calls since the last take, once every goroutine of the bubble is blocked.
func (r *recorder) take() []string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	calls := r.calls
	r.calls = nil
	return calls
}

// state returns the last state reported to the handler, once every goroutine of the bubble is blocked.
func (r *recorder) state() map[string]site {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.reported)
}

// contents returns what the cache holds.
func contents(in *informer.Informer[string, site]) map[string]site {
	return maps.Collect(in.Indexer().All())
}

// isBusy reports whether a call is running, once every goroutine of the bubble is blocked.
func (r *recorder) isBusy() bool {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.busy
}

func TestMain(m *testing.M) {
	if !underRace { // few goroutines run at a time; a second processor would look for work in vain, and take a fifth of the CPU time
		runtime.GOMAXPROCS(1)
	}
	debug.SetGCPercent(400) // the schedules make much garbage, and little is alive at once
	os.Exit(m.Run())
}

// must returns v. It panics if err is not nil: a test that constructs its subject from a bad Config is broken.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

var quiet = slog.New(slog.DiscardHandler)
