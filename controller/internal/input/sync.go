package input

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/setpoint-go/setpoint/informer"
)

// WaitForSync waits until all syncers have synced, for at most limit; then its error wraps tooLong. It returns nil if ctx ends.
func WaitForSync(ctx context.Context, syncers []informer.Syncer, limit time.Duration, tooLong error) error {
	limited, cancel := context.WithTimeoutCause(ctx, limit, tooLong)
	defer cancel()
	err := informer.WaitForSync(limited, syncers...)
	if err == nil || ctx.Err() != nil {
		return nil
	}
	if silent := unheard(syncers); len(silent) > 0 {
		return fmt.Errorf("%w; the source of %s has never answered: without a manager, call Run of the informer",
			err, strings.Join(silent, ", "))
	}
	return err
}

// unheard returns the names of the syncers whose source has never answered.
func unheard(syncers []informer.Syncer) (names []string) {
	for _, s := range syncers {
		if s, ok := s.(interface {
			Name() string
			LastHeard() time.Time
		}); ok && s.LastHeard().IsZero() {
			names = append(names, s.Name())
		}
	}
	return names
}

// Silent returns the names of the informers whose source has been silent for d: see [informer.Informer.Stale].
func (fs *Feeds[K]) Silent(d time.Duration) (names []string) {
	for _, in := range fs.informers {
		s, ok := in.(interface {
			Name() string
			Stale(d time.Duration) bool
		})
		if ok && s.Stale(d) {
			names = append(names, s.Name())
		}
	}
	return names
}
