package controller

import (
	"context"
	"time"

	"github.com/setpoint-go/setpoint/informer"
)

// waitForSync waits until every one of syncers has synced, for at most limit. The end of ctx is no error.
func waitForSync(ctx context.Context, limit time.Duration, syncers []informer.Syncer) error {
	limited, cancel := context.WithTimeoutCause(ctx, limit, after(ErrSyncTimeout, limit))
	defer cancel()
	if err := informer.WaitForSync(limited, syncers...); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}
