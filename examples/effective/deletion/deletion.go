// Package deletion is chapter 7 of "Effective controllers": docs/effective/07-deletion.md. A site has an entry in the DNS, which is
// not an object of the store. The first wrong controller forgets the entry if it is not running when the site is deleted. The second
// one blocks the deletion forever if it stops at the wrong moment. The right one does neither.
package deletion

import (
	"context"
	"errors"
)

// Site is what the user wants.
type Site struct{ Address string }

// DNS is a service outside of the store.
type DNS interface {
	Put(ctx context.Context, name, address string) error

	// Remove removes the entry. It returns ErrNoEntry if there is none.
	Remove(ctx context.Context, name string) error
}

// ErrNoEntry means that the DNS has no entry with that name.
var ErrNoEntry = errors.New("no such entry")
