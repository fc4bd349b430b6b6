// Package failure is chapter 4 of "Effective controllers": docs/effective/04-failure.md. A controller orders certificates from an
// authority. The wrong one orders again and again when the authority refuses. The right one has a budget, and writes it down.
package failure

import (
	"context"
	"time"
)

// Certificate is what the user wants: a certificate for a domain.
type Certificate struct {
	Domain string
	Status Status `store:"status"`
}

// Status is written by the controller.
type Status struct {
	Issued     string    `json:",omitzero"` // the domain of the current certificate
	Reason     string    `json:",omitzero"` // why the last order failed
	Generation int64     `json:",omitzero"` // the generation of the following fields
	Attempts   int       `json:",omitzero"` // orders so far
	NotBefore  time.Time `json:",omitzero"` // earliest time of the next order
}

// Authority issues certificates.
type Authority interface {
	Order(ctx context.Context, domain string) error
}
