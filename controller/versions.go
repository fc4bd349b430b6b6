package controller

import (
	"context"

	"github.com/setpoint-go/setpoint/informer"
)

// versionFeed tells how far a cache is.
type versionFeed struct {
	of interface {
		Cache
		OnVersion(f func(informer.Version)) (stop func())
	}
	observe func(version uint64)
	end     func()
}

func (f *versionFeed) Name() string  { return f.of.Name() }
func (f *versionFeed) cache() Cache  { return nil } // a Watch tells it
func (f *versionFeed) unmapped() int { return 0 }
func (f *versionFeed) stop()         { f.end() }

func (f *versionFeed) start(context.Context) (informer.Syncer, error) {
	f.end = f.of.OnVersion(func(v informer.Version) { f.observe(uint64(v)) })
	// What was reached before. If a new history begins meanwhile, the version that was read belongs to the old one.
	for v := f.of.Version(); v > 0; v = f.of.Version() {
		if f.observe(uint64(v)); f.of.Version() >= v {
			break
		}
		f.observe(0)
	}
	return nil, nil
}
