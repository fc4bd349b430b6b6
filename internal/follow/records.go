package follow

import (
	"context"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store/backend"
)

// Records returns the [Loop] of a database that keeps records. It reports the changes that match q. A call of changes returns the next
// changes after a version, in order, at most batch of them, and the version up to which there are no others.
func Records(
	poll time.Duration, signal *Signal, q backend.Query, batch int,
	changes func(ctx context.Context, after informer.Version) (records []backend.Record, upTo informer.Version, err error),
) Loop[backend.Change] {
	return Loop[backend.Change]{
		Poll:   poll,
		Signal: signal,
		Read: func(
			ctx context.Context, after informer.Version, tell func(informer.Version, backend.Change) bool,
		) (informer.Version, Then, error) {
			records, upTo, err := changes(ctx, after)
			for _, r := range records {
				if q.Concern(&r) && !tell(r.Version, backend.Change{Record: r, Version: r.Version}) {
					break
				}
			}
			if len(records) == batch {
				return upTo, Again, err
			}
			return upTo, Wait, err
		},
		Bookmark: func(v informer.Version) backend.Change { return backend.Change{Version: v} },
	}
}
