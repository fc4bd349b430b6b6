package cookbook

import (
	"context"
	"fmt"

	"github.com/setpoint-go/setpoint/owner"
	"github.com/setpoint-go/setpoint/store"
)

// Cloud is where the servers run.
type Cloud interface {
	Servers(ctx context.Context, site string) (int, error)
	Start(ctx context.Context, site string, n int) error
	Stop(ctx context.Context, site string, n int) error
	Rename(ctx context.Context, from, to string) error
}

// dryRun is a Cloud that only says what it would do. Its reads are real.
type dryRun struct {
	Cloud
	say func(string)
}

func (d dryRun) Start(_ context.Context, site string, n int) error {
	d.say(fmt.Sprintf("%s: would start %d", site, n))
	return nil
}

func (d dryRun) Stop(_ context.Context, site string, n int) error {
	d.say(fmt.Sprintf("%s: would stop %d", site, n))
	return nil
}

func (d dryRun) Rename(_ context.Context, from, to string) error {
	d.say(fmt.Sprintf("%s: would become %s", from, to))
	return nil
}

// adopt gives what was named after the old key of a site its new name. Call it at the beginning of the reconcile of the new key, before that looks
// for what exists. It may be called again at any time.
func adopt(ctx context.Context, c Cloud, oldKey, newKey string) error {
	n, err := c.Servers(ctx, oldKey)
	if err != nil || n == 0 {
		return err
	}
	return c.Rename(ctx, oldKey, newKey)
}

// cleaned starts the servers of a site, and stops them before the site is removed from the store. Call its Reconcile in the reconcile.
func cleaned(c Cloud) owner.Finalizer[Site] {
	return owner.Finalizer[Site]{
		Name:  "servers",
		Apply: func(ctx context.Context, s store.Object[Site]) error { return scale(ctx, c, s.Key, s.Value.Servers) },
		Cleanup: func(ctx context.Context, s store.Object[Site]) error {
			return scale(ctx, c, s.Key, 0)
		},
	}
}

// scale starts or stops servers until n are there.
func scale(ctx context.Context, c Cloud, site string, n int) error {
	is, err := c.Servers(ctx, site)
	switch {
	case err != nil:
		return err
	case is < n:
		return c.Start(ctx, site, n-is)
	case is > n:
		return c.Stop(ctx, site, is-n)
	}
	return nil
}
