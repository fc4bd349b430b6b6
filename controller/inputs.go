package controller

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/broadcast"
)

// inputs are the inputs of one controller, and its informers. start starts them together; a stop ends them together. All methods are safe
// for concurrent use, but call start again only after stop has returned.
type inputs[K comparable] struct {
	feeds     []*feed[K]
	informers []Informer       // each once; never changed
	attaching broadcast.Signal // attached is set

	mu sync.Mutex
	// mu guards the following.
	attached *attachment // nil while the feeds are not started
}

// attachment is the state of the feeds during one start.
type attachment struct {
	ctx      context.Context
	users    sync.WaitGroup // of what is present; inputs.mu guards Add
	handlers []informer.Registration
	syncers  []informer.Syncer // of all informers and handlers
}

// newInputs returns inputs that are not started. Their informers are those of feeds, and others, each once.
func newInputs[K comparable](feeds []*feed[K], others []Informer) *inputs[K] {
	in := &inputs[K]{feeds: feeds}
	add := func(inf Informer) {
		if !reflect.TypeOf(inf).Comparable() || !slices.Contains(in.informers, inf) {
			in.informers = append(in.informers, inf)
		}
	}
	for _, f := range feeds {
		add(f.informer)
	}
	for _, inf := range others {
		add(inf)
	}
	return in
}

// start starts the feeds, and returns what to wait for before their keys can be reconciled. If beside is not nil, start calls it in a
// goroutine; it must return when its context ends. stop ends all of this. If start panics or returns an error, which names the informer
// that has ended, it leaves nothing behind, and stop is nil.
func (in *inputs[K]) start(
	ctx context.Context, beside func(ctx context.Context, syncers []informer.Syncer),
) (syncers []informer.Syncer, stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	made := &attachment{ctx: ctx}
	started := 0
	end := func() {
		in.attach(nil) // before the handlers are removed, so that a waiter for a handler knows why it has ended
		cancel()
		made.users.Wait() // before the feeds, whose mappings they use
		for _, f := range in.feeds[:started] {
			f.stop()
		}
	}
	ok := false
	defer func() {
		if !ok { // an informer has ended, or a function that makes a handler has panicked
			end()
		}
	}()
	for _, inf := range in.informers {
		made.syncers = append(made.syncers, inf)
	}
	for _, f := range in.feeds {
		started++
		handler, err := f.start(ctx)
		if err != nil {
			return nil, nil, fmt.Errorf("watch %s: %w", f.informer.Name(), err)
		}
		made.syncers = append(made.syncers, handler)
		made.handlers = append(made.handlers, handler)
	}
	in.attach(made)
	if beside != nil {
		// It ends with ctx; stop waits for it.
		made.users.Go(func() { beside(ctx, made.syncers) })
	}
	ok = true
	return made.syncers, end, nil
}

// attach records that the feeds are started, or, if made is nil, that they are not.
func (in *inputs[K]) attach(made *attachment) {
	in.mu.Lock()
	in.attached = made
	in.mu.Unlock()
	if made != nil {
		in.attaching.Wake()
	}
}

// attachment returns the current attachment, or nil if there is none, and a channel that is closed when there is one.
func (in *inputs[K]) attachment() (*attachment, <-chan struct{}) {
	attaching := in.attaching.Next() // before the look, so that no start is missed between the two
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.attached, attaching
}

// started reports whether the feeds are started.
func (in *inputs[K]) started() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.attached != nil
}

// synced reports whether the feeds are started, and all informers and handlers have synced.
func (in *inputs[K]) synced() bool {
	in.mu.Lock()
	made := in.attached
	in.mu.Unlock()
	return made != nil && !slices.ContainsFunc(made.syncers, func(s informer.Syncer) bool {
		select {
		case <-s.Synced():
			return false
		default:
			return true
		}
	})
}

// present adds the keys of all present objects that count: those of a slot if their informer is divided, and slot is not noSlot. It returns
// early when the feeds are stopped, and adds no key if they are not
// started. A stop waits for it.
func (in *inputs[K]) present(slot int, add func(K)) {
	made := in.use()
	if made == nil {
		return
	}
	defer made.users.Done()
	for _, f := range in.feeds {
		f.present(made.ctx, slot, add)
	}
}

// use returns the current attachment with one more user, or nil if there is none.
func (in *inputs[K]) use() *attachment {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.attached != nil {
		in.attached.users.Add(1)
	}
	return in.attached
}

// waitMapped waits until everything that the caches hold now has been mapped. If the feeds are not started, or are stopped in the meantime,
// it waits for the next start. Without a feed it returns at once.
func (in *inputs[K]) waitMapped(ctx context.Context) error {
	for len(in.feeds) > 0 {
		made, attaching := in.attachment()
		if made == nil {
			select {
			case <-attaching:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			continue
		}
		err := made.wait(ctx)
		if err == nil {
			return nil
		}
		if now, _ := in.attachment(); now == made || ctx.Err() != nil {
			return err
		}
		// The handler was removed because the feeds were stopped.
	}
	return nil
}

// wait waits until the handlers have handled everything that the caches hold.
func (made *attachment) wait(ctx context.Context) error {
	for _, handler := range made.handlers {
		if err := handler.WaitIdle(ctx); err != nil {
			return err
		}
	}
	return nil
}

// contains reports whether one of the feeds made by [For] has an object under key.
func (in *inputs[K]) contains(key K) bool {
	return slices.ContainsFunc(in.feeds, func(f *feed[K]) bool { return f.contains != nil && f.contains(key) })
}

// unmapped returns the number of objects that could not be mapped yet.
func (in *inputs[K]) unmapped() (n int) {
	for _, f := range in.feeds {
		n += f.unmapped()
	}
	return n
}

// waitForSync waits until all syncers have synced, for at most limit; then its error wraps tooLong. It returns nil if ctx ends.
func waitForSync(ctx context.Context, syncers []informer.Syncer, limit time.Duration, tooLong error) error {
	limited, cancel := context.WithTimeoutCause(ctx, limit, tooLong)
	defer cancel()
	err := informer.WaitForSync(limited, syncers...)
	if err == nil || ctx.Err() != nil {
		return nil
	}
	if silent := neverAnswered(syncers); len(silent) > 0 {
		return fmt.Errorf("%w; the source of %s has never answered: without a manager, call Run of the informer",
			err, strings.Join(silent, ", "))
	}
	return err
}

// neverAnswered returns the names of the syncers whose source has never answered.
func neverAnswered(syncers []informer.Syncer) (names []string) {
	for _, s := range syncers {
		if s, ok := s.(interface {
			Name() string
			LastReceived() time.Time
		}); ok && s.LastReceived().IsZero() {
			names = append(names, s.Name())
		}
	}
	return names
}

// silent returns the names of the informers whose source has been silent for d: see [informer.Informer.Stale].
func (in *inputs[K]) silent(d time.Duration) (names []string) {
	for _, inf := range in.informers {
		s, ok := inf.(interface {
			Name() string
			Stale(d time.Duration) bool
		})
		if ok && s.Stale(d) {
			names = append(names, s.Name())
		}
	}
	return names
}
