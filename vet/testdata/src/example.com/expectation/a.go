package expectation

import (
	"context"

	"github.com/setpoint-go/setpoint/expectations"
	"github.com/setpoint-go/setpoint/store"
)

type Pod struct{}

func late(ctx context.Context, pods store.Store[Pod], exp *expectations.Counted[string], key string) error {
	if _, err := pods.Create(ctx, store.Object[Pod]{Key: key}); err != nil {
		return err
	}
	exp.ExpectCreations(key, 1) // want `the event of Store.Create can arrive before this expectation, .*chapter 3`
	return nil
}

func kept(ctx context.Context, pods store.Store[Pod], exp *expectations.Counted[string], key string) error {
	exp.ExpectCreations(key, 2) // want `if the write fails, no event comes, and the reconcile waits until the TTL`
	for range 2 {
		if _, err := pods.Create(ctx, store.Object[Pod]{Key: key}); err != nil {
			return err
		}
	}
	return nil
}

// Expectations is that of another library, with the same methods.
type Expectations interface {
	ExpectCreations(key string, n int)
	CreationObserved(key string)
}

func other(ctx context.Context, pods store.Store[Pod], exp Expectations, key string) error {
	_, err := pods.Create(ctx, store.Object[Pod]{Key: key})
	exp.ExpectCreations(key, 1) // want `the event of Store.Create can arrive`
	return err
}

func right(ctx context.Context, pods store.Store[Pod], exp *expectations.Counted[string], key string) error {
	exp.ExpectCreations(key, 1)
	if _, err := pods.Create(ctx, store.Object[Pod]{Key: key}); err != nil {
		exp.CreationObserved(key)
		return err
	}
	exp.ExpectDeletions(key, 1)
	if _, err := pods.Delete(ctx, key); err != nil {
		exp.LowerExpectations(key, 0, 1)
		return err
	}
	return nil
}

// tracked does not know the identity before the write.
func tracked(ctx context.Context, pods store.Store[Pod], exp *expectations.Tracked[string, string], key string) error {
	exp.Begin(key)
	defer exp.End(key)
	pod, err := pods.Create(ctx, store.Object[Pod]{Key: key})
	if err != nil {
		return err
	}
	exp.ExpectCreations(key, pod.Key)
	return nil
}

// Machine is not a store, but its processes have events too.
type Machine interface {
	Start(ctx context.Context, id string) error
	Stop(ctx context.Context, id string) error
}

func lateForMachine(ctx context.Context, m Machine, exp *expectations.Counted[string], key string, ids []string) error {
	for _, id := range ids {
		if err := m.Start(ctx, id); err != nil {
			exp.CreationObserved(key)
			return err
		}
	}
	exp.ExpectCreations(key, len(ids)) // want `the event of Machine.Start can arrive before this expectation`
	return nil
}

func lateInLoop(ctx context.Context, m Machine, exp *expectations.Counted[string], key string, ids []string) (err error) {
	for _, id := range ids {
		if err = m.Stop(ctx, id); err != nil {
			continue
		}
		exp.ExpectDeletions(key, 1) // want `the event of Machine.Stop can arrive before this expectation`
	}
	return err
}

func lowersOtherKind(ctx context.Context, m Machine, exp *expectations.Counted[string], key, id string) error {
	exp.ExpectDeletions(key, 1) // want `if the write fails, no event comes`
	if err := m.Stop(ctx, id); err != nil {
		exp.CreationObserved(key)
		return err
	}
	return nil
}

func rightForMachine(ctx context.Context, m Machine, exp *expectations.Counted[string], key string, ids []string) error {
	exp.ExpectCreations(key, len(ids))
	for i, id := range ids {
		if err := m.Start(ctx, id); err != nil {
			for range ids[i:] {
				exp.CreationObserved(key)
			}
			return err
		}
	}
	return nil
}

func rightWithHelper(ctx context.Context, m Machine, exp *expectations.Counted[string], key, id string) error {
	exp.ExpectDeletions(key, 1)
	return stopOrLower(ctx, m, exp, key, id)
}

func stopOrLower(ctx context.Context, m Machine, exp *expectations.Counted[string], key, id string) error {
	err := m.Stop(ctx, id)
	if err != nil {
		exp.DeletionObserved(key)
	}
	return err
}

// rightAfterRead reads before it expects.
func rightAfterRead(ctx context.Context, pods store.Store[Pod], m Machine, exp *expectations.Counted[string], key string) error {
	if _, err := pods.Get(ctx, key); err != nil {
		return err
	}
	exp.ExpectCreations(key, 1)
	err := m.Start(ctx, key)
	if err != nil {
		exp.CreationObserved(key)
	}
	return err
}

func beforeTheCheck(ctx context.Context, m Machine, exp *expectations.Counted[string], key string, ids []string) error {
	for _, id := range ids {
		err := m.Start(ctx, id)
		exp.ExpectCreations(key, 1) // want `the event of Machine.Start can arrive before this expectation`
		if err != nil {
			exp.CreationObserved(key)
			return err
		}
	}
	return nil
}

func beforeTheNext(ctx context.Context, m Machine, exp *expectations.Counted[string], key string) error {
	err := m.Stop(ctx, key) // of which no event is expected
	exp.ExpectCreations(key, 1)
	if err == nil {
		err = m.Start(ctx, key)
	}
	if err != nil {
		exp.CreationObserved(key)
	}
	return err
}
