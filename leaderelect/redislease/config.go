package redislease

import "cmp"

// Config configures a [Store]. The zero value is ready for use.
type Config struct {
	// Prefix is the prefix of every key in Redis. The hash of a lease has the key Prefix + ":" + the key of the lease.
	// The set of all leases has the key Prefix. In a cluster, all must be in one slot, so Prefix needs a hash tag.
	// Defaults to "{leases}".
	Prefix string

	_ [0]func()
}

// withDefaults returns a copy of c with every default in place.
func (c Config) withDefaults() Config {
	c.Prefix = cmp.Or(c.Prefix, "{leases}")
	return c
}
