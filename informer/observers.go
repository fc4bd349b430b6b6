package informer

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/setpoint-go/setpoint/wait"
)

// observers are the functions of OnVersion, OnReadable, or OnUnread. The zero value has none. All methods are safe for concurrent use.
type observers[A any] struct {
	mu sync.Mutex
	// mu guards the following.
	all []*func(A) // never changed in place
}

// add adds f, until stop is called.
func (o *observers[A]) add(f func(A)) (stop func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	this := &f
	o.all = slices.Concat(o.all, []*func(A){this})
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.all = without(o.all, this)
	}
}

// list returns the functions, for callObservers.
func (o *observers[A]) list() []*func(A) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all
}

// callObservers calls functions of OnVersion, OnReadable, or OnUnread, as name says.
func callObservers[A any](functions []*func(A), arg A, name, informer string, onError func(error)) {
	for _, f := range functions {
		err := wait.Call(context.Background(), func(context.Context) error { (*f)(arg); return nil })
		if err != nil {
			onError(fmt.Errorf("informer: call %s of %s: %w", name, informer, err))
		}
	}
}
