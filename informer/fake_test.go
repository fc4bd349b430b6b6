package informer_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/informertest"
	"github.com/setpoint-go/setpoint/informer/internal/sitetest"
)

var errOutage = errors.New("no route to host")

type site = sitetest.Site

func nameOf(s site) string { return s.Name }

func newSource() *informertest.Source[string, site] { return informertest.NewSource(nameOf) }

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
	calls knob[spied]
}

type spied struct {
	lists, watches int
	open           int              // watches that have not been left
	after          informer.Version // where the last watch began
}

func (s *spy) List(ctx context.Context) (informer.List[site], error) {
	s.count(func(c *spied) { c.lists++ })
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
	reg   *informer.Registration

	mu    sync.Mutex
	busy  bool
	calls []string
	known map[string]site
	tail  bool // the initial objects have been told
	gaps  bool // changes may be missed, so that an update may lead from one life to another
}

func newRecorder(t testing.TB) *recorder { return &recorder{t: t, known: make(map[string]site)} }

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
			r.call(fmt.Sprintf("add %s.%d initial=%t", s.Name, s.Rev, initial), func(known site, ok bool) {
				if ok {
					r.t.Errorf("add of %v, but it knows %v", s, known)
				}
				r.known[s.Name] = s
			}, s.Name)
		},
		OnUpdate: func(old, s site) {
			r.call(fmt.Sprintf("update %s.%d %d", s.Name, old.Rev, s.Rev), func(known site, ok bool) {
				if !ok || known != old || s.Rev < old.Rev || !r.gaps && s.Life != old.Life {
					r.t.Errorf("update from %v to %v, but it knows %v (%t)", old, s, known, ok)
				}
				r.known[s.Name] = s
			}, s.Name)
		},
		OnDelete: func(d cache.Tombstone[string, site]) {
			what := fmt.Sprintf("delete %s.%d", d.Key, d.Object.Rev)
			if d.FinalStateUnknown {
				what += " unknown"
			}
			r.call(what, func(known site, ok bool) {
				if o := d.Object; !ok || o.Name != d.Key || o.Rev < known.Rev || !r.gaps && o.Life != known.Life {
					r.t.Errorf("delete of %v, but it knows %v (%t)", d, known, ok)
				}
				delete(r.known, d.Key)
			}, d.Key)
		},
	}
}

func (r *recorder) call(what string, check func(known site, ok bool), key string) {
	r.mu.Lock()
	if r.busy {
		r.t.Errorf("%s while another call runs", what)
	}
	r.busy = true
	if r.check != nil {
		r.check()
	}
	known, ok := r.known[key]
	check(known, ok)
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
	return maps.Clone(r.known)
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
