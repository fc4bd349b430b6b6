package follow

import (
	"context"
	"slices"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/broadcast"
	"github.com/setpoint-go/setpoint/store/backend"
)

// Records returns the [Loop] of a database that keeps records. It reports the changes that match q. A call of changes returns the next
// changes after a version: at most batch of them, in order. It also returns the version up to which there are no others.
func Records(
	poll time.Duration, signal *broadcast.Signal, q backend.Query, batch int,
	changes func(ctx context.Context, after informer.Version) (all []backend.Change, upTo informer.Version, err error),
) Loop[backend.Change] {
	return Loop[backend.Change]{
		Poll:   poll,
		Signal: signal,
		Read: func(ctx context.Context, after informer.Version) (Page[backend.Change], error) {
			all, upTo, err := changes(ctx, after)
			p := Page[backend.Change]{UpTo: upTo}
			if len(all) == batch {
				p.Then = Again
			}
			p.Events = slices.DeleteFunc(all, func(c backend.Change) bool { return !q.Concern(&c.Record) })
			return p, err
		},
		VersionOf: func(c backend.Change) informer.Version { return c.Version },
		Bookmark:  func(v informer.Version) backend.Change { return backend.Change{Version: v} },
	}
}
