package storelease

import "cmp"

// Config is what a [Store] needs to know. The zero value is a good one.
type Config struct {
	// Prefix begins the key of every object that keeps a lease. Defaults to "lease/".
	Prefix string

	// Unfenced is for several leases in one database, such as those of leaderelect.Slots. Their terms are not
	// comparable, and store.IfTerm compares with the greatest term of all, so leases that fence would refuse each other.
	//
	// By default every takeover fences the database: once it is acknowledged, the database refuses all writes with
	// store.IfTerm of earlier terms, even if the new leader has not written yet. An unfenced lease accepts the old
	// leader until the new one writes with IfTerm. Defaults to false.
	Unfenced bool

	_ [0]func()
}

// withDefaults returns a copy of c with every default in place.
func (c Config) withDefaults() Config {
	c.Prefix = cmp.Or(c.Prefix, "lease/")
	return c
}
