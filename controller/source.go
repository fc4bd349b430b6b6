package controller

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-go/setpoint/informer"
)

// Source fills a cache, and continues until its context ends. An *informer.Informer is a source.
//
// If a source has a method Check() error, the manager calls it.
type Source interface {
	informer.Syncer

	// Run blocks until ctx ends. A manager calls it once, unless the source fails and the manager starts it again.
	Run(ctx context.Context) error
}

// Sources returns the informers of the inputs of c, and Config.Reads, each once. A manager runs them. Without a manager, the
// program calls Run of each: Run of c does not, because it is called once for each term, an informer runs once, and two
// controllers may watch one informer.
func (c *Controller[K]) Sources() []Source {
	sources := make([]Source, 0, len(c.feeds)+len(c.cfg.Reads))
	add := func(s Source) {
		if !reflect.TypeOf(s).Comparable() || !slices.Contains(sources, s) {
			sources = append(sources, s)
		}
	}
	for _, f := range c.feeds {
		add(f.Source())
	}
	for _, s := range c.cfg.Reads {
		add(s)
	}
	return sources
}

// waitForSync waits until every one of syncers has synced, for at most limit. The end of ctx is no error.
func waitForSync(ctx context.Context, limit time.Duration, syncers []informer.Syncer) error {
	limited, cancel := context.WithTimeoutCause(ctx, limit, after(errSyncTimeout, limit))
	defer cancel()
	err := informer.WaitForSync(limited, syncers...)
	if err == nil || ctx.Err() != nil {
		return nil
	}
	if silent := unheard(syncers); len(silent) > 0 {
		return fmt.Errorf("%w; nothing was heard from the source of %s: without a manager, call Run of the informer",
			err, strings.Join(silent, ", "))
	}
	return err
}

// unheard returns the names of those of syncers that have never heard from their source.
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

// isClosed tells whether c, on which nothing is sent, is closed.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
