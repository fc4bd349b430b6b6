package controller

import (
	"context"
	"fmt"
	"strings"
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

// awaitSync waits until s has synced, ended is closed, or ctx ends. It returns an error only if limit has passed; a
// negative one does not.
func awaitSync(ctx context.Context, ended <-chan struct{}, limit time.Duration, s informer.Syncer) error {
	var late <-chan time.Time
	began := time.Now()
	if limit >= 0 {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-s.Synced():
		return nil
	case <-ended:
		return nil
	case <-ctx.Done():
		if limit < 0 || time.Since(began) < limit || isClosed(s.Synced()) {
			return nil
		}
		// What is late at the same moment as another is named too.
	case <-late:
	}
	return fmt.Errorf("%w: %s", after(ErrSyncTimeout, limit), notSynced(s))
}

// notSynced returns the names of what has not synced of s: of its members, if it is a group, or its own.
func notSynced(s informer.Syncer) string {
	members := []informer.Syncer{s}
	if group, ok := s.(interface{ Syncers() []informer.Syncer }); ok {
		members = group.Syncers()
	}
	var names []string
	for _, member := range members {
		if !isClosed(member.Synced()) {
			names = append(names, member.Name())
		}
	}
	if len(names) == 0 {
		return s.Name()
	}
	return strings.Join(names, ", ")
}
