package owner_test

import (
	"context"
	"errors"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
)

var errCrash = errors.New("crash")

// crasher stops a process before or after its n-th step. What the process asks of its stores, and whatever else goes through
// around, is a step. Even numbers are before one, odd numbers after it: then it is done, and nobody knows.
type crasher struct {
	at, now int
	others  func(now int) // another writer's action at this moment; may be nil
}

// around takes a step.
func (c *crasher) around(do func() error) error {
	if err := c.moment(); err != nil {
		return err
	}
	err := do()
	if crash := c.moment(); crash != nil {
		return crash
	}
	return err
}

func (c *crasher) moment() error {
	now := c.now
	c.now++
	if c.others != nil {
		c.others(now)
	}
	if now == c.at {
		return errCrash
	}
	return nil
}

// fragile is a store as a process sees it that may crash.
type fragile[T any] struct {
	store.Store[T]
	*crasher
}

func (s fragile[T]) Get(ctx context.Context, key string) (o store.Object[T], err error) {
	err = s.around(func() error { o, err = s.Store.Get(ctx, key); return err })
	return o, err
}

func (s fragile[T]) Select(ctx context.Context, sel store.Selector) (l informer.List[store.Object[T]], err error) {
	err = s.around(func() error { l, err = s.Store.Select(ctx, sel); return err })
	return l, err
}

func (s fragile[T]) Create(ctx context.Context, o store.Object[T], pre ...store.Precondition) (out store.Object[T], err error) {
	err = s.around(func() error { out, err = s.Store.Create(ctx, o, pre...); return err })
	return out, err
}

func (s fragile[T]) Update(ctx context.Context, o store.Object[T], pre ...store.Precondition) (out store.Object[T], err error) {
	err = s.around(func() error { out, err = s.Store.Update(ctx, o, pre...); return err })
	return out, err
}

func (s fragile[T]) Delete(ctx context.Context, key string, pre ...store.Precondition) (out store.Object[T], err error) {
	err = s.around(func() error { out, err = s.Store.Delete(ctx, key, pre...); return err })
	return out, err
}
