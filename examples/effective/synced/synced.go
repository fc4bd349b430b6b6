// Package synced is chapter 2 of "Effective controllers": docs/effective/02-sync.md. A janitor deletes the servers of sites that are
// gone. The wrong one trusts a map that is still being filled. The right one waits for the caches, and reads the store before it deletes.
package synced

import (
	"context"
	"errors"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
)

// Site has one server, under its own key.
type Site struct{}

// Server holds the data of a site.
type Server struct{ Site string }

// newSites returns the controller that creates the server of each site. It calls seen for each site that it reconciles.
func newSites(
	sites store.Store[Site], servers store.Store[Server], cached *store.Informer[Site], seen func(site string, exists bool),
) (*controller.Controller[string], error) {
	return controller.New("sites", func(ctx context.Context, key string) (controller.Result, error) {
		_, err := sites.Get(ctx, key)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return controller.Result{}, err
		}
		seen(key, err == nil)
		if err != nil {
			return controller.Result{}, nil
		}
		_, err = servers.Create(ctx, store.Object[Server]{Key: key, Value: Server{Site: key}})
		return controller.Result{}, unless(err, store.ErrExists)
	}, controller.Config[string]{}, controller.For(cached))
}

// caches returns the informers of both kinds.
func caches(sites store.Store[Site], servers store.Store[Server]) (*store.Informer[Site], *store.Informer[Server], error) {
	cached, err := informer.New(sites, store.Key, informer.Config{Name: "sites"})
	if err != nil {
		return nil, nil, err
	}
	running, err := informer.New(servers, store.Key, informer.Config{Name: "servers"})
	return cached, running, err
}

// unless returns err, or nil if the error means that the work was already done.
func unless(err, done error) error {
	if errors.Is(err, done) {
		return nil
	}
	return err
}
