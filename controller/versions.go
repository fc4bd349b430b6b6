package controller

import (
	"context"
	"sync"

	"github.com/setpoint-go/setpoint/informer"
)

// versionFeed tells how far a cache is.
type versionFeed struct {
	of      Cache
	observe func(version uint64)
	running sync.WaitGroup
}

func (f *versionFeed) Name() string  { return f.of.Name() }
func (f *versionFeed) cache() Cache  { return nil } // a Watch tells it
func (f *versionFeed) unmapped() int { return 0 }
func (f *versionFeed) stop()         { f.running.Wait() }

func (f *versionFeed) start(ctx context.Context) (informer.Syncer, error) {
	// Waits for the next version. It ends with ctx, or with the informer; stop waits for it.
	f.running.Go(func() {
		for {
			at := f.of.Version()
			f.observe(uint64(at))
			if f.of.WaitForVersion(ctx, at+1) != nil {
				return
			}
		}
	})
	return nil, nil
}
