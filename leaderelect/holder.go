package leaderelect

import (
	"context"
	"fmt"
	"time"
)

// Holder reads who holds the lease of a key, for those who want to ask the leader and do not compete themselves: its
// Metadata can carry an address. It returns an error that wraps [ErrNotFound] when nobody holds the lease. A holder that
// was killed is returned until another has taken over; Holder cannot tell.
func Holder(ctx context.Context, s LeaseStore, key string) (Leader, error) {
	e, err := s.Get(ctx, key)
	if err != nil {
		return Leader{}, fmt.Errorf("leaderelect: read the holder of %q: %w", key, err)
	}
	v := viewOf(e, time.Now())
	if !v.readable {
		return Leader{}, fmt.Errorf("leaderelect: read the holder of %q: %w", key, errUnreadable)
	}
	if !v.held() {
		return Leader{}, fmt.Errorf("leaderelect: read the holder of %q: the lease is free: %w", key, ErrNotFound)
	}
	return v.rec.leader(), nil
}
