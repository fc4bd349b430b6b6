package controller

import (
	"context"
	"sync"

	"github.com/setpoint-go/setpoint/informer"
)

// versionFeed tells how far a cache is.
type versionFeed struct {
	cache interface {
		Name() string
		Version() informer.Version
		WaitForVersion(ctx context.Context, v informer.Version) error
	}
	observe func(version uint64)
	running sync.WaitGroup
}

func (f *versionFeed) Name() string  { return f.cache.Name() }
func (f *versionFeed) unmapped() int { return 0 }
func (f *versionFeed) stop()         { f.running.Wait() }

func (f *versionFeed) start(ctx context.Context) (informer.Syncer, error) {
	// Waits for the next version. It ends with ctx, or with the informer; stop waits for it.
	f.running.Go(func() {
		for {
			at := f.cache.Version()
			f.observe(uint64(at))
			if f.cache.WaitForVersion(ctx, at+1) != nil {
				return
			}
		}
	})
	return nil, nil
}
