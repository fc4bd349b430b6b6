package redislease

import "cmp"

// Config is what a [Store] needs to know. The zero value is a good one.
type Config struct {
	// Prefix begins the name of every key in Redis: the hash of a lease is at Prefix + ":" + its key, and the set of all
	// at Prefix. In a cluster all must be in one slot, so it has to have a hash tag. Defaults to "{leases}".
	Prefix string

	_ [0]func()
}

// withDefaults returns a copy of c with every default in place.
func (c Config) withDefaults() Config {
	c.Prefix = cmp.Or(c.Prefix, "{leases}")
	return c
}
