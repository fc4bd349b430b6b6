// Package proof is chapter 10 of "Effective controllers": docs/effective/10-proof.md. Each order gets an invoice. The wrong program loses
// invoices unless it stops gracefully, and reports that it is healthy even when it hangs. The right one loses nothing however it ends,
// and reports that it hangs.
package proof

// Order is what the user wants.
type Order struct {
	Item   string
	Billed bool `store:"status"`
}

// Invoice is made by the controller for an order, under the same key.
type Invoice struct{ Item string }
