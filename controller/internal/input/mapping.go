package input

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/setpoint-go/setpoint/wait"
	"github.com/setpoint-go/setpoint/workqueue"
)

// mapping maps the objects of one watch to keys of its controller. It retries mappings that fail.
type mapping[K, S comparable, T any] struct {
	origin  Origin[K]
	to      func(ctx context.Context, obj T) ([]K, error)
	retries *workqueue.Queue[S] // the keys of objects to map again

	ctx     context.Context // of the present Run; set by start
	running sync.WaitGroup

	failed atomic.Int64 // the number of keys of states; written with mu held

	mu sync.Mutex
	// mu guards the following. Invariant: a key of states is in retries, or is being mapped.
	states map[S]unmapped[T]
}

// maxStates is the number of states of one object that are kept to be mapped again.
const maxStates = 100

// unmapped is the states of one object that could not be mapped.
type unmapped[T any] struct {
	states []T       // the oldest first
	newest bool      // the last of states is the newest reported one
	what   happening // why the keys are added: the last news, if there is any
	trace  string    // the trace context of the last change that has one
}

func newMapping[K, S comparable, T any](o Origin[K], to func(context.Context, T) ([]K, error)) *mapping[K, S, T] {
	retries, err := workqueue.New(workqueue.Config[S]{
		Name: o.Name, Logger: slog.New(slog.DiscardHandler), // put logs failures
		RateLimiter: workqueue.NewItemExponentialFailureRateLimiter[S](5*time.Millisecond, time.Minute),
	})
	if err != nil {
		panic(err) // only the name in this Config comes from the caller
	}
	return &mapping[K, S, T]{origin: o, to: to, states: make(map[S]unmapped[T]), retries: retries}
}

// start retries failed mappings until ctx ends, those of the previous Run at once.
func (m *mapping[K, S, T]) start(ctx context.Context) {
	m.ctx = ctx
	for _, k := range m.retries.Snapshot() {
		m.retries.Add(k.Key)
	}
	// Retries without blocking the handler. It ends with ctx; wait waits for it.
	m.running.Go(func() {
		// It returns nil.
		_ = m.retries.Run(ctx, 1, func(_ context.Context, item workqueue.Item[S]) error {
			states, ok := m.take(item.Key)
			if !ok {
				return nil
			}
			states.newest = false // may be false by the time it is kept again
			return m.mapAll(item.Key, states)
		})
	})
}

// wait returns when what start has started has ended.
func (m *mapping[K, S, T]) wait() { m.running.Wait() }

// unmapped returns the number of objects that could not be mapped.
func (m *mapping[K, S, T]) unmapped() int { return int(m.failed.Load()) }

// told maps a change, and the states of the same object that could not be mapped before.
func (m *mapping[K, S, T]) told(key S, e event[T]) {
	if m.failed.Load() > 0 {
		if before, ok := m.take(key); ok {
			if e.had() && !(e.what == updated && before.newest) { // otherwise the old state is the newest of before
				before.states = append(before.states, e.old)
			}
			if e.has() {
				before.states = append(before.states, e.new)
			}
			before.newest, before.what, before.trace = true, before.what.and(e.what), cmp.Or(e.trace, before.trace)
			m.orRetry(key, m.mapAll(key, before))
			return
		}
	}
	// The path of nearly all changes. It needs no list of states.
	var keys [2][]K
	var errs [2]error
	if e.had() {
		keys[0], errs[0] = m.call(e.old)
	}
	if e.has() {
		keys[1], errs[1] = m.call(e.new)
	}
	m.add(keys[0], keys[1], e.what, e.trace)
	if errs[0] == nil && errs[1] == nil {
		return
	}
	failed := unmapped[T]{newest: errs[1] != nil, what: e.what, trace: e.trace}
	if errs[0] != nil {
		failed.states = append(failed.states, e.old)
	}
	if errs[1] != nil {
		failed.states = append(failed.states, e.new)
	}
	m.orRetry(key, m.put(key, failed, errors.Join(errs[:]...)))
}

// keys adds the keys of one object, whose state is not news. If the mapping fails, it is retried as for a change.
func (m *mapping[K, S, T]) keys(key S, obj T, add func(K)) {
	keys, err := m.call(obj)
	if err != nil {
		m.orRetry(key, m.put(key, unmapped[T]{states: []T{obj}, what: repeated}, err))
	}
	for _, key := range keys {
		add(key)
	}
}

// orRetry makes key be mapped again if there is an error.
func (m *mapping[K, S, T]) orRetry(key S, err error) {
	if err != nil {
		m.retries.AddRateLimited(key)
	}
}

// mapAll maps all states, adds the keys of those that could be mapped, and keeps the others.
func (m *mapping[K, S, T]) mapAll(key S, u unmapped[T]) error {
	var all []K
	var failed []T
	var errs []error
	last := -1
	for i, state := range u.states {
		keys, err := m.call(state)
		if err != nil {
			failed, errs = append(failed, state), append(errs, err)
			last = i
		}
		all = append(all, keys...)
	}
	m.add(all, nil, u.what, u.trace)
	if len(failed) == 0 {
		return nil
	}
	u.newest = u.newest && last == len(u.states)-1
	u.states = failed
	return m.put(key, u, errors.Join(errs...))
}

// put keeps the states of key that could not be mapped, and logs err. It returns err.
func (m *mapping[K, S, T]) put(key S, u unmapped[T], err error) error {
	m.keep(key, u)
	if m.ctx.Err() == nil {
		m.origin.log(m.ctx, "mapping failed, will be retried", key, err)
	}
	return err
}

// call calls the user function. It captures a panic, even one in a method of the returned error.
func (m *mapping[K, S, T]) call(state T) (keys []K, err error) {
	defer func() {
		if v := recover(); v != nil {
			keys, err = nil, &wait.PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	keys, err = m.to(m.ctx, state)
	if err != nil {
		m.origin.To.Check(err)
		return nil, err
	}
	return keys, nil
}

// add adds the keys to the controller.
func (m *mapping[K, S, T]) add(a, b []K, what happening, trace string) {
	addAll(func(key K) { m.origin.add(key, what, trace) }, a, b)
}

// take removes and returns the unmapped states of key.
func (m *mapping[K, S, T]) take(key S) (unmapped[T], bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	u, ok := m.states[key]
	if ok {
		delete(m.states, key)
		m.failed.Add(-1)
	}
	return u, ok
}

// keep stores the unmapped states of key, before those stored since. If there are too many, it drops those in the middle.
func (m *mapping[K, S, T]) keep(key S, u unmapped[T]) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if since, ok := m.states[key]; ok {
		u.states, u.newest = append(u.states, since.states...), since.newest
		u.what, u.trace = u.what.and(since.what), cmp.Or(since.trace, u.trace)
	} else {
		m.failed.Add(1)
	}
	if n := len(u.states); n > maxStates {
		u.states = slices.Delete(u.states, 1, 1+n-maxStates)
	}
	m.states[key] = u
}

// addAll adds the keys of a and of b, each once: a second add while a worker has the key would bring it back for nothing.
func addAll[K comparable](add func(K), a, b []K) {
	keys := a
	switch {
	case len(a) == 0:
		keys = b
	case len(b) > 0 && !slices.Equal(a, b):
		keys = slices.Concat(a, b)
	}
	if len(keys) == 1 { // by far the most common case
		add(keys[0])
		return
	}
	added := make(map[K]struct{}, len(keys))
	for _, key := range keys {
		if _, ok := added[key]; !ok {
			added[key] = struct{}{}
			add(key)
		}
	}
}
