package informer

import "time"

// timers are what the time makes an informer do: list again after an object could not be applied, and resync. They are used
// by the goroutine that applies.
type timers[K comparable, T any] struct {
	in     *Informer[K, T]
	retry  *time.Timer      // nil while nothing has failed
	again  <-chan time.Time // of retry
	resync *time.Timer
}

func newTimers[K comparable, T any](in *Informer[K, T]) *timers[K, T] {
	return &timers[K, T]{in: in, resync: time.NewTimer(never)}
}

// set sets the timers for what has happened since the last call.
func (t *timers[K, T]) set() {
	if next, changed := t.in.nextResync(); changed {
		t.resync.Reset(next)
	}
	t.again = nil
	if t.retry = t.in.applier.retry(t.retry, t.in.cfg.Backoff); t.retry != nil {
		t.again = t.retry.C
	}
}

// relist asks for a list, when retry has fired.
func (t *timers[K, T]) relist() {
	t.retry, t.again = nil, nil
	t.in.reflector.order(&t.in.reflector.relist)
}

func (t *timers[K, T]) stop() {
	t.resync.Stop()
	if t.retry != nil {
		t.retry.Stop()
	}
}
