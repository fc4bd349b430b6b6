package controller

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
	origin  origin[K]
	to      func(ctx context.Context, obj T) ([]K, error)
	retries *workqueue.Queue[S] // the keys of objects to map again

	ctx     context.Context // of the present Run; set by start
	running sync.WaitGroup

	failed atomic.Int64 // the number of keys of states and of again; written with mu held

	mu sync.Mutex
	// mu guards the following. Invariant: a key of states is in retries, or is being mapped.
	states map[S]unmapped[T]
	again  *remap[S] // nil: nothing is being mapped again
}

// remap is the object whose states are being mapped again.
type remap[S comparable] struct {
	key    S
	newest bool // the last of the states is still the newest reported one
}

// maxStates is the number of states of one object that are kept to be mapped again.
const maxStates = 100

// unmapped is the states of one object that could not be mapped.
type unmapped[T any] struct {
	states []T       // the oldest first
	newest bool      // the last of states is the newest reported one
	what   eventType // why the keys are added: the last news, if there is any
	trace  string    // the trace context of the last change that has one
	lane   Lane
}

func newMapping[K, S comparable, T any](o origin[K], to func(context.Context, T) ([]K, error)) *mapping[K, S, T] {
	retries, err := workqueue.New(workqueue.Config[S]{
		Name: o.name, Logger: slog.New(slog.DiscardHandler), // put logs failures
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
			defer m.retried()
			return m.mapAll(item.Key, states)
		})
	})
}

// wait returns when what start has started has ended.
func (m *mapping[K, S, T]) wait() { m.running.Wait() }

// unmapped returns the number of objects that could not be mapped.
func (m *mapping[K, S, T]) unmapped() int { return int(m.failed.Load()) }

// handle maps a change. States of the same object that could not be mapped before wait for their retry, or until a change is mapped: if each
// change mapped all of them again, an outage with many changes would cost a number of calls that grows with the square of that.
func (m *mapping[K, S, T]) handle(key S, e event[T]) {
	var keys [2][]K
	var errs [2]error
	waits, newest := m.waits(key)
	if e.hasOld() && !(e.what == updated && newest) { // otherwise the old state is the newest of those that wait
		keys[0], errs[0] = m.call(e.old)
	}
	if e.hasNew() {
		keys[1], errs[1] = m.call(e.new)
	}
	addAll(func(k K) { addFor(m.origin, k, key, &e) }, keys[0], keys[1])
	if errs[0] == nil && errs[1] == nil {
		if waits { // whatever was wrong may be over
			m.retries.Add(key)
		}
		return
	}
	failed := unmapped[T]{newest: errs[1] != nil, what: e.what, trace: e.trace, lane: e.lane}
	if errs[0] != nil {
		failed.states = append(failed.states, e.old)
	}
	if errs[1] != nil {
		failed.states = append(failed.states, e.new)
	}
	m.orRetry(key, m.put(key, failed, false, errors.Join(errs[:]...)))
}

// keys adds the keys of one object, whose state is not news. If the mapping fails, it is retried as for a change.
func (m *mapping[K, S, T]) keys(key S, obj T, add func(K)) {
	keys, err := m.call(obj)
	if err != nil {
		m.orRetry(key, m.put(key, unmapped[T]{states: []T{obj}, what: repeated, lane: m.origin.lane()}, false, err))
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

// mapAll maps all states of the retry again, adds the keys of those that could be mapped, and keeps the others.
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
	var err error
	if len(failed) > 0 {
		still := u
		still.newest, still.states = last == len(u.states)-1, failed
		err = m.put(key, still, true, errors.Join(errs...))
	}
	m.retried() // before the adds: a change that comes after them must add the key of its old state again
	addAll(func(key K) { m.origin.add(key, m.origin.addition(u.what, u.trace, u.lane)) }, all, nil)
	return err
}

// put keeps the states of key that could not be mapped, as keep does, and logs err. It returns err.
func (m *mapping[K, S, T]) put(key S, u unmapped[T], retried bool, err error) error {
	m.keep(key, u, retried)
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
		checkError(err)
		return nil, err
	}
	return keys, nil
}

// take removes and returns the unmapped states of key for a retry, which ends with retried.
func (m *mapping[K, S, T]) take(key S) (unmapped[T], bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	u, ok := m.states[key]
	if ok {
		delete(m.states, key)
		m.again = &remap[S]{key, u.newest}
	}
	return u, ok
}

// retried ends the retry.
func (m *mapping[K, S, T]) retried() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.again = nil
	m.count()
}

// count updates failed.
func (m *mapping[K, S, T]) count() {
	n := len(m.states)
	if r := m.again; r != nil {
		if _, ok := m.states[r.key]; !ok {
			n++
		}
	}
	m.failed.Store(int64(n))
}

// keep stores unmapped states of key. Those of a retry are older than those stored since; others are newer. If there are too many, it
// drops those in the middle.
func (m *mapping[K, S, T]) keep(key S, u unmapped[T], retried bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if retried {
		u.newest = u.newest && m.again.newest
	}
	if stored, ok := m.states[key]; ok && retried {
		u = u.then(stored)
	} else if ok {
		u = stored.then(u)
	}
	if n := len(u.states); n > maxStates {
		u.states = slices.Delete(u.states, 1, 1+n-maxStates)
	}
	m.states[key] = u
	m.count()
}

// then returns the states of u and the later ones.
func (u unmapped[T]) then(later unmapped[T]) unmapped[T] {
	return unmapped[T]{
		append(u.states, later.states...), later.newest, u.what.and(later.what), cmp.Or(later.trace, u.trace), u.lane.merge(later.lane),
	}
}

// waits reports whether states of key wait to be mapped again, or are being mapped again, and whether the newest reported one does. A newer one comes now.
func (m *mapping[K, S, T]) waits(key S) (any, newest bool) {
	if m.failed.Load() == 0 { // nearly always
		return false, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if u, ok := m.states[key]; ok {
		newest, u.newest = u.newest, false
		m.states[key] = u
		return true, newest
	}
	if r := m.again; r != nil && r.key == key {
		newest, r.newest = r.newest, false
		return true, newest
	}
	return false, false
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
