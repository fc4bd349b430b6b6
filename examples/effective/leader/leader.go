// Package leader is chapter 8 of "Effective controllers": docs/effective/08-leader.md. One of several replicas configures a load balancer.
// The wrong controller relies on being the only one. The right one sends its term along, and the load balancer refuses a
// term that is lower than one that it has seen.
package leader

import "context"

// Site is what the user wants, and the backend that the controller has set.
type Site struct {
	Backend string
	Status  struct{ Routed string } `store:"status"`
}

// API is the API of a load balancer.
type API interface {
	Route(ctx context.Context, site, backend string) error
	RouteAs(ctx context.Context, term uint64, site, backend string) error
}
