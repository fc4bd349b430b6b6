// Package crash is chapter 5 of "Effective controllers": docs/effective/05-crash.md. A controller creates a network in a cloud, and
// then a record that points to it. The wrong one forgets its work when it crashes. The right one can repeat every step.
package crash

import (
	"context"
	"errors"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
)

// Network is what the user wants.
type Network struct {
	CIDR   string
	Status Status `store:"status"`
}

// Status is written by the controller, and only moves forward.
type Status struct {
	ID    string // of the network in the cloud; never changes
	Ready bool   // the record exists
}

// Record tells others where the network of the same key is.
type Record struct{ ID string }

// Cloud creates networks.
type Cloud interface {
	// Create creates a network. If it is called with the same token again, it returns the first network. An empty token means none.
	Create(ctx context.Context, cidr, token string) (id string, err error)
}

// caches returns the informers of both kinds.
func caches(networks store.Store[Network], records store.Store[Record]) (*store.Informer[Network], *store.Informer[Record], error) {
	cached, err := informer.New(networks, store.Key, informer.Config{Name: "networks"})
	if err != nil {
		return nil, nil, err
	}
	known, err := informer.New(records, store.Key, informer.Config{Name: "records"})
	return cached, known, err
}

// networkOf maps a record to its network.
func networkOf(_ context.Context, r store.Object[Record]) ([]string, error) {
	return []string{r.Key}, nil
}

// unless returns err, or nil if the error means that the work was already done.
func unless(err, done error) error {
	if errors.Is(err, done) {
		return nil
	}
	return err
}
