// Package levels is chapter 1 of "Effective controllers": docs/effective/01-levels.md. A site wants a number of servers. The wrong
// controller turns events into orders. The right one compares the desired state with the actual state.
package levels

import (
	"errors"
	"fmt"

	"github.com/setpoint-go/setpoint/store"
)

// Site is what the user wants.
type Site struct{ Servers int }

// Server is an object that the controller makes.
type Server struct{ Site string }

// serverKey returns the key of a server of a site.
func serverKey(site string, i int) string { return fmt.Sprintf("%s-%d", site, i) }

// unless returns err, or nil if the error means that the work was already done.
func unless(err, done error) error {
	if errors.Is(err, done) {
		return nil
	}
	return err
}

// newServer returns a server of a site, to be created.
func newServer(site string, i int) store.Object[Server] {
	return store.Object[Server]{Key: serverKey(site, i), Value: Server{Site: site}}
}
