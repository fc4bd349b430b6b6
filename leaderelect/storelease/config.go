package storelease

import "cmp"

// Config configures a [Store]. The zero value is ready for use.
type Config struct {
	// Prefix begins the key of every object that keeps a lease. Defaults to "lease/".
	Prefix string

	// Unfenced is for keys of leases that are not unique in the database, because several Prefixes are used.
	//
	// By default, every takeover fences the database. Once the takeover is acknowledged, the database refuses all writes
	// with an earlier term of the lease, even if the new leader has not written yet. An unfenced lease accepts the old
	// leader until the new one writes. Defaults to false.
	Unfenced bool

	_ [0]func()
}

// withDefaults returns a copy of c with every default in place.
func (c Config) withDefaults() Config {
	c.Prefix = cmp.Or(c.Prefix, "lease/")
	return c
}
